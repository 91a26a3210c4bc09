"""Optimization profiles from --batch and from trtexec's shape options."""

from __future__ import annotations

import pytest

from lenet_trt.errors import UsageError
from lenet_trt.onnx_model.profiles import LENET5_BATCH, Profile, parse_batch, parse_shapes, profile_for

IMAGES = {"images": ("n", 1, 28, 28)}


def test_the_default_is_a_few_images_and_the_whole_test_set_for_lenet5() -> None:
    assert profile_for(IMAGES)["images"] == Profile((1, 1, 28, 28), (8, 1, 28, 28), (32, 1, 28, 28))
    assert profile_for(IMAGES, default=LENET5_BATCH)["images"].max[0] >= 10_000


def test_batch_sizes_the_first_axis_of_every_dynamic_input() -> None:
    profiles = profile_for({**IMAGES, "bias": (4,), "mask": ("n", 7)}, "2:3:5")
    assert profiles == {
        "images": Profile((2, 1, 28, 28), (3, 1, 28, 28), (5, 1, 28, 28)),
        "mask": Profile((2, 7), (3, 7), (5, 7)),
    }


def test_fixed_shapes_need_no_profile() -> None:
    assert profile_for({"a": (1, 2)}) == {}


@pytest.mark.parametrize("text", ["", "a", "1:2", "3:2:1", "0:1:2", "1:2:3:4", "-1:2:3", "1.5"])
def test_a_batch_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--batch"):
        parse_batch(text)


def test_one_number_is_all_three() -> None:
    assert parse_batch("8") == (8, 8, 8)


def test_shapes_read_as_trtexec_reads_them() -> None:
    assert parse_shapes("--minShapes", "a:1x2,b:0:3x4x5") == {"a": (1, 2), "b:0": (3, 4, 5)}


@pytest.mark.parametrize("text", ["", "a", "a:", "a:1x", "1x2", "a:1x2,,b:3"])
def test_a_shape_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--minShapes"):
        parse_shapes("--minShapes", text)


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        (({"x": (1,)}, {}, {}), "no input x"),
        (({"images": (1, 1, 28, 28)}, {}, {}), "missing from --optShapes, --maxShapes"),
        (({"images": (1, 28, 28)},) * 3, "does not fit"),
        (({"images": (1, 3, 28, 28)},) * 3, "does not fit"),
        (({"images": (2, 1, 28, 28)}, {"images": (1, 1, 28, 28)}, {"images": (4, 1, 28, 28)}), "min <= opt <= max"),
    ],
)
def test_shapes_that_contradict_are_refused(shapes: tuple, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        profile_for(IMAGES, shapes=shapes)


def test_both_ways_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="contradict"):
        profile_for(IMAGES, "1:2:3", ({}, {}, {}))


def test_a_batch_for_fixed_shapes_is_refused() -> None:
    with pytest.raises(UsageError, match="fixed"):
        profile_for({"a": (1, 2)}, "1:2:3")


def test_a_second_dynamic_axis_asks_for_shapes() -> None:
    with pytest.raises(UsageError, match="--minShapes"):
        profile_for({"tokens": ("n", "length")})
