"""Attention on tensor cores and by rows: their own sources, run on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import expected_outputs, kernel_inputs, plain_inputs, relative_error

Change = Callable[[list[np.ndarray]], None]
# Queries that do not fill a block, or a warp; several steps of keys, the last one with a few; heads side by side.
PLAIN = {"n": 2, "m": 70, "t": 131, "h": 2, "d": 32}
ONE_HEAD = {**PLAIN, "n": 1, "h": 1}
DEEP = {"n": 1, "m": 5, "t": 70, "h": 1, "d": 80}
MASKED = {"outer": 2, "repeat": 2, "inner": 1, "m": 49, "t": 49, "h": 2, "d": 32, "mask_heads": 2, "mask_rows": 49}
SEQUENCE = {"n": 2, "a": 1, "r": 70, "b": 1, "c": 1, "h": 2, "d": 32}
TOKENS_FIRST = {"n": 1, "a": 1, "r": 101, "b": 2, "c": 1, "h": 1, "d": 64}
WINDOWS = {"n": 2, "a": 2, "r": 7, "b": 3, "c": 7, "h": 2, "d": 32, "shift": 3}
# Heads as of Stable Diffusion 1.5, which are no multiple of 16 numbers.
NARROW = {**ONE_HEAD, "d": 40}
# More keys than warps have at a time, and warps that have none; heads that are no multiple of 16 numbers.
MANY_KEYS = {"n": 1, "a": 1, "r": 300, "b": 1, "c": 1, "h": 1, "d": 16}
UNEVEN = {"n": 1, "a": 2, "r": 3, "b": 2, "c": 5, "h": 2, "d": 20, "shift": 2}
ALL_MASKS = {"mask_windows": 6, "mask_heads": 2, "mask_rows": 49}
# A mask of padding for each text; as there are more warps than 32 keys, some have none.
OF_KEYS = {"mask_windows": 1, "mask_heads": 1, "mask_rows": 1}
MANY_TEXTS = {"n": 1, "a": 3, "r": 101, "b": 1, "c": 1, "h": 2, "d": 64, **OF_KEYS, "mask_windows": 3}
PADDED = {"outer": 2, "repeat": 1, "inner": 2, "m": 17, "t": 90, "h": 3, "d": 16, "mask_heads": 1, "mask_rows": 1}


def check(
    name: str,
    variant: str,
    axes: dict[str, int],
    factory: pytest.TempPathFactory,
    change: Change = unchanged,
    types: str = "fp32",
) -> None:
    """Compare a variant with the reference, after ``change`` of the inputs."""
    axes = dict(axes)
    shift = {"shift": axes.pop("shift", 0)} if "self" in name else {}
    attributes = {"scale": 0.3, **shift}
    assert disagreement_on_cpu(registry.kernel(name), variant, axes, attributes, change, factory, types) is None


@needs_gcc
@pytest.mark.parametrize("types", ["fp16", pytest.param("bf16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "variant", "axes"),
    [
        pytest.param("attention", "wgmma128", PLAIN, marks=pytest.mark.slow),
        pytest.param("attention", "wgmma256", {**PLAIN, "m": 600, "t": 65}, marks=pytest.mark.slow),
        pytest.param("self_attention", "wgmma256", {**TOKENS_FIRST, "r": 290}, marks=pytest.mark.slow),
        ("self_attention", "wgmma128", WINDOWS),
        ("attention", "wgmma128", NARROW),
        pytest.param("attention", "wgmma128", {**NARROW, "d": 24}, marks=pytest.mark.slow),
        pytest.param("self_attention", "wgmma256", {**WINDOWS, "d": 56}, marks=pytest.mark.slow),
        ("attention", "wgmma128", {**NARROW, "d": 80}),
        pytest.param("attention", "wgmma192", {**NARROW, "d": 72}, marks=pytest.mark.slow),
        pytest.param("attention", "wgmma192", {**NARROW, "m": 300, "d": 128}, marks=pytest.mark.slow),
        pytest.param("self_attention", "wgmma128", {**WINDOWS, "d": 160}, marks=pytest.mark.slow),
        (
            "masked_self_attention",
            "tiles",
            {**SEQUENCE, "r": 260, "mask_windows": 1, "mask_heads": 2, "mask_rows": 260},
        ),
    ],
    ids=str,
)
def test_wgmma_computes_the_reference(
    name: str, variant: str, axes: dict[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(name, variant, axes, tmp_path_factory, types=types)


@needs_gcc
@pytest.mark.parametrize("types", ["fp32", *(pytest.param(each, marks=pytest.mark.slow) for each in ("fp16", "bf16"))])
@pytest.mark.parametrize(
    ("name", "variant", "axes"),
    [
        ("attention", "tensor64", PLAIN),
        pytest.param("attention", "tensor128", PLAIN, marks=pytest.mark.slow),
        pytest.param("attention", "tensor64", DEEP, marks=pytest.mark.slow),
        pytest.param("attention", "rows", DEEP, marks=pytest.mark.slow),
        ("masked_attention", "tensor64", MASKED),
        pytest.param("masked_attention", "tensor64", PADDED, marks=pytest.mark.slow),
        ("masked_attention", "rows", PADDED),
        pytest.param("self_attention", "tensor64", SEQUENCE, marks=pytest.mark.slow),
        ("self_attention", "divided", TOKENS_FIRST),
        pytest.param("self_attention", "divided", MANY_KEYS, marks=pytest.mark.slow),
        pytest.param("self_attention", "tensor64", WINDOWS, marks=pytest.mark.slow),
        pytest.param("self_attention", "tensor128", TOKENS_FIRST, marks=pytest.mark.slow),
        pytest.param("self_attention", "rows", UNEVEN, marks=pytest.mark.slow),
        ("masked_self_attention", "tensor64", WINDOWS | ALL_MASKS),
        ("masked_self_attention", "divided", WINDOWS | ALL_MASKS),
        pytest.param("masked_self_attention", "tensor64", SEQUENCE | OF_KEYS, marks=pytest.mark.slow),
        pytest.param("masked_self_attention", "divided", SEQUENCE | OF_KEYS, marks=pytest.mark.slow),
        pytest.param("masked_self_attention", "rows", WINDOWS | ALL_MASKS, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_source_computes_the_reference(
    name: str, variant: str, axes: dict[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(name, variant, axes, tmp_path_factory, types=types)


def test_windows_need_no_workspace() -> None:
    """An engine reserves what its variants need, and an image has many windows."""
    kernel = registry.kernel("masked_self_attention")
    tiles = kernel.variant("tiles")
    for axes, needed in ((WINDOWS | ALL_MASKS, False), ({**SEQUENCE, "r": 300, **OF_KEYS}, True)):
        sizes = dict(axes)
        shift = sizes.pop("shift", 0)
        bound = kernel.bind_axes(sizes, kernel.types_named("fp16"), {"scale": 0.3, "shift": shift})
        assert bound.fits(tiles) is needed
        assert bool(bound.workspace_bytes(tiles)) is needed


@needs_gcc
@pytest.mark.parametrize("place", ["q", "k", "v"])
@pytest.mark.parametrize("value", [np.inf, np.nan, 65510.0, 1e30])
def test_numbers_that_cannot_be_split_are_multiplied_as_they_are(
    place: str, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(inputs: list[np.ndarray]) -> None:
        inputs["qkv".index(place)][0, 3, 0, 7] = value

    check("attention", "tensor64", ONE_HEAD, tmp_path_factory, change)


@needs_gcc
@pytest.mark.parametrize("exponents", [(-40, 0, 0), (-20, 20, 0), (0, 0, -40), (0, 0, 40), (14, -14, 10), (0, 0, -100)])
def test_numbers_far_from_one_are_as_exact(
    exponents: tuple[int, int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(inputs: list[np.ndarray]) -> None:
        for array, exponent in zip(inputs, exponents, strict=True):
            array *= np.float32(2.0**exponent)

    check("attention", "tensor64", ONE_HEAD, tmp_path_factory, change)


@needs_gcc
@pytest.mark.parametrize("hidden", [-np.inf, np.finfo(np.float32).min], ids=["infinity", "least"])
@pytest.mark.parametrize("all_of_a_row", [False, True], ids=["some", "all"])
def test_masks_hide_keys(hidden: float, all_of_a_row: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where minus infinity hides all keys, the result is zeros; where the least float does, it is a mean."""

    def change(inputs: list[np.ndarray]) -> None:
        inputs[3][..., ::3] = hidden
        if all_of_a_row:
            inputs[3][0, ..., 5, :] = hidden

    check("masked_attention", "tensor64", MASKED, tmp_path_factory, change)


