"""Which variant of the 5x5 convolutions a GPU and a size get."""

from __future__ import annotations

import pytest

from lenet_trt.cuda.compile import architectures, compile_variant
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import registry
from lenet_trt.kernel.bind import Bound

POOLED = "conv5x5_bias_relu_pool2"
H200 = {"multiprocessors": 132}
IMAGES = {"n": 10_000, "c": 1, "h": 28, "w": 28, "k": 50}


def bound(name: str = POOLED, types: str = "fp32", **sizes: int) -> Bound:
    kernel = registry.kernel(name)
    return kernel.bind_axes({**IMAGES, **sizes}, kernel.types_named(types))


def test_wgmma_is_for_hopper_alone() -> None:
    taken = {sm: bound().variant(sm, H200).name for sm in architectures()}
    assert taken == {sm: "wgmma" if sm == 90 else "split" for sm in architectures()}


@pytest.mark.parametrize(
    ("changes", "variant"),
    [
        ({}, "wgmma"),
        ({"n": 132}, "wgmma"),
        ({"n": 131}, "ffma"),
        ({"n": 1, "c": 2}, "split"),
        ({"k": 25}, "wgmma"),
        ({"k": 64}, "wgmma"),
        ({"k": 24}, "split"),  # not measured
        ({"k": 65}, "split"),  # more sums than registers
        ({"c": 2}, "split"),
        ({"h": 40, "w": 40}, "split"),  # three blocks' tiles of four images are more than a multiprocessor has room for
        ({"types": "fp16"}, "tensor_core"),
        ({"types": "bf16"}, "tensor_core_bf16"),
        ({"name": "conv5x5_bias"}, "split"),
    ],
    ids=str,
)
def test_what_wgmma_is_for(changes: dict[str, object], variant: str) -> None:
    assert bound(**changes).variant(90, H200).name == variant  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "variant"),
    [
        ({"types": "fp16", "h": 8, "w": 9, "k": 3}, "ffma"),
        ({"types": "bf16", "h": 8, "w": 9, "k": 3, "n": 1024}, "tensor_core_bf16"),
        ({"c": 3, "h": 13, "w": 17, "k": 7}, "ffma"),
        ({"c": 3, "h": 13, "w": 17, "k": 7, "n": 1024}, "split"),
        ({"c": 6, "h": 12, "w": 12, "k": 16}, "split"),
        ({"name": "conv5x5_bias", "h": 11, "w": 15, "k": 33}, "ffma"),
        ({"name": "conv5x5_bias", "types": "fp16", "h": 11, "w": 15, "k": 33}, "tensor_core"),
        ({"name": "conv5x5_bias", "types": "fp16", "h": 8, "w": 9, "k": 3}, "ffma"),
        ({"name": "conv5x5_bias", "types": "fp16", "n": 131}, "ffma"),
        ({"types": "fp16", "n": 1}, "tensor_core"),
    ],
    ids=str,
)
def test_mostly_empty_tiles_are_left_to_multiply_adds(changes: dict[str, object], variant: str) -> None:
    assert bound(**changes).variant(90, H200).name == variant  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [25, 33, 41, 49, 57, 64])
def test_every_number_of_columns_compiles_and_the_launch_gives_the_memory_that_it_takes(k: int) -> None:
    specialized = bound(k=k).specialized
    variant = registry.kernel(POOLED).variant("wgmma")
    # The source compares the launch with its own geometry.
    assert b".target sm_90a" in compile_variant(specialized, variant, "compute_90").image
    with pytest.raises(LenetTrtError, match="wgmma needs sm_90 alone, not sm_100"):
        compile_variant(specialized, variant, "sm_100")
