"""Declare what ``linear`` and ``linear_half`` share: a dense layer over the last axis, by ``wgmma``."""

from __future__ import annotations

from functools import partial
from typing import Any

from lenet_trt.dims import ARCHITECTURE, MULTIPROCESSORS, Dim, ceil_div, maximum, minimum, remainder
from lenet_trt.kernel import Axis, Launch, Tensor, Variant

from ..dense.declaration import inputs, n, outputs

EIGHT, CHUNK = 8, 32
DIRECT_THREADS = 128
# What tile.cuh says.
ROWS, MULTIPLIERS = 128, 256
chunks = ceil_div(inputs, CHUNK)

AXES = (
    Axis("n", "rows"),
    Axis("in", "input features", static=True),
    Axis("out", "output features", static=True),
)
X = Tensor("x", (n, inputs), "T", "rows")
W = Tensor("w", (outputs, inputs), "T", "weights", weight=True)
BIAS = Tensor("bias", (outputs,), "T", "bias of each output", weight=True)
Y = Tensor("y", (n, outputs), "T", "results")
REQUIRES = inputs.multiple_of(EIGHT) & (inputs >= 32) & outputs.multiple_of(EIGHT) & (outputs >= 32)
FLOPS = 2 * n * inputs * outputs
# Where it was measured: on Hopper.
_HOPPER = ARCHITECTURE.equals(90)
WIDE_ENOUGH = _HOPPER & (inputs >= 64) & (outputs >= 64)
# Narrower layers of very many rows, as a ConvNeXt begins with.
MUCH = _HOPPER & (FLOPS >= 1_000_000_000)
EXAMPLES = (
    {"n": 1, "in": 32, "out": 40, "activation": "gelu"},
    {"n": 133, "in": 96, "out": 96, "activation": "none"},
    {"n": 197, "in": 768, "out": 192, "activation": "none"},
    {"n": 130, "in": 160, "out": 264, "activation": "relu"},
    {"n": 259, "in": 40, "out": 160, "activation": "gelu"},
    {"n": 517, "in": 80, "out": 320, "activation": "none"},
    {"n": 4100, "in": 512, "out": 256, "activation": "none"},
    {"n": 6304, "in": 192, "out": 768, "activation": "gelu"},
)
AT_ONCE = 7 * MULTIPROCESSORS // 8  # larger clusters do not fill a GPU


def tiles(most_columns: int = 128) -> Dim:
    """Return the number of tiles of up to ``most_columns`` outputs."""
    return ceil_div(n, ROWS) * ceil_div(outputs, most_columns)


def by_wgmma(
    name: str, element_bytes: int, *, loaders: int, blocks: int, splits: int = 1, most_columns: int = 128, **more: Any
) -> Variant:
    """Make a variant for elements of x of some bytes.

    A block has ``loaders`` threads that load, and ``blocks`` blocks share a multiprocessor; ``splits`` blocks divide
    the inputs of a tile of up to ``most_columns`` outputs.
    """
    # A block that has all inputs of a tile stays for other tiles.
    some = tiles(most_columns)
    grid = some * splits if splits > 1 else minimum(some, MULTIPROCESSORS * blocks)
    columns = maximum(64, ceil_div(ceil_div(outputs, ceil_div(outputs, most_columns)), 16) * 16)
    together = 1 if splits > 1 else 2 - remainder(chunks, 2)  # chunks of a stage
    depth = together * CHUNK
    pitch = depth + 8 if element_bytes == 4 else depth + depth // 8  # of a row of x in shared memory
    stage = (ROWS * pitch + depth * columns) * element_bytes
    stages = (6 if most_columns == 128 else 8) // together
    share = f", {splits} blocks for each" if splits > 1 else ""
    return Variant(
        name,
        Launch((grid, 1, 1), (MULTIPLIERS + loaders, 1, 1), extras=(n,), shared_bytes=stages * (stage + 16)),
        f"by wgmma, tiles of {ROWS} rows and up to {most_columns} outputs{share}",
        source="wgmma.cu",
        min_sm=90,
        only_sm=True,
        when=chunks >= splits,
        **more,
    )


def narrow(element_bytes: int, loaders: int, blocks: int) -> tuple[Variant, ...]:
    """Make the variants with tiles of up to 128 outputs."""
    make = partial(by_wgmma, element_bytes=element_bytes, loaders=loaders, blocks=blocks)
    return (
        make("by8_wgmma", splits=8, prefer=(8 * tiles() <= AT_ONCE) & (chunks >= 8)),
        make("by4_wgmma", splits=4, prefer=(4 * tiles() <= AT_ONCE) & (chunks >= 4)),
        make("by2_wgmma", splits=2, prefer=(2 * tiles() <= MULTIPROCESSORS) & (chunks >= 12)),
        make("wgmma"),
    )


def direct(entry: str) -> Variant:
    """Make the variant for other GPUs."""
    grid = ceil_div(n * (outputs // EIGHT), DIRECT_THREADS)
    launch = Launch((grid, 1, 1), (DIRECT_THREADS, 1, 1), extras=(n,))
    return Variant("direct", launch, "plain multiply-adds, 8 outputs a thread", entry=entry)
