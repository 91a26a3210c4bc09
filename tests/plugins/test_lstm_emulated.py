"""The LSTM on the CPU: its source, a fiber for each thread, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, needs_gcc
from lenet_trt.kernel.examples import relative_error
from lenet_trt.kernel.registry import kernel

KERNEL = kernel("lstm")
# Odd sizes, more sequences than a block takes, gates of more than one pass of the direct variant.
# The large variants are the same functions with more shared memory.
CASES = {
    "forward": {"steps": 5, "n": 5, "inputs": 7, "dirs": 1, "hidden_size": 9},
    "reverse": {"steps": 3, "n": 1, "inputs": 1, "dirs": 1, "hidden_size": 70},
    "bidirectional": {"steps": 4, "n": 6, "inputs": 20, "dirs": 2, "hidden_size": 128},
    "wide": {"steps": 2, "n": 2, "inputs": 3, "dirs": 2, "hidden_size": 300},
}


def test_every_variant_is_tried() -> None:
    calls = [
        KERNEL.bind_axes(
            {k: v for k, v in sizes.items() if k != "hidden_size"},
            types,
            {"hidden_size": sizes["hidden_size"], "direction": "forward"},
        )
        for sizes in CASES.values()
        for types in KERNEL.types
    ]
    assert all(any(bound.fits(variant) for bound in calls) for variant in KERNEL.variants)


@needs_gcc
@pytest.mark.parametrize("variant", [variant.name for variant in KERNEL.variants])
@pytest.mark.parametrize("case", CASES)
def test_a_variant_computes_every_step(case: str, variant: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    sizes = dict(CASES[case])
    attributes = {"hidden_size": sizes.pop("hidden_size"), "direction": "bidirectional" if case == "wide" else case}
    bound = KERNEL.bind_axes(sizes, KERNEL.types_named("fp32"), attributes)
    declared = KERNEL.variant(variant)
    if not bound.fits(declared):
        pytest.skip("the variant is for other sizes")
    random = np.random.default_rng(0)
    inputs = [random.uniform(-1, 1, shape).astype(np.float32) for shape in bound.input_shapes]
    found = computed_on_cpu(bound, declared, inputs, tmp_path_factory)
    wanted = KERNEL.reference(*(array.astype(np.float64) for array in inputs), **attributes)
    for seen, exact in zip(found, wanted, strict=True):
        assert relative_error(seen, exact) < 1e-6
