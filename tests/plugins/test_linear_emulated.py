"""The dense layer over the last axis: its own sources, run on the CPU in floats and in fp16."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import Kernel, registry

Change = Callable[[list[np.ndarray]], None]
LINEAR, LINEAR_HALF = registry.kernel("linear"), registry.kernel("linear_half")
# Rows and outputs that do not fill a tile; several tiles a block; stages of 64 inputs; blocks with several steps each.
FEW = {"n": 5, "in": 64, "out": 40}
MANY = {"n": 259, "in": 96, "out": 136}
WIDE = {"n": 130, "in": 320, "out": 264}
DEEP = {"n": 67, "in": 288, "out": 200}
# Inputs that do not fill the last chunk: of a step of two chunks, and of one.
PART, ODD_PART = {"n": 131, "in": 40, "out": 72}, {"n": 130, "in": 72, "out": 264}


# Sums become outputs from registers, and from the shared memory of a cluster.
either_end = pytest.mark.parametrize(
    ("variant", "axes"), [("wgmma", MANY), pytest.param("by2_wgmma", FEW, marks=pytest.mark.slow)]
)


def check(
    variant: str,
    axes: dict[str, int],
    activation: str,
    change: Change,
    factory: pytest.TempPathFactory,
    kernel: Kernel = LINEAR,
    types: str = "fp32",
    maps: bool = True,
) -> None:
    """Compare a variant with the reference, after ``change`` of the inputs as ONNX has them."""
    assert disagreement_on_cpu(kernel, variant, axes, {"activation": activation}, change, factory, types, maps) is None


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "axes"),
    [
        ("wgmma", MANY),
        pytest.param("wgmma", WIDE, marks=pytest.mark.slow),
        pytest.param("by2_wgmma", FEW, marks=pytest.mark.slow),
        pytest.param("by4_wgmma", DEEP, marks=pytest.mark.slow),
        pytest.param("by8_wgmma", DEEP, marks=pytest.mark.slow),
        ("direct", FEW),
        ("wgmma", PART),
        pytest.param("wgmma", ODD_PART, marks=pytest.mark.slow),
        pytest.param("by2_wgmma", PART, marks=pytest.mark.slow),
        pytest.param("direct", PART, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_source_computes_the_reference(
    variant: str, axes: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(variant, axes, "gelu", unchanged, tmp_path_factory)


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "axes"),
    [
        ("wide_wgmma", WIDE),
        pytest.param("less_wide_wgmma", WIDE, marks=pytest.mark.slow),
        ("wgmma", MANY),
        ("by2_wgmma", FEW),
        pytest.param("by8_wgmma", DEEP, marks=pytest.mark.slow),
        ("direct", FEW),
        ("wgmma", PART),
        pytest.param("wide_wgmma", ODD_PART, marks=pytest.mark.slow),
        pytest.param("by2_wgmma", PART, marks=pytest.mark.slow),
        pytest.param("direct", PART, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_source_computes_the_reference_in_fp16(
    variant: str, axes: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(variant, axes, "gelu", unchanged, tmp_path_factory, LINEAR_HALF, "fp16")


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "axes", "activation", "types"),
    [
        # Blocks of 8 outputs. Chunks for two of eight warps, the last with 8 inputs.
        ("few8", {"n": 1, "in": 40, "out": 40}, "gelu", "fp16"),
        ("few16", {"n": 1, "in": 40, "out": 72}, "quick_gelu", "bf16"),
        # All weights of a warp are loaded at once, and not all.
        ("few8", {"n": 5, "in": 1160, "out": 72}, "silu", "bf16"),
        ("few16", {"n": 9, "in": 1160, "out": 40}, "gelu_tanh", "fp16"),
        ("few8", {"n": 8, "in": 2400, "out": 32}, "none", "fp16"),
        ("few16", {"n": 16, "in": 2392, "out": 40}, "none", "bf16"),
        # Blocks of 16 outputs, the last of which has 8; with fewer registers.
        ("few8", {"n": 8, "in": 1160, "out": 2056}, "relu", "fp16"),
        pytest.param("few16", {"n": 16, "in": 1160, "out": 2056}, "none", "bf16", marks=pytest.mark.slow),
        pytest.param("few8", {"n": 5, "in": 808, "out": 6152}, "none", "bf16", marks=pytest.mark.slow),
        ("few16", {"n": 16, "in": 808, "out": 6160}, "none", "fp16"),
        # Two products of 16 rows; blocks of 8, of 16 and of 32 outputs, the last of which has 8.
        ("few32", {"n": 19, "in": 40, "out": 40}, "silu", "fp16"),
        ("few32", {"n": 32, "in": 1160, "out": 72}, "none", "bf16"),
        pytest.param("few32", {"n": 27, "in": 1160, "out": 2056}, "gelu", "bf16", marks=pytest.mark.slow),
        ("few32", {"n": 32, "in": 296, "out": 4104}, "none", "fp16"),
        pytest.param("few32", {"n": 32, "in": 1320, "out": 4120}, "relu", "fp16", marks=pytest.mark.slow),
        pytest.param("few32", {"n": 17, "in": 40, "out": 8200}, "none", "fp16", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_few_rows(
    variant: str, axes: dict[str, int], activation: str, types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(variant, axes, activation, unchanged, tmp_path_factory, LINEAR_HALF, types)


@needs_gcc
@pytest.mark.parametrize("inputs", [40, 2392])
def test_no_infinity_meets_the_zeros_behind_the_last_chunk(
    inputs: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][1] = np.inf
        plain[1][:] = np.abs(plain[1]) + np.float16(0.01)  # the products are infinite too, and of one sign

    for variant in ("few8", "few16", "few32"):
        axes = {"n": 3, "in": inputs, "out": 40}
        check(variant, axes, "none", change, tmp_path_factory, LINEAR_HALF, "fp16")


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "axes"),
    [
        # Stages of 64 inputs, and of 32: rows and inputs that do not fill the last box.
        ("wide_wgmma", PART),
        ("by2_wgmma", PART),
        pytest.param("wide_wgmma", ODD_PART, marks=pytest.mark.slow),
        pytest.param("by4_wgmma", DEEP, marks=pytest.mark.slow),
        pytest.param("wgmma", MANY, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_launch_without_tensor_maps_computes_the_same(
    variant: str, axes: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(variant, axes, "none", unchanged, tmp_path_factory, LINEAR_HALF, "fp16", maps=False)


@needs_gcc
@pytest.mark.parametrize("activation", ["gelu_tanh", "quick_gelu"])
def test_the_approximations_of_gelu(activation: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[2][:4] = [1e3, 1e20, -1e3, -1e20]  # where the tanh and the sigmoid are 1 and 0

    check("direct", FEW, activation, change, tmp_path_factory)
    check("by2_wgmma", FEW, activation, unchanged, tmp_path_factory, LINEAR_HALF, "fp16")


@needs_gcc
@either_end
@pytest.mark.parametrize("value", [np.inf, np.nan, 3.4028234e38, 65510.0])
def test_numbers_that_cannot_be_split_are_multiplied_as_they_are(
    variant: str, axes: dict[str, int], value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][3, 7] = value
        plain[1][:, 7] = np.sign(plain[1][:, 7])  # an infinity times their low part, zero, would be NaN

    check(variant, axes, "gelu", change, tmp_path_factory)


@needs_gcc
@either_end
@pytest.mark.parametrize("exponents", [(-40, 0), (-16, 0), (40, 0), (40, -60), (0, -40), (0, 30)])
def test_numbers_far_from_one_are_as_exact(
    variant: str, axes: dict[str, int], exponents: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        for array, exponent in zip((plain[0], plain[1]), exponents, strict=True):
            array *= np.float32(2.0**exponent)
        plain[2] *= 0

    check(variant, axes, "none", change, tmp_path_factory)


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "axes", "types"),
    [
        ("wide_wgmma", {"n": 1, "h": 10, "w": 13, "in": 320, "out": 264}, "fp16"),
        ("by2_wgmma", {"n": 1, "h": 3, "w": 5, "in": 64, "out": 72}, "bf16"),
        pytest.param("wgmma", {"n": 2, "h": 9, "w": 10, "in": 160, "out": 40}, "bf16", marks=pytest.mark.slow),
        pytest.param("direct", {"n": 2, "h": 3, "w": 5, "in": 64, "out": 72}, "fp16", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_another_tensor_is_added(
    variant: str, axes: dict[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(variant, axes, "none", unchanged, tmp_path_factory, registry.kernel("linear_half_add"), types)
