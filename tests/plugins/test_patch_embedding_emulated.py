"""Patches of images times filters: its own sources, run on the CPU, with tiles that end within an image."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

KERNEL = registry.kernel("patch_embedding")
# One patch; several tiles a block, over images of 77 patches; one step; a last chunk that is not full; one channel.
ONE = {"n": 1, "c": 3, "h": 16, "w": 16, "k": 40, "size": 16}
MANY = {"n": 4, "c": 4, "h": 56, "w": 88, "k": 136, "size": 8}
SHALLOW = {"n": 3, "c": 3, "h": 28, "w": 36, "k": 96, "size": 4}
PART = {"n": 5, "c": 5, "h": 20, "w": 28, "k": 72, "size": 4}
GREY = {"n": 1, "c": 1, "h": 96, "w": 64, "k": 32, "size": 32}
DEEP = {"n": 3, "c": 3, "h": 48, "w": 80, "k": 200, "size": 16}
TWELVE = {"n": 9, "c": 2, "h": 36, "w": 60, "k": 48, "size": 12}


def check(
    variant: str, sizes: dict[str, int], change: Callable[[list[np.ndarray]], None], factory: pytest.TempPathFactory
) -> None:
    """Compare a variant with the reference, after ``change`` of the inputs as ONNX has them."""
    axes = {name: size for name, size in sizes.items() if name != "size"}
    assert disagreement_on_cpu(KERNEL, variant, axes, {"size": sizes["size"]}, change, factory) is None


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "sizes"),
    [
        ("wgmma", MANY),
        ("wgmma", SHALLOW),
        ("wgmma", PART),
        pytest.param("wgmma", ONE, marks=pytest.mark.slow),
        pytest.param("wgmma", GREY, marks=pytest.mark.slow),
        pytest.param("wgmma", TWELVE, marks=pytest.mark.slow),
        ("by2_wgmma", SHALLOW),
        pytest.param("by2_wgmma", PART, marks=pytest.mark.slow),
        pytest.param("by4_wgmma", DEEP, marks=pytest.mark.slow),
        pytest.param("by8_wgmma", DEEP, marks=pytest.mark.slow),
        pytest.param("by8_wgmma", ONE, marks=pytest.mark.slow),
        ("direct", SHALLOW),
        pytest.param("direct", PART, marks=pytest.mark.slow),
        pytest.param("direct", TWELVE, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_source_computes_the_reference(
    variant: str, sizes: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(variant, sizes, unchanged, tmp_path_factory)


@needs_gcc
@pytest.mark.parametrize("variant", ["wgmma", pytest.param("by2_wgmma", marks=pytest.mark.slow)])
@pytest.mark.parametrize("value", [np.inf, np.nan, 3.4028234e38, 65510.0])
def test_numbers_that_cannot_be_split_are_multiplied_as_they_are(
    variant: str, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][1, 2, 13, 30] = value
        plain[1][:, 2] = np.sign(plain[1][:, 2])  # an infinity times their low part, zero, would be NaN

    check(variant, SHALLOW, change, tmp_path_factory)


@needs_gcc
@pytest.mark.parametrize("variant", ["wgmma", pytest.param("by2_wgmma", marks=pytest.mark.slow)])
@pytest.mark.parametrize("exponents", [(-40, 0), (-16, 0), (40, -60), (0, 30)])
def test_numbers_far_from_one_are_as_exact(
    variant: str, exponents: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        for array, exponent in zip((plain[0], plain[1]), exponents, strict=True):
            array *= np.float32(2.0**exponent)
        plain[2] *= 0

    check(variant, SHALLOW, change, tmp_path_factory)
