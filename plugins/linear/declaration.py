"""Declare what ``linear`` and ``linear_half`` share: a dense layer over the last axis, by ``wgmma``."""

from __future__ import annotations

from lenet_trt.dims import ARCHITECTURE, MULTIPROCESSORS, Condition, ceil_div, maximum, minimum, remainder
from lenet_trt.kernel import Axis, Launch, Tensor, Variant

from ..dense.declaration import inputs, n, outputs

EIGHT, CHUNK = 8, 32
DIRECT_THREADS = 128
# What tile.cuh says.
STAGES, ROWS, MOST_COLUMNS, MULTIPLIERS = 6, 128, 128, 256
across = ceil_div(outputs, MOST_COLUMNS)
columns = maximum(64, ceil_div(ceil_div(outputs, across), 16) * 16)
chunks = inputs // CHUNK
tiles = ceil_div(n, ROWS) * across

AXES = (
    Axis("n", "rows"),
    Axis("in", "input features", static=True),
    Axis("out", "output features", static=True),
)
X = Tensor("x", (n, inputs), "T", "rows")
W = Tensor("w", (outputs, inputs), "T", "weights", weight=True)
BIAS = Tensor("bias", (outputs,), "T", "bias of each output", weight=True)
Y = Tensor("y", (n, outputs), "T", "results")
REQUIRES = inputs.multiple_of(CHUNK) & outputs.multiple_of(EIGHT) & (outputs >= 32)
FLOPS = 2 * n * inputs * outputs
# Where it was measured: on Hopper.
WIDE_ENOUGH = ARCHITECTURE.equals(90) & (inputs >= 64) & (outputs >= 64)
EXAMPLES = (
    {"n": 1, "in": 32, "out": 40, "activation": "gelu"},
    {"n": 133, "in": 96, "out": 96, "activation": "none"},
    {"n": 197, "in": 768, "out": 192, "activation": "none"},
    {"n": 130, "in": 160, "out": 264, "activation": "relu"},
    {"n": 4100, "in": 512, "out": 256, "activation": "none"},
    {"n": 6304, "in": 192, "out": 768, "activation": "gelu"},
)
AT_ONCE = 7 * MULTIPROCESSORS // 8  # larger clusters do not fill a GPU


def variants(kernel: str, element_bytes: int, loaders: int, blocks: int) -> tuple[Variant, ...]:
    """Make the variants for elements of x of some bytes; ``blocks`` blocks with some loading threads share a multiprocessor."""

    def by_wgmma(splits: int, prefer: Condition | None = None) -> Variant:
        """Make the variant in which ``splits`` blocks divide the inputs of a tile."""
        divided = splits > 1
        # A block that has all inputs of a tile stays for other tiles.
        grid = tiles * splits if divided else minimum(tiles, MULTIPROCESSORS * blocks)
        together = 1 if divided else 2 - remainder(chunks, 2)  # chunks of a stage
        depth = together * CHUNK
        pitch = depth + 8 if element_bytes == 4 else depth + depth // 8  # of a row of x in shared memory
        stage = (ROWS * pitch + depth * columns) * element_bytes
        share = f", {splits} blocks for each" if divided else ""
        return Variant(
            f"by{splits}_wgmma" if divided else "wgmma",
            Launch(
                (grid, 1, 1), (MULTIPLIERS + loaders, 1, 1), extras=(n,), shared_bytes=STAGES // together * (stage + 16)
            ),
            f"by wgmma, tiles of {ROWS} rows and up to {MOST_COLUMNS} outputs{share}",
            source="wgmma.cu",
            min_sm=90,
            only_sm=True,
            when=chunks >= splits,
            prefer=prefer,
        )

    return (
        by_wgmma(8, (8 * tiles <= AT_ONCE) & (chunks >= 8)),
        by_wgmma(4, (4 * tiles <= AT_ONCE) & (chunks >= 4)),
        by_wgmma(2, (2 * tiles <= MULTIPROCESSORS) & (chunks >= 12)),
        by_wgmma(1),
        Variant(
            "direct",
            Launch((ceil_div(n * (outputs // EIGHT), DIRECT_THREADS), 1, 1), (DIRECT_THREADS, 1, 1), extras=(n,)),
            "plain multiply-adds, 8 outputs a thread",
            entry=f"{kernel}_direct",
        ),
    )
