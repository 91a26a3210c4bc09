"""A depthwise convolution and a layer norm: their own source, run on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

KERNEL = registry.kernel("depthwise_layer_norm")
# A tile that its image does not fill; several tiles; clusters of which a block has fewer channels than others; one of
# eight blocks.
ONE = {"n": 1, "group": 8, "h": 3, "w": 5}
TILES = {"n": 2, "group": 40, "h": 14, "w": 14}
PARTS = {"n": 1, "group": 168, "h": 9, "w": 20}
SMALL = {"n": 1, "group": 72, "h": 7, "w": 7}


def sizes_of(case: dict[str, int]) -> tuple[dict[str, int], dict[str, float]]:
    """Return the axes and the attributes."""
    axes = dict(case)
    return axes, {"epsilon": 1e-6, "group": axes.pop("group")}


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "axes", "types"),
    [
        ("tensor_5", TILES, "fp16"),
        ("direct", TILES, "fp16"),
        ("by2_12", PARTS, "fp16"),
        pytest.param("tensor_5", ONE, "bf16", marks=pytest.mark.slow),
        pytest.param("by2_6", TILES, "bf16", marks=pytest.mark.slow),
        pytest.param("by4_6", PARTS, "bf16", marks=pytest.mark.slow),
        pytest.param("by8_5", SMALL, "fp16", marks=pytest.mark.slow),
        pytest.param("direct", PARTS, "bf16", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_source_computes_the_reference(
    variant: str, axes: dict[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_on_cpu(KERNEL, variant, *sizes_of(axes), unchanged, tmp_path_factory, types) is None


@needs_gcc
def test_threads_copy_where_a_route_has_no_tensor_maps(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = disagreement_on_cpu(KERNEL, "by2_12", *sizes_of(PARTS), unchanged, tmp_path_factory, "fp16", maps=False)
    assert found is None


@needs_gcc
@pytest.mark.parametrize("value", [np.inf, np.nan, 65504.0])
def test_what_is_not_finite_stays_in_its_windows(value: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][1, 3, 0, 5] = value

    assert disagreement_on_cpu(KERNEL, "tensor_5", *sizes_of(TILES), change, tmp_path_factory, "fp16") is None
