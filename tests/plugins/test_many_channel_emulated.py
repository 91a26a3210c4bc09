"""The convolutions of many channels: their own sources, run on the CPU in floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import AttributeValue, registry

PLAIN, ADDS, ONE_AXIS = "many_channel_conv", "many_channel_conv_add", "many_channel_conv1d"
TRANSPOSED = "transposed_conv2x2"
SLOW = pytest.mark.slow
Change = Callable[[list[np.ndarray]], None]
Sizes = tuple[dict[str, int], dict[str, AttributeValue]]
SAME: dict[str, AttributeValue] = {"size": 3, "stride": 1, "pad": 1, "activation": "relu"}
POINTS: dict[str, AttributeValue] = {"size": 1, "stride": 1, "pad": 0, "activation": "silu"}
# Several images a tile, filters that do not fill it, odd planes; strides; copies of 16 bytes; stages of 8 and 16 rows.
ODD: Sizes = ({"n": 3, "c": 16, "h": 7, "w": 7, "k": 72}, SAME)
STRIDED: Sizes = ({"n": 1, "c": 24, "h": 9, "w": 14, "k": 16}, {**SAME, "stride": 2, "activation": "gelu"})
WIDE: Sizes = ({"n": 5, "c": 40, "h": 6, "w": 6, "k": 136}, POINTS)
# Stride 2 by wgmma: tiles have rows of several images, odd and even ones; filters fill a tile, half of one, or less.
TWO: dict[str, AttributeValue] = {**SAME, "stride": 2}
ODD_BY_2: Sizes = ({"n": 3, "c": 40, "h": 9, "w": 21, "k": 72}, TWO)
EVEN_BY_2: Sizes = ({"n": 5, "c": 24, "h": 14, "w": 14, "k": 192}, {**TWO, "activation": "gelu"})
NARROW_BY_2: Sizes = ({"n": 4, "c": 72, "h": 36, "w": 11, "k": 64}, TWO)
EVEN: Sizes = ({"n": 3, "c": 40, "h": 9, "w": 18, "k": 72}, {**SAME, "activation": "gelu"})
# Along one axis: tiles of one image and of two, an odd number of steps, taps far apart, filters that fill no block.
TAPS: dict[str, AttributeValue] = {"size": 9, "stride": 1, "pad": 12, "dilation": 3, "activation": "none"}
LONG: Sizes = ({"n": 2, "c": 40, "w": 301, "k": 72}, TAPS)
SHORT: Sizes = ({"n": 3, "c": 24, "w": 90, "k": 64}, {**TAPS, "size": 3, "pad": 0, "activation": "relu"})
FAR: Sizes = ({"n": 1, "c": 72, "w": 600, "k": 16}, {**TAPS, "size": 16, "dilation": 30, "pad": 225})
SKIPPING: Sizes = ({"n": 3, "c": 24, "w": 77, "k": 40}, {**TAPS, "stride": 2, "activation": "gelu"})
# Transposed: rows of x of an odd number of pixels, of an even one, and of one that 4 divides; filters fill no block.
BY_ONES: Sizes = ({"n": 3, "c": 24, "h": 5, "w": 7, "k": 24}, {"activation": "relu"})
BY_TWOS: Sizes = ({"n": 2, "c": 40, "h": 7, "w": 6, "k": 16}, {"activation": "gelu"})
BY_FOURS: Sizes = ({"n": 3, "c": 64, "h": 9, "w": 12, "k": 40}, {"activation": "none"})
# One pixel an output: tiles with pixels of several images, in planes that 4 divides, 2, or neither; channels that fill
# no stage; filters of one block, of a tile, and of more.
FOURS: Sizes = ({"n": 3, "c": 40, "h": 6, "w": 10, "k": 136}, POINTS)
PAIRS: Sizes = ({"n": 2, "c": 16, "h": 9, "w": 10, "k": 40}, {**POINTS, "activation": "none"})
SINGLE: Sizes = ({"n": 5, "c": 72, "h": 7, "w": 7, "k": 192}, {**POINTS, "activation": "relu"})
# A tile has more stages than the ring.
AROUND: Sizes = ({"n": 19, "c": 280, "h": 5, "w": 5, "k": 16}, POINTS)
CASES = [
    (PLAIN, "tile_64x64", ODD),
    (PLAIN, "tile_64x64", STRIDED),
    (PLAIN, "tile_64x64", WIDE),
    (PLAIN, "tile_64x64", ({"n": 2, "c": 16, "h": 5, "w": 7, "k": 16}, {**POINTS, "stride": 2})),
    (
        PLAIN,
        "tile_64x64",
        ({"n": 2, "c": 16, "h": 4, "w": 5, "k": 24}, {**SAME, "size": 5, "pad": 3, "activation": "none"}),
    ),
    (PLAIN, "tile_128x64", ODD),
    (PLAIN, "tile_128x64", WIDE),
    (PLAIN, "by2", STRIDED),
    (PLAIN, "by4", WIDE),
    (PLAIN, "by8", ODD),
    (PLAIN, "wgmma", ODD),
    (PLAIN, "by2_wgmma", EVEN),
    (PLAIN, "wgmma", ODD_BY_2),
    (PLAIN, "wgmma", EVEN_BY_2),
    (PLAIN, "by2_wgmma", ODD_BY_2),
    (PLAIN, "by4_wgmma", NARROW_BY_2),
    (PLAIN, "points_wgmma", PAIRS),
    (PLAIN, "points_wgmma", SINGLE),
    (PLAIN, "points_wgmma", FOURS),
    (PLAIN, "points_wgmma", ({**SINGLE[0], "h": 9}, {**POINTS, "stride": 2})),
    (PLAIN, "points_wgmma", ({**PAIRS[0], "c": 29, "k": 58}, POINTS)),
    (PLAIN, "few_points_wgmma", ({**FOURS[0], "c": 58, "k": 130}, POINTS)),
    (PLAIN, "direct", ({**FOURS[0], "c": 35, "k": 18}, POINTS)),
    (PLAIN, "few_points_wgmma", PAIRS),
    (PLAIN, "few_points_wgmma", AROUND),
    (PLAIN, "points_wgmma", AROUND),
    (PLAIN, "few_points_wgmma", SINGLE),
    (PLAIN, "few_points_wgmma", FOURS),
    (PLAIN, "direct", ODD),
    (PLAIN, "direct", STRIDED),
    (ADDS, "tile_64x64", ODD),
    (ADDS, "tile_128x64", WIDE),
    (ADDS, "by8", ODD),
    (ADDS, "wgmma", EVEN),
    (ADDS, "by4_wgmma", ({**ODD[0], "c": 72}, SAME)),
    (ADDS, "wgmma", NARROW_BY_2),
    (ADDS, "by2_wgmma", EVEN_BY_2),
    (ADDS, "by8_wgmma", ({**NARROW_BY_2[0], "c": 136}, TWO)),
    (ADDS, "points_wgmma", FOURS),
    (ADDS, "few_points_wgmma", SINGLE),
    (ADDS, "direct", ODD),
    (ONE_AXIS, "wgmma", LONG),
    (ONE_AXIS, "wgmma", SHORT),
    (ONE_AXIS, "by2_wgmma", SHORT),
    (ONE_AXIS, "by4_wgmma", FAR),
    (ONE_AXIS, "by2_wgmma", LONG),
    (ONE_AXIS, "tile_64x64", SKIPPING),
    (ONE_AXIS, "tile_128x64", LONG),
    (ONE_AXIS, "by8", FAR),
    (ONE_AXIS, "direct", SKIPPING),
    *[(TRANSPOSED, "tile_64x64", sizes) for sizes in (BY_ONES, BY_TWOS, BY_FOURS)],
    (TRANSPOSED, "tile_128x64", BY_FOURS),
    (TRANSPOSED, "by2", BY_FOURS),
    (TRANSPOSED, "by4", BY_TWOS),
    (TRANSPOSED, "by8", BY_ONES),
    *[(TRANSPOSED, "points_wgmma", sizes) for sizes in (BY_ONES, BY_TWOS, BY_FOURS)],
    (TRANSPOSED, "few_points_wgmma", BY_FOURS),
    (TRANSPOSED, "direct", BY_TWOS),
]


def check(name: str, variant: str, sizes: Sizes, change: Change, factory: pytest.TempPathFactory) -> None:
    """Compare a variant with the reference, after ``change`` of the inputs as ONNX has them."""
    assert disagreement_on_cpu(registry.kernel(name), variant, *sizes, change, factory) is None


@needs_gcc
@pytest.mark.parametrize(
    ("name", "variant", "sizes"),
    # Each is compiled: most of them are slow.
    [pytest.param(*case, marks=[] if i % 5 == 0 else SLOW) for i, case in enumerate(CASES)],
    ids=str,
)
def test_the_source_computes_the_reference(
    name: str, variant: str, sizes: Sizes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(name, variant, sizes, unchanged, tmp_path_factory)


@needs_gcc
@pytest.mark.parametrize("name", [PLAIN, pytest.param(ADDS, marks=SLOW)])  # the same but for the last addition
@pytest.mark.parametrize(
    ("variant", "sizes"),
    [
        ("tile_64x64", ODD),
        pytest.param("by4", ODD, marks=SLOW),
        ("wgmma", ODD),
        pytest.param("few_points_wgmma", SINGLE, marks=SLOW),
        ("points_wgmma", FOURS),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "value", [np.inf, 65510.0, *(pytest.param(each, marks=SLOW) for each in (np.nan, 3.4028234e38))]
)
def test_numbers_that_cannot_be_split_are_multiplied_as_they_are(
    name: str, variant: str, sizes: Sizes, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][1, 7, 3, 3] = value
        plain[-2][:, 7] = np.sign(plain[-2][:, 7])  # an infinity times their low part, zero, would be NaN

    check(name, variant, (sizes[0], {**sizes[1], "activation": "none"}), change, tmp_path_factory)


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "sizes"),
    # With 1x1 filters, by4 has blocks with nothing to multiply.
    [
        ("tile_64x64", ODD),
        ("wgmma", ODD),
        ("points_wgmma", FOURS),
        *(
            pytest.param(*each, marks=SLOW)
            for each in [("tile_64x64", WIDE), ("by4", ODD), ("by4", WIDE), ("wgmma", ODD_BY_2)]
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "exponents",
    [(-40, 0), (40, -60), *(pytest.param(each, marks=SLOW) for each in ((-16, 0), (40, 0), (0, -40), (0, 30)))],
)
def test_numbers_far_from_one_are_as_exact(
    variant: str, sizes: Sizes, exponents: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def change(plain: list[np.ndarray]) -> None:
        for array, exponent in zip((plain[0], plain[-2]), exponents, strict=True):
            array *= np.float32(2.0**exponent)
        plain[-1] *= 0

    check(PLAIN, variant, (sizes[0], {**sizes[1], "activation": "none"}), change, tmp_path_factory)
