"""Declare ``depthwise_layer_norm``: a depthwise convolution, and the layer norm over channels that follows it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, axes, ceil_div, maximum
from lenet_trt.kernel import (
    Axis,
    IntegerAttribute,
    Kernel,
    Launch,
    Packing,
    Tensor,
    TensorMap,
    Variant,
    float_types,
)
from lenet_trt.pattern import Pattern

from ..layer_norm.declaration import EPSILON, normalized
from ..layer_norm.pattern import WAYS
from ..linear.declaration import HOPPER
from ..windows.declaration import h, n, w, windows_of

(c,) = axes("group")  # channels
SIZE, PAD, EIGHT = 7, 3, 8
DIRECT_THREADS = 128
MOST_CHANNELS = 8 * 16 * EIGHT  # what 16 warps of eight blocks have
# Source: tile.cuh, but for the taps, which are in layer.cuh.
READ_COLUMNS, BOX_CHANNELS, PIXELS, GROUP_TAPS = 16, 16, 8 * 18, SIZE * 2 * 8 * 4 * 2

groups = c // EIGHT
tiles_down = ceil_div(ceil_div(h, 2), 8)
READ_ROWS = 2 * ceil_div(ceil_div(h, 2), tiles_down) + SIZE - 1
tiles = n * tiles_down * ceil_div(w, 8)
W = Tensor("w", (c, 1, SIZE, SIZE), "T", "the filter of each channel", weight=True)
BIAS, SCALE, SHIFT = (
    Tensor(name, (c,), "T", what, weight=True)
    for name, what in (("bias", "bias of each filter"), ("scale", "factor of each"), ("shift", "summand of each"))
)


def reference(
    x: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray,
    scale: np.ndarray,
    shift: np.ndarray,
    *,
    epsilon: float,
    group: int,
) -> np.ndarray:
    """Compute the convolution, then normalise each pixel."""
    sums = np.einsum("nchwij,cij->nhwc", windows_of(x, SIZE, 1, PAD, 0.0), weights[:, 0])
    return normalized(sums + bias, scale, shift, epsilon)


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Lay out pairs of taps that follow each other, for each eight channels and row of a filter."""
    taps = weights["w"].reshape(-1, 2, 4, SIZE, SIZE)  # eights, fours, channels, rows, columns
    padded = np.pad(taps, [(0, 0)] * 4 + [(0, 2)])  # no tap behind the last, and none in front of the first
    pairs = np.stack([padded[..., :8], np.roll(padded, -1, axis=-1)[..., :8]], axis=-1)
    pairs[..., 7, 1] = taps[..., 0]
    filters = np.ascontiguousarray(pairs.transpose(0, 3, 1, 4, 2, 5))
    return {"filters": filters, **{name: weights[name] for name in ("bias", "scale", "shift")}}


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    firsts = op.Slice(weights["filters"], op.ints(0, 0), op.ints(SIZE, 1), op.ints(3, 5))
    channels = op.Transpose(firsts, perm=[0, 2, 4, 1, 3, 5])
    w = op.Reshape(channels, op.ints(-1, 1, SIZE, SIZE))
    return {"w": w, **{name: weights[name] for name in ("bias", "scale", "shift")}}


def before(norm: Callable[..., Any]) -> Pattern:
    """Return the pattern of the convolution and a transposition before a way to write a layer norm."""

    def nodes(op: Any, x: Any, w: Any, bias: Any, scale: Any, shift: Any, epsilon: Any, group: Any) -> Any:
        y = op.Conv(x, w, bias, kernel_shape=[SIZE, SIZE], pads=[PAD] * 4, group=group)
        return norm(op, op.Transpose(y, perm=[0, 2, 3, 1]), scale, shift, epsilon)

    nodes.__name__ = f"convolution_before_{norm.__name__}"
    return Pattern(nodes)


