"""Attention with rotary positions, on tensor cores and by rows: its own sources, run on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import kernel_inputs, plain_inputs

KERNEL = registry.kernel("rotary_attention")
# Queries that do not fill a block, or a warp; several steps of keys, the last one with a few.
SHARED = {"n": 2, "b": 1, "t": 70, "g": 2, "d": 32, "mask_heads": 1, "mask_rows": 70}
DEEP = {"n": 1, "b": 1, "t": 69, "g": 1, "d": 80, "mask_heads": 3, "mask_rows": 1}
# More keys than warps have at a time, and warps that have none.
FEW_HEADS = {"n": 2, "b": 2, "t": 101, "g": 1, "d": 64, "mask_heads": 1, "mask_rows": 101}
MANY_KEYS = {"n": 1, "b": 1, "t": 300, "g": 1, "d": 16, "mask_heads": 1, "mask_rows": 1}
# Tiles of 128 tokens, the last one with a few; a mask for each text and head.
LONG = {"n": 1, "b": 2, "t": 300, "g": 1, "d": 32, "mask_heads": 3, "mask_rows": 300}
ATTRIBUTES = {"scale": 0.3, "repeats": 3}


@needs_gcc
@pytest.mark.parametrize("types", ["fp16", pytest.param("bf16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("variant", "axes"),
    [
        ("tensor64", SHARED),
        pytest.param("tensor64", DEEP, marks=pytest.mark.slow),
        pytest.param("tensor128", {**SHARED, "t": 131, "mask_rows": 131}, marks=pytest.mark.slow),
        ("divided", FEW_HEADS),
        pytest.param("divided", MANY_KEYS, marks=pytest.mark.slow),
        ("rows", DEEP),
        ("tiles", LONG),
        pytest.param("tiles", {**SHARED, "t": 131, "mask_rows": 131}, marks=pytest.mark.slow),
        pytest.param("tiles", {**LONG, "b": 1, "d": 96, "mask_heads": 1, "mask_rows": 1}, marks=pytest.mark.slow),
        pytest.param("tiles", {**LONG, "b": 1, "d": 128}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_it_computes_the_reference(
    variant: str, axes: dict[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_on_cpu(KERNEL, variant, axes, ATTRIBUTES, unchanged, tmp_path_factory, types) is None


def hide_every_second_key(arrays: list[np.ndarray]) -> None:
    arrays[3][..., ::2] = -np.inf


def hide_all_keys_of_a_row(arrays: list[np.ndarray]) -> None:
    arrays[3][..., 5, :] = -np.inf


@needs_gcc
@pytest.mark.parametrize("change", [hide_every_second_key, hide_all_keys_of_a_row])
def test_a_mask_hides_keys(
    change: Callable[[list[np.ndarray]], None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for variant in ("tensor64", "divided"):
        assert disagreement_on_cpu(KERNEL, variant, SHARED, ATTRIBUTES, change, tmp_path_factory, "fp16") is None


def hide_later_keys(arrays: list[np.ndarray], hidden: float = -np.inf) -> None:
    mask = arrays[3]
    mask[..., ~np.tri(mask.shape[-1], dtype=bool)] = hidden


def hide_later_keys_by_the_least_number(arrays: list[np.ndarray]) -> None:
    hide_later_keys(arrays, float(ml_dtypes.finfo(arrays[3].dtype).min))


def hide_padding_and_later_keys(arrays: list[np.ndarray]) -> None:
    """Some rows have no key; one whole tile, and part of the next one."""
    hide_later_keys(arrays)
    arrays[3][0, ..., :140] = -np.inf


def hide_all_but_a_few_keys(arrays: list[np.ndarray]) -> None:
    """The first tile counts for the first row alone, the second one for no row."""
    arrays[3][...] = -np.inf
    arrays[3][..., 0, 5] = 0.5
    arrays[3][..., 1:, 290:] = 0.0


def hide_a_key_that_is_no_number(arrays: list[np.ndarray]) -> None:
    """0 times NaN is NaN: all rows of these heads are, also those whose mask hides the token."""
    hide_later_keys(arrays)
    arrays[0][0, 1, -1, 3, 0, 3] = np.nan


def hide_a_value_that_is_no_number(arrays: list[np.ndarray]) -> None:
    hide_later_keys(arrays)
    arrays[0][0, 0, -1, 4, 0, 3] = np.nan


def scores_as_large_as_the_mask(arrays: list[np.ndarray]) -> None:
    """Of the first queries, the keys that the least float16 hides have larger sums than the others."""
    hide_later_keys_by_the_least_number(arrays)
    x, cos, sin, _ = arrays
    cos[...], sin[...] = 1.0, 0.0
    x[..., :4, :, :] = 0.0
    x[..., :3, :, 0] = 512.0
    x[:, :, :128, 3, :, 0] = -256.0
    x[:, :, 128:, 3, :, 0] = 256.0


@needs_gcc
@pytest.mark.parametrize("types", ["fp16", pytest.param("bf16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "change",
    [
        hide_later_keys,
        hide_later_keys_by_the_least_number,
        hide_padding_and_later_keys,
        hide_all_but_a_few_keys,
        hide_a_key_that_is_no_number,
        hide_a_value_that_is_no_number,
        scores_as_large_as_the_mask,
    ],
)
def test_tiles_that_a_mask_hides_change_nothing(
    change: Callable[[list[np.ndarray]], None], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_on_cpu(KERNEL, "tiles", LONG, ATTRIBUTES, change, tmp_path_factory, types) is None


@needs_gcc
def test_the_second_half_of_the_angles_is_not_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    bound = KERNEL.bind_axes(SHARED, KERNEL.types_named("fp16"), ATTRIBUTES)
    variant = KERNEL.variant("tensor64")
    arrays = kernel_inputs(bound, plain_inputs(bound, np.random.default_rng(0)))
    first = computed_on_cpu(bound, variant, arrays, tmp_path_factory)[0]
    for angles in arrays[1:3]:
        angles[:, 16:] = np.nan
    second = computed_on_cpu(bound, variant, arrays, tmp_path_factory)[0]
    np.testing.assert_array_equal(first, second)
