"""Declare what ``softmax`` and ``scale_add_softmax`` share: types, and variants whose sources have the same names."""

from __future__ import annotations

import numpy as np

from lenet_trt.dims import Dim, axes, ceil_div, size_of
from lenet_trt.kernel import Launch, Variant
from lenet_trt.kernel.dims import Condition

(k,) = axes("k")
PACK = 16 // size_of("T")  # elements
LANES_ROWS = 8
MOST_VALUES = 32  # of a row, that a thread holds in registers
BLOCK_THREADS = 512


def softmax_of(scores: np.ndarray) -> np.ndarray:
    """Compute exp(scores) over its sum in each row."""
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


class RowVariants:
    """Make the variants of a kernel over ``rows`` rows of k elements; ``extras`` are the integers of its launches."""

    def __init__(self, kernel: str, rows: Dim, extras: tuple[Dim, ...]) -> None:
        self._kernel, self._rows, self._extras = kernel, rows, extras

    def lanes(self, count: int, prefer: Condition | None = None) -> Variant:
        """Declare the variant in which ``count`` lanes share a row."""
        return Variant(
            f"lanes{count}",
            Launch((ceil_div(self._rows, LANES_ROWS), 1, 1), (count * LANES_ROWS, 1, 1), self._extras),
            f"{count} lanes a row",
            source="lanes.cu",
            entry=f"{self._kernel}_lanes",
            when=k <= MOST_VALUES * count,
            prefer=prefer,
        )

    def row(self, threads: int, prefer: Condition | None = None) -> Variant:
        """Declare the variant in which a block has a row in registers."""
        return Variant(
            f"row{threads}",
            Launch((self._rows, 1, 1), (threads, 1, 1), self._extras),
            f"a block of {threads} threads a row",
            source="row.cu",
            entry=f"{self._kernel}_row",
            when=k + 2 * PACK <= MOST_VALUES * threads,
            prefer=prefer,
        )

    def block(self) -> Variant:
        """Declare the variant for rows of any length."""
        return Variant(
            "block",
            Launch((self._rows, 1, 1), (BLOCK_THREADS, 1, 1), self._extras),
            "a block a row of any length, which it reads twice",
        )
