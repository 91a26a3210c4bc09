"""Declare what the convolutions of many channels share; the headers beside this file have their device code.

Source: the numbers follow ``Patch`` in patch.cuh.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lenet_trt.dims import ARCHITECTURE, Dim, DimLike, ceil_div, minimum
from lenet_trt.kernel import Axis, IntegerAttribute, Packing, Tensor, Types

from ..split_floats.packing import join, split
from ..windows.activation import ACTIVATION
from ..windows.declaration import FITS, IMAGE, PAD, STRIDE, c, h, n, out_h, out_w, pad, size, stride, w
from .variants import BLOCK, EIGHT, Patches, Work, k, stage_bytes, variants

LEAST = 16

AXES = (
    Axis("n", "images"),
    Axis("c", "channels of x", static=True),
    *IMAGE,
    Axis("k", "filters", static=True),
)
X = Tensor("x", (n, c, h, w), "T", "images")
BIAS = Tensor("bias", (k,), "T", "bias of each filter", weight=True)
OUTPUTS = (Tensor("y", (n, k, out_h, out_w), "T", "feature maps"),)
TYPES = (Types("fp32", {"T": "float32"}, tolerance=3e-6),)
ATTRIBUTES = (ACTIVATION, IntegerAttribute("size", 1, 7, (3,), "rows and columns of a filter"), STRIDE, PAD)
MANY = (c >= LEAST) & (k >= LEAST)
EIGHTS = c.multiple_of(EIGHT) & k.multiple_of(EIGHT)
CHANNELS = MANY & EIGHTS
# Other numbers are there for 1x1 filters, as where channels are shuffled.
REQUIRES = FITS & MANY & k.multiple_of(2)
# Three products of fp16 pay where tensor cores have many times the rate of the CUDA cores. On Hopper it was measured;
# on GeForce, whose tensor cores add floats at half their rate, it is not to be expected.
MEASURED = ARCHITECTURE.equals(90)


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Divide each filter by the power of two that brings it below 2, and split it into hi + lo / 2048 for the lanes."""
    both, scales = split(weights["w"])
    _, filters, channels, *taps = both.shape
    both = np.pad(both, ((0, 0), (0, -filters % BLOCK), (0, -channels % EIGHT), *[(0, 0)] * len(taps)))
    blocks = both.reshape(2, -1, BLOCK, both.shape[2] // EIGHT, EIGHT, *taps)
    filters_last = blocks.transpose(1, 3, *range(5, blocks.ndim), 0, 2, 4)
    return {"filters": np.ascontiguousarray(filters_last), "scales": scales, "bias": weights["bias"]}


def unpacked(op: Any, weights: Mapping[str, str], count: int) -> str:
    """Write the nodes that undo ``pack``, up to the bits that two fp16 numbers do not have: [k, c, *taps].

    ``count``: the axes of taps. All layers of a model have these nodes, so the shape of x tells c.
    """
    sums = join(op, weights["filters"], axis=count + 2)  # [k / 64, c / 8, *taps, 1, 64, 8]
    to_last = [*range(2, count + 2), 0, count + 3, count + 2, 1, count + 4]  # [*taps, k / 64, 64, 1, c / 8, 8]
    channels = op.Reshape(op.Transpose(sums, perm=to_last), op.ints(*[0] * (count + 2), -1))
    channels = op.Slice(channels, op.ints(0), op.Slice(op.Shape("x"), op.ints(1), op.ints(2)), op.ints(count + 2))
    # Blocks are joined: [*taps, c, k], and more filters than there are.
    first = range(count)
    blocks = op.Transpose(channels, perm=[*first, count + 2, count, count + 1])
    filters = op.Reshape(blocks, op.ints(*[0] * (count + 1), -1))
    scales = weights["scales"]
    w = op.Mul(op.Slice(filters, op.ints(0), op.Shape(scales), op.ints(count + 1)), scales)
    return str(op.Transpose(w, perm=[count + 1, count, *first]))


def packed_filters(filters: Dim, taps: tuple[DimLike, ...]) -> tuple[Tensor, Tensor]:
    """Return the tensors of packed weights: the filters in two fp16 numbers, and their scales."""
    return (
        Tensor(
            "filters",
            (ceil_div(filters, BLOCK), ceil_div(c, EIGHT), *taps, 2, BLOCK, EIGHT),
            "float16",
            "w, divided by its filter's scale, as two fp16 numbers (layer.cuh)",
            weight=True,
        ),
        Tensor("scales", (filters,), "T", "a power of two for each filter", weight=True),
    )


def packing(*taps: Dim) -> tuple[tuple[Tensor, ...], Packing]:
    """Return the packed weights of a kernel whose filters have these taps along each axis, and their packing."""
    count = len(taps)

    def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
        return {"w": unpacked(op, weights, count), "bias": weights["bias"]}

    w = Tensor("w", (k, c, *taps), "T", "filters", weight=True)
    return (*packed_filters(k, taps), BIAS), Packing((w, BIAS), pack, unpack)


WEIGHTS, PACKING = packing(size, size)


# A tile of y is 16 columns of 16 rows, or 8 of 32 where images have no more columns; at stride 2 it is 8 columns of 16
# rows, and has two blocks of filters. Between the rows of two images are some that neither has.
_blocks = stride
_across = 1 + minimum(1, (out_w - 1) // 8) // _blocks
_rows = 32 // (_across * _blocks)
_image_rows = h // stride + 1
WORK = Work(pixels=n * out_h * out_w, taps=size * size)
PATCHES = Patches(
    when=EIGHTS & size.equals(3) & (stride <= 2) & pad.equals(1),
    tiles=ceil_div(n * _image_rows - (_image_rows - out_h), _rows)
    * ceil_div(out_w, 8 * _across)
    * ceil_div(k, BLOCK * _blocks),
    stages=4 - stride,
    stage_bytes=stage_bytes((stride * 8 * _across + 2) * (stride * (_rows - 1) + 3) + stride - 1, size * size, _blocks),
)
# Where an output reads one pixel.
POINTS = size.equals(1) & pad.equals(0)
VARIANTS = variants(WORK, PATCHES, points=POINTS, eights=EIGHTS)
# Where 1x1 filters paid in TensorRT 8.6.0, with any number of channels and filters. Squeeze and excite has layers of
# one pixel: 672 channels to 28 took 13 us on an H200, and TensorRT's own layers of such sizes 3 to 4.
POINTS_PAY = POINTS & (out_h * out_w >= 49)
