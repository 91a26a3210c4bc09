"""Declare what ``group_norm_half`` and ``add_group_norm_half`` share: slabs of channels, variants and examples."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from lenet_trt.dims import MODEL_AXES, MULTIPROCESSORS, Dim, ceil_div, maximum, minimum, remainder
from lenet_trt.kernel import INT32_MAX, Axis, Kernel, Launch, Tensor, Variant, float_types

from ..channels_last.declaration import JOINED_BY, PACKED
from ..group_norm.declaration import ATTRIBUTES, MANY, c, group, n
from ..linear.declaration import HOPPER
from ..windows.declaration import IMAGE, h, w

THREADS, BLOCKS, EIGHT = 256, 8, 8
LEAST = 32  # channels of a slab, where the image can be divided so
MOST_HELD = 16  # eights of channels in the registers of a thread
FEW = 6  # eights of channels that a thread holds, up to which a block is as fast as a cluster
of_group = c // group


def _whole(a: Dim, b: Dim | int) -> Dim:
    """Return 1 where b divides a, and 0 elsewhere."""
    return 1 - minimum(1, remainder(a, b))


# A slab is whole groups and whole eights of channels. Source: slab.cuh.
_divisor = (1 + _whole(of_group, 2) + 2 * _whole(of_group, 4)) * (1 + _whole(of_group, 8))
_unit = of_group * EIGHT // _divisor
_two = (1 - minimum(1, _unit // LEAST)) * _whole(c, 2 * _unit)
_four = _two * (1 - minimum(1, 2 * _unit // LEAST)) * _whole(c, 4 * _unit)
SLAB = _unit * (1 + _two + 2 * _four)
SLABS = n * (c // SLAB)
ROWS = maximum(1, THREADS // (SLAB // EIGHT))  # pixels that a block has at a time


OF_THREAD = ceil_div(h * w, ROWS)  # eights of channels, of a block that has the slab alone
NEAR = (of_group - _divisor + EIGHT - 1) // of_group + 1  # groups that an eight may be of


def shared_bytes(blocks: int) -> Dim:
    """Return the bytes of ``Shared`` in slab.cuh: parts of threads, parts of blocks, a barrier."""
    return 16 * (NEAR * THREADS + blocks * (SLAB // of_group) + 1)


def variants(kernel: str) -> tuple[Variant, ...]:
    """Return the variants of a kernel of that name, most preferred first."""
    return (
        Variant(
            "cluster8",
            Launch((BLOCKS * SLABS, 1, 1), (THREADS, 1, 1), (), shared_bytes(BLOCKS)),
            f"a cluster of {BLOCKS} blocks a slab of channels of an image",
            source="cluster.cu",
            min_sm=90,
            # Slabs are few for the GPU, or too large for a block's registers.
            prefer=(OF_THREAD > FEW) & (SLABS <= MULTIPROCESSORS // 4 + OF_THREAD // (MOST_HELD + 1) * MANY),
        ),
        Variant(
            "block",
            Launch((SLABS, 1, 1), (THREADS, 1, 1), (), shared_bytes(1)),
            "a block a slab of channels of an image",
        ),
    )


X = Tensor("x", (n, c, h, w), "T", "maps", layout=PACKED)
EXAMPLES: tuple[Mapping[str, Any], ...] = (
    {"n": 1, "c": 8, "h": 1, "w": 1, "group": 2, "activation": "none"},
    {"n": 3, "c": 24, "h": 5, "w": 7, "group": 3, "activation": "silu"},
    {"n": 2, "c": 40, "h": 9, "w": 11, "group": 4, "activation": "silu"},
    {"n": 5, "c": 48, "h": 20, "w": 13, "group": 16, "activation": "relu"},
    {"n": 33, "c": 64, "h": 1, "w": 2000, "group": 8, "activation": "silu"},
    {"n": 1, "c": 96, "h": 31, "w": 33, "group": 1, "activation": "gelu"},
    {"n": 2, "c": 320, "h": 64, "w": 64, "group": 32, "activation": "silu"},
    {"n": 1, "c": 1280, "h": 16, "w": 16, "group": 32, "activation": "none"},
)
norm_of_maps = partial(
    Kernel,
    axes=(Axis("n", "images"), Axis("c", "channels", static=True), *IMAGE),
    outputs=(Tensor("y", (n, c, h, w), "T", "normalised maps", layout=PACKED),),
    types=float_types()[1:],
    attributes=ATTRIBUTES,
    requires=c.multiple_of(group)
    & c.multiple_of(EIGHT)
    & (of_group <= THREADS * (1 + (EIGHT - 1) * _whole(of_group, EIGHT)))  # a slab has an eight a thread, at most
    & (n * c <= INT32_MAX)
    & (h * w <= INT32_MAX // 2),
    examples=EXAMPLES,
    claims=(HOPPER & (MODEL_AXES >= 4),),  # of sequences the linear kernel is faster, since TensorRT's convolutions are
    max_elements=2**40,
    joined_by=JOINED_BY,
)
