"""Layer norms and RMS norms: the source of every variant, run on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

# Odd lengths, whole packs in fp16 and in fp32 alone, and rows of which a thread has several packs. Merged patches have
# such numbers of channels.
SIZES: Mapping[str, tuple[Mapping[str, int], ...]] = {
    **dict.fromkeys(("layer_norm", "add_rms_norm"), tuple({"rows": 5, "k": k} for k in (7, 96, 44, 2083))),
    "merge_layer_norm": (
        {"n": 3, "h": 2, "w": 10, "k": 28},
        {"n": 1, "h": 6, "w": 6, "k": 96},
        {"n": 1, "h": 4, "w": 2, "k": 176},
        {"n": 1, "h": 2, "w": 6, "k": 2084},
    ),
}
# Of a kernel, as variant, types and number of the sizes; the others are the same source.
QUICK = [("lanes8", "fp16", 0), ("lanes16", "fp32", 1), ("row128", "fp16", 3), ("block", "fp16", 3)]


def calls() -> Iterator[object]:
    for name, sizes in SIZES.items():
        kernel = registry.kernel(name)
        for variant in kernel.variants:
            for index, axes in enumerate(sizes):
                for types in kernel.types:
                    if kernel.bind_axes(axes, types, {}).fits(variant):
                        marks = [] if (variant.name, types.name, index) in QUICK else [pytest.mark.slow]
                        case = (name, variant.name, axes, types.name)
                        yield pytest.param(*case, marks=marks, id=f"{name}-{variant.name}-{types.name}-{axes['k']}")


@needs_gcc
@pytest.mark.parametrize(("name", "variant", "axes", "types"), [*calls()])
def test_the_source_computes_the_reference(
    name: str, variant: str, axes: Mapping[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = disagreement_on_cpu(registry.kernel(name), variant, axes, {}, unchanged, tmp_path_factory, types)
    assert found is None


@needs_gcc
@pytest.mark.parametrize("variant", ["lanes16", "row128", "block"])
def test_what_is_not_finite_stays_in_the_row_of_its_pixel(
    variant: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][0, 1, 3, 2] = np.nan
        plain[0][0, 4, 0, 23] = np.inf

    kernel = registry.kernel("merge_layer_norm")
    axes = SIZES[kernel.name][1]
    assert disagreement_on_cpu(kernel, variant, axes, {}, change, tmp_path_factory, "fp16") is None