@needs_gcc
@pytest.mark.parametrize("types", ["fp16", "bf16"])
@pytest.mark.parametrize("least", [False, True], ids=["infinity", "least"])
def test_masks_in_half_precision_hide_keys(types: str, least: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The least bfloat16 is so large that a factor would make it infinite."""

    def change(inputs: list[np.ndarray]) -> None:
        mask = inputs[3]
        hidden = ml_dtypes.finfo(mask.dtype).min if least else -np.inf
        mask[..., ::3] = hidden
        mask[0, ..., 5, :] = hidden

    check("masked_attention", "tensor64", MASKED, tmp_path_factory, change, types)


@needs_gcc
@pytest.mark.parametrize("types", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize(
    ("name", "variant", "axes"),
    [
        ("masked_attention", "tensor64", MASKED),
        pytest.param("masked_attention", "tensor128", MASKED, marks=pytest.mark.slow),
        ("masked_attention", "rows", PADDED),
        ("masked_attention", "tensor64", PADDED),
        pytest.param("masked_self_attention", "tensor64", WINDOWS | ALL_MASKS, marks=pytest.mark.slow),
        pytest.param("masked_self_attention", "tensor128", WINDOWS | ALL_MASKS, marks=pytest.mark.slow),
        ("masked_self_attention", "divided", MANY_TEXTS),
        pytest.param("masked_self_attention", "rows", WINDOWS | ALL_MASKS, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_rows_without_a_key_are_zeros(
    name: str, variant: str, axes: dict[str, int], types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Rows of NaN stay NaN, and the others are as exact as ever."""
    axes = dict(axes)
    shift = {"shift": axes.pop("shift", 0)} if "self" in name else {}
    kernel = registry.kernel(name)
    bound = kernel.bind_axes(axes, kernel.types_named(types), {"scale": 0.3, **shift})
    inputs = plain_inputs(bound, np.random.default_rng(5))
    mask = inputs[-1]
    with np.errstate(over="ignore"):
        hidden = np.float32(-3.4028235e38).astype(mask.dtype) if types != "fp32" else -np.inf
    assert np.isneginf(np.float32(hidden))
    matrices = mask.reshape(-1, *mask.shape[-2:])
    matrices[0] = hidden  # a text of padding alone
    matrices[-1, :, ::3] = hidden
    matrices[-1, matrices.shape[1] // 2, 5:] = hidden
    if matrices.shape[1] > 1:
        matrices[-1, [0, 16, -1]] = hidden
    inputs[0].reshape(-1)[-1] = np.nan  # of a query of the last head, or of a value
    with np.errstate(invalid="ignore"):
        (wanted,) = expected_outputs(bound, inputs)
    (found,) = computed_on_cpu(bound, kernel.variant(variant), kernel_inputs(bound, inputs), tmp_path_factory)
    assert np.isnan(wanted).any()
    assert (wanted == 0).all(axis=-1).any()
    assert not found[wanted == 0].any()
    assert relative_error(found, wanted) <= bound.types.tolerance


@needs_gcc
@pytest.mark.parametrize("types", ["fp16", pytest.param("fp32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("keys", [3, 32])
def test_a_row_whose_products_are_minus_infinity_is_zeros(
    keys: int, types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Behind the last key lie zeros, and zero times infinity is NaN."""

    def change(inputs: list[np.ndarray]) -> None:
        inputs[0][..., 0, :, 5] = np.inf
        inputs[1][..., 5] = -1

    axes = MASKED | {"m": 2, "t": keys, "mask_rows": 1}
    check("masked_attention", "tensor64", axes, tmp_path_factory, change, types)


@needs_gcc
@pytest.mark.parametrize("value", [1e30, np.inf, np.nan])
def test_a_row_without_a_key_is_zeros_where_values_are_numbers(
    value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Values beyond fp16 cannot be split; zero times infinity is NaN, as in a product of matrices."""

    def change(inputs: list[np.ndarray]) -> None:
        inputs[3][0] = -np.inf
        inputs[2][..., 3, :, 7] = value

    check("masked_attention", "tensor64", MASKED, tmp_path_factory, change)


@needs_gcc
@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize(
    "value", [np.nan, 65510.0, *(pytest.param(value, marks=pytest.mark.slow) for value in (np.inf, 1e30))]
)
def test_warps_that_divide_keys_compute_such_numbers_again(
    part: int, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(inputs: list[np.ndarray]) -> None:
        inputs[0][0, 0, 40, 1, 0, part, 0, 7] = value

    check("self_attention", "divided", TOKENS_FIRST, tmp_path_factory, change)


@needs_gcc
@pytest.mark.parametrize(
    "exponents",
    [
        (-20, 20, 0),
        (0, 0, -40),
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ((-40, 0, 0), (0, 0, 40), (14, -14, 10), (0, 0, -100))
        ),
    ],
)
def test_warps_that_divide_keys_are_as_exact_far_from_one(
    exponents: tuple[int, int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(inputs: list[np.ndarray]) -> None:
        inputs[0] *= np.float32(2.0) ** np.array(exponents, np.float32)[:, None, None]

    check("self_attention", "divided", TOKENS_FIRST, tmp_path_factory, change)


@needs_gcc
@pytest.mark.parametrize("types", ["fp32", "fp16"])
@pytest.mark.parametrize("hidden", [range(32, 64), range(101)])
def test_warps_whose_keys_are_hidden(hidden: range, types: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A warp without a key that counts adds nothing; a row of hidden keys is zeros."""

    def change(inputs: list[np.ndarray]) -> None:
        inputs[1][..., list(hidden)] = -np.inf

    check("masked_self_attention", "divided", TOKENS_FIRST | OF_KEYS, tmp_path_factory, change, types)
