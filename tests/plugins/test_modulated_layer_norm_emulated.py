"""Modulated layer norms: the source of every variant, run on the CPU, with tensors of one part and of several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

LENGTHS = (8, 96, 40, 2088)
PARTS = {"factor": (1, 0), "shift": (3, 2), "gate": (6, 5)}  # how many, and which one
# As variant, types and length; the others are the same source.
QUICK = [("lanes8", "fp16", 8), ("lanes16", "fp32", 96), ("row128", "fp16", 2088), ("block", "fp16", 2088)]


def calls() -> Iterator[object]:
    for name in ("modulated_layer_norm", "add_modulated_layer_norm", "gate_add_modulated_layer_norm"):
        kernel = registry.kernel(name)
        parts = {key: each for key, each in PARTS.items() if f"{key}_part" in {a.name for a in kernel.attributes}}
        attributes = {f"{key}_part": which for key, (_, which) in parts.items()}
        for k in LENGTHS:
            axes = {"n": 3, "t": 5, **{f"{key}s": count for key, (count, _) in parts.items()}, "k": k}
            for types in kernel.types:
                for variant in kernel.variants:
                    if kernel.bind_axes(axes, types, attributes).fits(variant):
                        marks = [] if (variant.name, types.name, k) in QUICK else [pytest.mark.slow]
                        case = (name, variant.name, types.name, axes, attributes)
                        yield pytest.param(*case, marks=marks, id=f"{name}-{variant.name}-{types.name}-{k}")


@needs_gcc
@pytest.mark.parametrize(("name", "variant", "types", "axes", "attributes"), [*calls()])
def test_the_source_computes_the_reference(
    name: str,
    variant: str,
    types: str,
    axes: Mapping[str, int],
    attributes: Mapping[str, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    found = disagreement_on_cpu(registry.kernel(name), variant, axes, attributes, unchanged, tmp_path_factory, types)
    assert found is None
