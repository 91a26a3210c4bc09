"""Declare what the layer norms have in common: their axes, weights, types and variants."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Dim, axes, ceil_div, maximum, minimum, size_of
from lenet_trt.kernel import (
    INT32_MAX,
    Axis,
    BesidePlugins,
    FloatAttribute,
    Kernel,
    Launch,
    Tensor,
    Variant,
    float_types,
)
from lenet_trt.kernel.dims import Condition

from ..windows.declaration import IN_FLOATS, rows_in_groups

rows, k = axes("rows k")
PACK = 16 // size_of("T")  # elements
LANES_GROUPS = 8
MOST_VALUES = 32  # of a row, that a thread holds in registers
BLOCK_THREADS = 512
FEW_ROWS = 8 * MULTIPROCESSORS
# TensorRT's compiler joins a layer norm with the layers around it, and a plugin breaks that: engines took 1.1 to 1.4
# times as long (docs/zoo.md). Rows of this length were faster than by torch.compile. Between plugins there is nothing
# to join: engines of transformers were faster with it.
LONG_ROWS = k >= 2048

AXES = (Axis("rows", "rows"), Axis("k", "length of a row", static=True))
WEIGHTS = (
    Tensor("scale", (k,), "T", "factors of the columns", weight=True),
    Tensor("bias", (k,), "T", "summands of the columns", weight=True),
)
EPSILON = FloatAttribute("epsilon", (1e-5,), "is added to the variance", least=0.0)
EXAMPLES: tuple[Mapping[str, Any], ...] = (
    {"rows": 1, "k": 1},
    {"rows": 3, "k": 7},
    {"rows": 333, "k": 96},
    {"rows": 70, "k": 384},
    {"rows": 257, "k": 250, "epsilon": 1e-12},
    {"rows": 197, "k": 768},
    {"rows": 33, "k": 1024},
    {"rows": 33, "k": 1536},
    {"rows": 9, "k": 4099},
    {"rows": 7, "k": 10000},
    {"rows": 3, "k": 50257},
)


# What norms of rows have in common; those of pixels have other axes.
norm_of_rows = partial(
    Kernel,
    axes=AXES,
    types=float_types(),
    max_elements=2**40,
    requires=rows <= INT32_MAX,
    claims=(LONG_ROWS,),
    beside_plugins=BesidePlugins(both=True, sizes=IN_FLOATS),
    in_groups=rows_in_groups(rows, k),
    examples=EXAMPLES,
)


def normalized(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, epsilon: float) -> np.ndarray:
    """Compute the distances from each row's mean over the row's standard deviation, scaled and shifted."""
    distances = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(distances).mean(axis=-1, keepdims=True)
    return distances / np.sqrt(variance + epsilon) * scale + bias


def variants(kernel: str, tensors: int = 1, rows: Dim = rows, more: tuple[Dim, ...] = ()) -> tuple[Variant, ...]:
    """Declare the variants of a kernel that reads ``tensors`` rows for one; sources are named as ``layer_norm``'s.

    ``more``: integers of the kernel behind the number of rows.
    """
    extras = (rows, *more)

    def lanes(count: int, prefer: Condition | None = None) -> Variant:
        return Variant(
            f"lanes{count}",
            Launch((ceil_div(rows, 2 * LANES_GROUPS), 1, 1), (count * LANES_GROUPS, 1, 1), extras),
            f"{count} lanes a row, two rows a thread",
            source="lanes.cu",
            entry=f"{kernel}_lanes",
            when=k <= MOST_VALUES * count,
            prefer=prefer,
        )

    def row(threads: int, prefer: Condition | None = None) -> Variant:
        return Variant(
            f"row{threads}",
            Launch((rows, 1, 1), (threads, 1, 1), extras),
            f"a block of {threads} threads a row",
            source="row.cu",
            entry=f"{kernel}_row",
            when=k + 2 * PACK <= MOST_VALUES * threads,
            prefer=prefer,
        )

    return (
        lanes(8, prefer=k * tensors <= 128),
        # Rows that are not whole packs want fewer elements a lane.
        lanes(16, prefer=k.multiple_of(4)),
        # A block of lanes has 16 rows: long ones are too few for the GPU until they are FEW_ROWS.
        lanes(32, prefer=rows >= 2 * MULTIPROCESSORS + minimum(k // 513, 1) * (FEW_ROWS - 2 * MULTIPROCESSORS)),
        # A pack a thread, as long as the rows are few.
        row(128, prefer=(k <= 2048) & (maximum(2049 - k * size_of("T"), rows - FEW_ROWS) > 0)),
        # With more than 16 elements a thread, a block wants others beside it on its multiprocessor.
        row(256, prefer=maximum(4097 - k, rows - MULTIPROCESSORS) > 0),
        row(1024),
        Variant(
            "block",
            Launch((rows, 1, 1), (BLOCK_THREADS, 1, 1), extras),
            "a block a row of any length, which it reads once for each of its steps",
        ),
    )