def on_tensor_cores(blocks: int, warps: int, prefer: Condition | None = None) -> Variant:
    """Make a variant in which as many blocks of a cluster share the channels of their tiles. Source: ``Plan`` there."""
    own = ceil_div(groups, blocks)
    tiles_of_block = maximum(1, warps // own)
    x_bytes = ceil_div(own, 2) * READ_ROWS * READ_COLUMNS * BOX_CHANNELS * 2
    norm_bytes = (own + (blocks if blocks > 1 else 0) + 1) * PIXELS * 8
    entry = f"by{blocks}" if blocks > 1 else "tensor"
    return Variant(
        f"{entry}_{warps}",
        Launch(
            (blocks * ceil_div(tiles, tiles_of_block), 1, 1),
            (32 * warps, 1, 1),
            (n,),
            shared_bytes=tiles_of_block * (x_bytes + norm_bytes) + own * 2 * GROUP_TAPS + 16,
            maps=(TensorMap("x", (n, h, w, c), box=(1, READ_ROWS, READ_COLUMNS, BOX_CHANNELS)),),
        ),
        f"on tensor cores, {warps} warps a block" + (f", {blocks} of which share channels" if blocks > 1 else ""),
        source="tensor_core.cu",
        entry=f"depthwise_layer_norm_{entry}",
        when=(own <= warps) & (groups >= blocks),
        min_sm=90,
        prefer=prefer,
    )


DIRECT = Variant(
    "direct",
    Launch((ceil_div(n * h * w, DIRECT_THREADS // 32), 1, 1), (DIRECT_THREADS, 1, 1), (n,)),
    "plain multiply-adds, a warp a pixel",
)

KERNEL = Kernel(
    name="depthwise_layer_norm",
    doc="y = LayerNormalization(Conv(x, w, bias)) over the channels, filters of 7x7 for each, in fp16 and bf16",
    axes=(
        Axis("n", "images"),
        Axis("h", "height of an image", static=True),
        Axis("w", "width of an image", static=True),
    ),
    inputs=(
        Tensor("x", (n, c, h, w), "T", "images", layout="hwc8"),
        Tensor("filters", (groups, SIZE, 2, 8, 4, 2), "T", "w, in pairs of taps", weight=True),
        BIAS,
        SCALE,
        SHIFT,
    ),
    outputs=(Tensor("y", (n, h, w, c), "T", "normalised pixels"),),
    types=float_types()[1:],
    attributes=(EPSILON, IntegerAttribute("group", 1, 1 << 20, (8,), "channels")),
    requires=c.multiple_of(EIGHT) & (c <= MOST_CHANNELS),
    packing=Packing((W, BIAS, SCALE, SHIFT), pack, unpack),
    variants=(
        on_tensor_cores(1, 5),
        on_tensor_cores(1, 12, (c <= 80) & (2 * tiles >= MULTIPROCESSORS)),
        on_tensor_cores(2, 6),
        on_tensor_cores(4, 6, 4 * tiles <= MULTIPROCESSORS),
        on_tensor_cores(2, 12),
        on_tensor_cores(8, 5),
        on_tensor_cores(8, 6),
        on_tensor_cores(8, 16),
        DIRECT,
    ),
    patterns=tuple(map(before, WAYS)),
    reference=reference,
    examples=(
        {"n": 1, "group": 8, "h": 3, "w": 5},
        {"n": 2, "group": 40, "h": 14, "w": 14},
        {"n": 3, "group": 168, "h": 9, "w": 20},
        {"n": 3, "group": 320, "h": 7, "w": 7},
        {"n": 9, "group": 48, "h": 28, "w": 29},
        {"n": 40, "group": 160, "h": 14, "w": 14},
        {"n": 2, "group": 384, "h": 7, "w": 7},
        {"n": 1, "group": 768, "h": 7, "w": 7},
    ),
    claims=(HOPPER,),
    flops=2 * SIZE * SIZE * n * h * w * c,
    source_dir=Path(__file__).parent,
)
