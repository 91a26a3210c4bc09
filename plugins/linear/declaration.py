"""Declare what ``linear`` and ``linear_half`` share, and products of rows and weights by ``wgmma``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from lenet_trt.dims import ARCHITECTURE, MULTIPROCESSORS, Condition, Dim, ceil_div, maximum, minimum, remainder
from lenet_trt.kernel import Axis, Launch, Tensor, TensorMap, Variant

from ..dense.declaration import inputs, n, outputs

EIGHT, CHUNK = 8, 32
DIRECT_THREADS = 128
# What linear_half/few_rows.cuh says: a block has 8 outputs, from so many on 16, for 32 rows between two numbers 32.
FEW_ROWS_THREADS, MANY_OUTPUTS, WIDE_FROM, WIDE_TO = 256, 2048, 4096, 8192
# What tile.cuh says.
ROWS, THREADS = 128, 384
MOST_STAYING = 2048  # columns of chunks, 64 bytes each
# What linear_half/stored_rows.cuh says: outputs of 16 bits that a warp stores at a time, and room for those of a block.
STORED_COLUMNS = 64
STORED_BYTES = ROWS * (STORED_COLUMNS + 8) * 2
# What a tile takes beside its columns, in the time of one. Where threads copy x: results/printed/linear_half_tiles.txt
# of docs. Where x comes by a tensor map: results/printed/pairs_of_blocks.txt.
TILE_COLUMNS, MAPPED_TILE_COLUMNS = 100, 50
LEAST_COLUMNS = 160  # the time of fewer: that of x
AT_ONCE = 7 * MULTIPROCESSORS // 8  # larger clusters do not fill a GPU
# Where it was measured: on Hopper.
HOPPER = ARCHITECTURE.equals(90)


@dataclass(frozen=True)
class Product:
    """Hold the sizes of a product of rows and weights, and make its variants.

    ``extras``: integers of its kernels. ``unit``: what divides the columns of a tile. ``mapped``: x [rows, inputs], of
    two bytes an element, comes by a tensor map, a box of 128 rows for each stage.
    """

    rows: Dim
    inputs: Dim
    outputs: Dim
    extras: tuple[Dim, ...]
    unit: int = 16
    mapped: bool = False

    @property
    def chunks(self) -> Dim:
        """Return the number of chunks of inputs whose weights lie together."""
        return ceil_div(self.inputs, CHUNK)

    @property
    def tiles_down(self) -> Dim:
        """Return the number of tiles down the rows."""
        return ceil_div(self.rows, ROWS)

    @property
    def flops(self) -> Dim:
        """Return the number of operations."""
        return 2 * self.rows * self.inputs * self.outputs

    @property
    def requires(self) -> Condition:
        """Return the condition on inputs and outputs."""
        of_inputs = self.inputs.multiple_of(EIGHT) & (self.inputs >= CHUNK)
        return of_inputs & self.outputs.multiple_of(EIGHT) & (self.outputs >= CHUNK)

    def packed(self, parts: int) -> tuple[Dim | int, ...]:
        """Return the shape of the packed weights (packed.cuh), each of which is so many numbers."""
        return (self.chunks, parts, self.outputs // EIGHT, CHUNK // EIGHT, EIGHT, EIGHT)

    def tiles(self, most_columns: int = 128) -> Dim:
        """Return the number of tiles of up to ``most_columns`` outputs."""
        return self.tiles_down * self._across(most_columns)

    def _across(self, most_columns: int) -> Dim:
        """Return the number of tiles across the outputs."""
        return ceil_div(self.outputs, most_columns)

    def columns(self, most_columns: int) -> Dim:
        """Return the columns of a tile of up to ``most_columns`` outputs."""
        return maximum(64, ceil_div(ceil_div(self.outputs, self._across(most_columns)), self.unit) * self.unit)

    def maps(self, depth: Dim | int) -> tuple[TensorMap, ...]:
        """Return the tensor map of x for stages of ``depth`` inputs, where there is one."""
        return (TensorMap("x", (self.rows, self.inputs), box=(ROWS, depth)),) if self.mapped else ()

    def by_wgmma(
        self,
        name: str,
        element_bytes: int,
        *,
        splits: int = 1,
        most_columns: int = 128,
        weights_stay: bool = False,
        stored_bytes: int = 0,
        **more: Any,
    ) -> Variant:
        """Make a variant for elements of x of some bytes.

        ``splits`` blocks divide the inputs of a tile of up to ``most_columns`` outputs. ``weights_stay``: all tiles of
        a block have the same columns, whose weights stay in its shared memory. ``stored_bytes``: shared memory for
        outputs on their way.
        """
        # A block that has all inputs of a tile stays for other tiles.
        some, across = self.tiles(most_columns), self._across(most_columns)
        at_once = maximum(MULTIPROCESSORS // across, 1) * across if weights_stay else MULTIPROCESSORS
        grid = some * splits if splits > 1 else minimum(some, at_once)
        together = 1 if splits > 1 else 2 - remainder(self.chunks, 2)  # chunks of a stage
        depth = together * CHUNK
        pitch = depth + 8  # of a row of x in shared memory
        x_bytes, columns = ROWS * pitch * element_bytes, self.columns(most_columns)
        stages = (6 if most_columns == 128 else 8) // together
        if weights_stay:
            shared_bytes = stages * (x_bytes + 16) + self.chunks * CHUNK * columns * element_bytes
            share, when = ", whose weights stay in shared memory", self.chunks * columns <= MOST_STAYING
        else:
            shared_bytes = stages * (x_bytes + depth * columns * element_bytes + 16)
            share, when = f", {splits} blocks for each" if splits > 1 else "", self.chunks >= splits
        shared_bytes += stored_bytes
        return Variant(
            name,
            Launch((grid, 1, 1), (THREADS, 1, 1), self.extras, shared_bytes, maps=self.maps(depth)),
            f"by wgmma, tiles of {ROWS} rows and up to {most_columns} outputs{share}",
            source="wgmma.cu",
            min_sm=90,
            only_sm=True,
            when=when,
            **more,
        )

    def wide(self) -> tuple[Variant, ...]:
        """Make the variants with tiles of up to 256 and 192 outputs, of elements of two bytes.

        The larger ones read x less often; of the smaller ones fewer multiprocessors may have none at the end.
        """
        widest, less, narrow = (self._time(columns) for columns in (256, 192, 128))
        return (
            self._if_enough("wide_wgmma", 256, (widest <= less) & (widest <= narrow)),
            self._if_enough("less_wide_wgmma", 192, less < narrow),
        )

    def _if_enough(self, name: str, most_columns: int, soonest: Condition) -> Variant:
        """Make a variant for sizes at which half of the multiprocessors have a tile, and other tiles end no sooner."""
        enough = 2 * self.tiles(most_columns) >= MULTIPROCESSORS
        return self.by_wgmma(name, 2, most_columns=most_columns, stored_bytes=STORED_BYTES, prefer=enough & soonest)

    def _time(self, most_columns: int) -> Dim:
        """Return the time of the tiles of a multiprocessor that has the most, in that of a column of one."""
        columns = maximum(ceil_div(self.columns(most_columns), STORED_COLUMNS) * STORED_COLUMNS, LEAST_COLUMNS)
        more = MAPPED_TILE_COLUMNS if self.mapped else TILE_COLUMNS
        return ceil_div(self.tiles(most_columns), MULTIPROCESSORS) * (columns + more)

    def narrow(self, element_bytes: int) -> tuple[Variant, ...]:
        """Make the variants with tiles of up to 128 outputs."""
        make = partial(self.by_wgmma, element_bytes=element_bytes)
        tiles, chunks = self.tiles(), self.chunks
        return (
            make("by8_wgmma", splits=8, prefer=(8 * tiles <= AT_ONCE) & (chunks >= 8)),
            make("by4_wgmma", splits=4, prefer=(4 * tiles <= AT_ONCE) & (chunks >= 4)),
            make("by2_wgmma", splits=2, prefer=(2 * tiles <= MULTIPROCESSORS) & (chunks >= 12)),
            make("wgmma", stored_bytes=STORED_BYTES if element_bytes == 2 else 0),
        )

    def few_rows(self) -> tuple[Variant, ...]:
        """Make the variants for so few rows that reading the weights takes the time, of elements of two bytes."""
        return tuple(
            Variant(
                f"few{most}",
                Launch((self._blocks_of_few(most), 1, 1), (FEW_ROWS_THREADS, 1, 1), self.extras),
                f"up to {most} rows and 8 to {max(most, 16)} outputs a block, whose warps divide the inputs",
                source="few_rows.cu",
                min_sm=80,
                when=self.rows <= most,
            )
            for most in (EIGHT, 2 * EIGHT, 4 * EIGHT)
        )

    def _blocks_of_few(self, most_rows: int) -> Dim:
        """Return the number of blocks for up to so many rows."""
        eights = 1 + minimum(self.outputs // MANY_OUTPUTS, 1)  # of outputs, that a block has
        if most_rows == 4 * EIGHT:
            beyond = minimum(ceil_div(self.outputs, WIDE_TO) - 1, 1)
            eights = eights + 2 * minimum(self.outputs // WIDE_FROM, 1) - 2 * beyond
        return ceil_div(self.outputs // EIGHT, eights)

    def direct(self, entry: str) -> Variant:
        """Make the variant for other GPUs."""
        grid = ceil_div(self.rows * (self.outputs // EIGHT), DIRECT_THREADS)
        launch = Launch((grid, 1, 1), (DIRECT_THREADS, 1, 1), extras=self.extras)
        return Variant("direct", launch, "plain multiply-adds, 8 outputs a thread", entry=entry)


LAYER = Product(n, inputs, outputs, extras=(n,))
AXES = (
    Axis("n", "rows"),
    Axis("in", "input features", static=True),
    Axis("out", "output features", static=True),
)
X = Tensor("x", (n, inputs), "T", "rows")
W = Tensor("w", (outputs, inputs), "T", "weights", weight=True)
BIAS = Tensor("bias", (outputs,), "T", "bias of each output", weight=True)
Y = Tensor("y", (n, outputs), "T", "results")
WIDE_ENOUGH = HOPPER & (inputs >= 64) & (outputs >= 64)
# Narrower layers of very many rows, as a ConvNeXt begins with.
MUCH = HOPPER & (LAYER.flops >= 1_000_000_000)
EXAMPLES = (
    {"n": 1, "in": 32, "out": 40, "activation": "gelu"},
    {"n": 133, "in": 96, "out": 96, "activation": "gelu_tanh"},
    {"n": 197, "in": 768, "out": 192, "activation": "none"},
    {"n": 130, "in": 160, "out": 264, "activation": "relu"},
    {"n": 259, "in": 40, "out": 160, "activation": "quick_gelu"},
    {"n": 517, "in": 80, "out": 320, "activation": "none"},
    {"n": 4100, "in": 512, "out": 256, "activation": "none"},
    {"n": 6304, "in": 192, "out": 768, "activation": "gelu"},
)
