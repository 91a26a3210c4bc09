"""Declare what the kernels of sliding windows share; the headers beside this file have their common device code.

Source: the numbers follow ``Windows`` in windows.cuh and ``DirectItem`` in direct.cuh.
"""

from __future__ import annotations

import numpy as np

from lenet_trt.dims import (
    ARCHITECTURE,
    MODEL_AXES,
    MULTIPROCESSORS,
    Condition,
    Dim,
    axes,
    ceil_div,
    maximum,
    minimum,
    remainder,
    size_of,
)
from lenet_trt.kernel import Attribute, Axis, IntegerAttribute, Launch

n, c, h, w = axes("n c h w")
size, stride, pad = axes("size stride pad")
out_h, out_w = (h + 2 * pad - size) // stride + 1, (w + 2 * pad - size) // stride + 1

DIRECT_THREADS = 128
# Threads that a GPU runs at once, where a multiprocessor runs 2048, as data-centre ones do.
THREADS_AT_ONCE = 2048 * MULTIPROCESSORS

IMAGE = (Axis("h", "height of an image", static=True), Axis("w", "width of an image", static=True))
STRIDE = Attribute("stride", (1, 2), "from window to window")
PAD = IntegerAttribute("pad", 0, 3, (1, 0), "rows and columns on each side of the image")
# A window lies within the padded image.
FITS = (h + 2 * pad >= size) & (w + 2 * pad >= size)
# In 16 bits TensorRT's convolutions have channels last, and ours do not: one of ours among them costs two reformats,
# and networks were slower with it (docs/zoo.md).
IN_FLOATS = size_of("T") >= 4
# Among each other they cost none. What was measured of groups, on Hopper: docs/zoo.md.
IN_GROUPS = (size_of("T") <= 2) & ARCHITECTURE.equals(90)


def rows_in_groups(rows: Dim, features: Dim) -> Condition:
    """Return where norms, dense layers and attention of rows are taken in groups: with four axes, or enough of them.

    One image of a vision transformer has 197 rows. For a text of 128 words plugins were faster where a word has 256
    features or more (docs/zoo.md); with fewer they were not measured.
    """
    return IN_GROUPS & (maximum(MODEL_AXES // 4, maximum(rows // 192, rows * features // (128 * 256))) >= 1)


def divisor_of(extent: Dim) -> Dim:
    """Return the greatest of 4, 2 and 1 that divides a size."""
    odd, no_four = (minimum(remainder(extent, number), 1) for number in (2, 4))
    return 1 + (1 - odd) + 2 * (1 - no_four)


# The outputs of a thread in a row, and the threads of a row.
run = divisor_of(out_w)
strips = out_w // run


def direct_launch(planes: Dim, rows: int, extra: Dim) -> Launch:
    """Return the launch of direct.cuh, where a thread computes so many rows; ``extra`` is the kernel's integer."""
    blocks = ceil_div(planes * ceil_div(out_h, rows) * strips, DIRECT_THREADS)
    return Launch((blocks, 1, 1), (DIRECT_THREADS, 1, 1), extras=(extra,))


def windows_of(x: np.ndarray, size: int, stride: int, pad: int, outside: float) -> np.ndarray:
    """Return the windows of each image: [n, c, out_h, out_w, size, size]."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=outside)
    return np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]
