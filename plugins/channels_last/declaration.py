"""Declare what the 3x3 convolutions of channels-last maps share; the headers beside this file have their device code.

``channels`` are those of an image: c, or those of two tensors that are joined.

Source: the numbers follow direct.cuh, patch.cuh, and the entries in entries.cuh.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np

from lenet_trt.dims import ARCHITECTURE, MULTIPROCESSORS, Condition, Dim, ceil_div, minimum, remainder
from lenet_trt.kernel import Axis, Launch, Packing, Tensor, TensorMap, Variant, float_types

from ..few_channels.declaration import k
from ..few_channels.declaration import reference as convolution
from ..windows.activation import ACTIVATION
from ..windows.declaration import c, h, n, w

SIZE, PAD = 3, 1
BLOCK, DEPTH, EIGHT = 64, 16, 8
DIRECT_THREADS, WARPGROUP = 128, 128
STAGES, BARRIERS, STAGE_ALIGN = 4, 16, 256
PACKED = "hwc8"
blocks = ceil_div(k, BLOCK)

AXES = (
    Axis("n", "images"),
    Axis("c", "channels of x", static=True),
    Axis("h", "height of an image", static=True),
    Axis("w", "width of an image", static=True),
    Axis("k", "filters", static=True),
)
X = Tensor("x", (n, c, h, w), "T", "images", layout=PACKED)
OTHER = Tensor("other", (n, k, h, w), "T", "what is added", layout=PACKED)
BIAS = Tensor("bias", (k,), "T", "bias of each filter", weight=True)
OUTPUTS = (Tensor("y", (n, k, h, w), "T", "feature maps", layout=PACKED),)
TYPES = float_types()[1:]
ATTRIBUTES = (ACTIVATION,)


def stored(channels: Dim) -> Dim:
    """Return the channels that a tensor has in memory."""
    return ceil_div(channels, EIGHT) * EIGHT


def steps_of(channels: Dim) -> Dim:
    """Return how many times the 16 channels of a step are loaded."""
    return ceil_div(channels, DEPTH)


def filters_of(channels: Dim) -> Tensor:
    """Return the tensor of the packed filters."""
    shape = (blocks, steps_of(channels), 2, SIZE, SIZE, BLOCK, EIGHT)
    return Tensor("filters", shape, "T", "w, laid out for wgmma (channels_last/layer.cuh)", weight=True)


def flops_of(channels: Dim) -> Dim:
    """Return the operations of the convolution."""
    return 2 * n * k * h * w * channels * SIZE * SIZE


def reference(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str) -> np.ndarray:
    """Compute the convolution, then the activation."""
    return convolution(x, weights, bias, activation=activation, size=SIZE, stride=1, pad=PAD)


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Lay the filters out for wgmma, filled up with zeros."""
    filters, channels, *_ = weights["w"].shape
    whole = np.pad(weights["w"], ((0, -filters % BLOCK), (0, -channels % DEPTH), (0, 0), (0, 0)))
    parts = whole.reshape(-1, BLOCK // 16, 4, 2, 2, whole.shape[1] // DEPTH, 2, EIGHT, SIZE, SIZE)
    packed = parts.transpose(0, 5, 6, 8, 9, 1, 3, 2, 4, 7)
    shape = (-1, whole.shape[1] // DEPTH, 2, SIZE, SIZE, BLOCK, EIGHT)
    return {"filters": np.ascontiguousarray(packed).reshape(shape), "bias": weights["bias"]}


def _unpacked(op: Any, weights: Mapping[str, str], images: tuple[str, ...]) -> dict[str, str]:
    parts = op.Reshape(weights["filters"], op.ints(0, -1, SIZE * SIZE, BLOCK // 16, 2, 4, 2, EIGHT))
    ordered = op.Transpose(parts, perm=[0, 3, 5, 4, 6, 1, 7, 2])  # [k / 64, 4, 4, 2, 2, c / 8, 8, taps]
    first = op.Reshape(ordered, op.ints(0, BLOCK, -1, SIZE, SIZE))  # of each block
    rows = op.Reshape(first, op.Concat(op.ints(-1), op.Slice(op.Shape(first), op.ints(2), op.ints(5)), axis=0))
    channels = reduce(op.Add, [op.Slice(op.Shape(name), op.ints(1), op.ints(2)) for name in images])
    sizes = op.Concat(op.Shape(weights["bias"]), channels, axis=0)
    return {"w": op.Slice(rows, op.ints(0, 0), sizes, op.ints(0, 1)), "bias": weights["bias"]}


def packing_of(channels: Dim, *images: str) -> Packing:
    """Return the packing of the filters of the channels that these inputs have together."""

    def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
        """Write the nodes that undo it. All layers of a model have them, so shapes of inputs tell the sizes of w."""
        return _unpacked(op, weights, images)

    return Packing((Tensor("w", (k, channels, SIZE, SIZE), "T", "filters", weight=True), BIAS), pack, unpack)


# A tile is two halves of 8 columns and 16 rows, or 14 where these fill images; they are side by side where that fills
# images, too. Between the rows of two images is one of zeros, but where images have as many rows as whole tiles.
_across = 2 - remainder(ceil_div(w, 8), 2)
_half_rows = 16 - 2 * (1 - minimum(1, remainder(h, 14))) * minimum(1, remainder(h, 16))
_rows = 2 * _half_rows // _across
_between = minimum(1, remainder(h, _rows))
TILES = ceil_div(n * (h + _between) - _between, _rows) * ceil_div(w, 8 * _across) * blocks
STORED_BYTES = 2 * 8 * _half_rows * (BLOCK + EIGHT) * 2  # outputs on their way, of two halves
_columns = 8 * _across + 2  # with the border
_x_bytes = ceil_div(2 * DEPTH * _columns * (_rows + 2), STAGE_ALIGN) * STAGE_ALIGN
SHARED_BYTES = STAGES * (_x_bytes + 2 * DEPTH * SIZE * SIZE * BLOCK + BARRIERS)
AT_ONCE = 3 * MULTIPROCESSORS // 4  # larger clusters do not fill a GPU
FEW = 64  # channels


# A line is 64 columns; each of four warpgroups has a ring of lines of x, with their border.
LINE, GROUPS, FEW_FILTERS = 64, 4, 32
_step_bytes = ceil_div(2 * DEPTH * (LINE + 2), STAGE_ALIGN) * STAGE_ALIGN
LINES = n * h * ceil_div(w, LINE)
FULL_LINES = 8 * w >= 7 * LINE * ceil_div(w, LINE)
MOST_LINE_STEPS = 8


def _by_wgmma(steps: Dim, maps: tuple[TensorMap, ...], splits: int = 1, prefer: Condition | None = None) -> Variant:
    """Make a variant by wgmma; ``splits`` blocks of a cluster divide the channels."""
    grid = TILES * splits if splits > 1 else minimum(TILES, MULTIPROCESSORS)
    share = f", {splits} blocks divide the channels" if splits > 1 else ""
    shared_bytes = SHARED_BYTES + (STORED_BYTES if splits == 1 else 0)
    return Variant(
        f"by{splits}_wgmma" if splits > 1 else "wgmma",
        Launch((grid, 1, 1), (3 * WARPGROUP, 1, 1), extras=(n,), shared_bytes=shared_bytes, maps=maps),
        f"by wgmma, tiles of 256 or 224 pixels and 64 filters{share}",
        source="wgmma.cu",
        min_sm=90,
        only_sm=True,
        when=steps >= splits,
        prefer=prefer,
    )


def direct() -> Variant:
    """Make the variant for other GPUs."""
    grid = (ceil_div(n * h * w * ceil_div(k, EIGHT), DIRECT_THREADS), 1, 1)
    return Variant(
        "direct", Launch(grid, (DIRECT_THREADS, 1, 1), extras=(n,)), "plain multiply-adds, 8 filters a thread"
    )


def by_lines(*channels: Dim) -> Variant:
    """Make the variant line by line; ``channels``: of x, and of what is joined to it."""
    steps, maps = steps_of(reduce(operator.add, channels)), _maps(channels, LINE_BOX)
    stages = 4 - 2 * minimum(1, steps // 5)
    ring_bytes = stages * steps * _step_bytes + STAGE_ALIGN
    shared = GROUPS * ring_bytes + 2 * DEPTH * SIZE * SIZE * FEW_FILTERS * steps + BARRIERS
    return Variant(
        "lines_wgmma",
        Launch(
            (minimum(ceil_div(LINES, GROUPS), MULTIPROCESSORS), 1, 1),
            ((1 + GROUPS) * WARPGROUP, 1, 1),
            extras=(n,),
            shared_bytes=shared,
            maps=maps,
        ),
        "by wgmma, line by line of 64 columns, for at most 32 filters, which stay in shared memory",
        source="lines.cu",
        min_sm=90,
        only_sm=True,
        when=(steps <= MOST_LINE_STEPS) & (k <= FEW_FILTERS),
        prefer=(LINES >= 12 * MULTIPROCESSORS) & FULL_LINES,
    )


# A box of a tile: rows of one image with the border, or whole images, each with the row of zeros above it. Other tiles
# get no boxes.
_of_images = _between * (1 - minimum(1, remainder(_rows, h + 1)))
_images_of_box = 1 - _of_images + _of_images * (_rows // (h + 1))
_rows_of_box = (1 - _of_images) * (_rows + 2) + _of_images * (h + 1)


# Of a tile, and of a line: images, rows, columns; 16 channels come at a time.
TILE_BOX = (_images_of_box, _rows_of_box, _columns)
LINE_BOX = (1, 1, LINE + 2)


def _maps(channels: tuple[Dim, ...], box: tuple[Dim | int, ...]) -> tuple[TensorMap, ...]:
    """Return the maps of x, and of what is joined to it."""
    tensors = zip(("x", "other"), channels, strict=False)
    return tuple(TensorMap(tensor, (n, h, w, stored(each)), (*box, DEPTH)) for tensor, each in tensors)


def variants_of(*channels: Dim, adds: bool = False) -> tuple[Variant, ...]:
    """Return the variants, most preferred first; ``channels``: of x, and of what is joined to it.

    Few channels do not pay for a cluster, but where something is added: then two blocks divide the pixels that they
    finish.
    """
    every = reduce(operator.add, channels)
    steps = steps_of(every)
    maps = _maps(channels, TILE_BOX)
    return (
        by_lines(*channels),
        _by_wgmma(steps, maps, 8, 8 * TILES <= AT_ONCE),
        _by_wgmma(steps, maps, 4, (4 * TILES <= AT_ONCE) & (every > FEW)),
        _by_wgmma(steps, maps, 2, (2 * TILES <= MULTIPROCESSORS) & (every >= FEW if adds else every > FEW)),
        _by_wgmma(steps, maps),
        direct(),
    )


FILTERS, FLOPS, PACKING = filters_of(c), flops_of(c), packing_of(c, "x")
# Where it was the faster one in TensorRT 8.6.0 on Hopper (docs/kernels/conv3x3_half.md): with up to 64 filters on many
# pixels of large images; with more filters on few pixels, or on those of 32 small images.
MEASURED = ARCHITECTURE.equals(90)
_pixels = n * h * w
MANY_PIXELS = MEASURED & (h * w >= 3136) & (_pixels >= 8192)


def _in_eights(channels: Dim) -> Condition:
    return MEASURED & channels.multiple_of(EIGHT) & k.multiple_of(EIGHT)


def claims_of(channels: Dim) -> tuple[Condition, ...]:
    """Return the claims of a convolution that adds nothing; where channels are no eights, on very many pixels."""
    whole = _in_eights(channels)
    return (
        whole & MANY_PIXELS & (k <= BLOCK),
        MANY_PIXELS & (k <= BLOCK) & (_pixels >= 2**18),
        whole & (channels >= 256) & (_pixels <= 256),
        whole & (channels >= 128) & (_pixels >= 5000) & (_pixels <= 26000),
    )


def in_groups_of(channels: Dim) -> Condition:
    """Return where it is taken among other plugins: at the few pixels of one image, as in a U-Net and in ResNets.

    Those have 64 channels or more there; with fewer it was not measured.
    """
    return _in_eights(channels) & (channels >= 64) & (k >= 64) & (_pixels < 5000)


CLAIMS = claims_of(c)
IN_GROUPS = in_groups_of(c)
# TensorRT has no kernel for Hopper that adds.
CLAIMS_OF_SUMS = (MANY_PIXELS, MEASURED & (c >= 128))
# TensorRT's own layers write their outputs to where they are joined.
JOINED_BY = frozenset({"Concat"})
