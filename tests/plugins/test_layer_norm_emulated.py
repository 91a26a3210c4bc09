"""Layer norms: the source of every variant, run on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

# Odd lengths, whole packs in fp16, whole packs in fp32 alone, and rows that are longer than a block's registers.
LENGTHS = (7, 96, 44, 2083)
SIZES: Mapping[str, tuple[Mapping[str, int], ...]] = {
    "layer_norm": tuple({"rows": 5, "k": k} for k in LENGTHS),
}
# The others are the same source with other sizes.
QUICK = [("lanes8", "fp16", 7), ("lanes16", "fp32", 96), ("row128", "fp16", 2083), ("block", "fp16", 2083)]


def calls() -> Iterator[object]:
    for name, sizes in SIZES.items():
        kernel = registry.kernel(name)
        for variant in kernel.variants:
            for length, axes in zip(LENGTHS, sizes, strict=True):
                for types in kernel.types:
                    if kernel.bind_axes(axes, types, {}).fits(variant):
                        marks = [] if (variant.name, types.name, length) in QUICK else [pytest.mark.slow]
                        case = (name, variant.name, axes, types.name)
                        yield pytest.param(*case, marks=marks, id=f"{name}-{variant.name}-{types.name}-{axes['k']}")


@needs_gcc
@pytest.mark.parametrize(("name", "variant", "axes", "types"), [*calls()])
def test_the_source_computes_the_reference(
    name: str, variant: str, axes: Mapping[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = disagreement_on_cpu(registry.kernel(name), variant, axes, {}, unchanged, tmp_path_factory, types)
    assert found is None
