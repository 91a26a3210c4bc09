"""Declare ``lstm``: a layer of an LSTM over a whole sequence, in one or both directions, in one launch.

Source: the operator LSTM of ONNX; gates are in its order: input, output, forget, cell.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, Dim, axes, ceil_div, maximum, minimum, size_of
from lenet_trt.kernel import Attribute, Axis, IntegerAttribute, Kernel, Launch, Tensor, Types, Variant

from .pattern import DIRECTIONS, PATTERNS

steps, n, inputs, dirs, hidden_size = axes("steps n inputs dirs hidden_size")
THREADS, DIRECT_THREADS = 512, 1024
# Weights of a gate's row that a thread keeps in registers; the others are in shared memory.
KEPT = minimum(hidden_size, 64)
MANY_ROWS = 4
# The share of the multiprocessors on which clusters of so many blocks found room on an H200.
ROOM_PERCENT = {1: 100, 2: 100, 8: 73}
SHARED_LIMIT, LARGE_SHARED_LIMIT = 60 * 1024, 227 * 1024


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def reference(
    x: np.ndarray,
    w: np.ndarray,
    r: np.ndarray,
    b: np.ndarray,
    h0: np.ndarray,
    c0: np.ndarray,
    *,
    hidden_size: int,
    direction: str,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run the layer step by step; a direction that is reversed begins at the last step."""
    y = np.empty((len(x), *h0.shape))
    last_h, last_c = h0.copy(), c0.copy()
    for way in range(len(w)):
        reversed_ = direction == "reverse" or way == 1
        bias = b[way, : 4 * hidden_size] + b[way, 4 * hidden_size :]
        for step in range(len(x))[:: -1 if reversed_ else 1]:
            sums = x[step] @ w[way].T + last_h[way] @ r[way].T + bias
            i, o, f, c = np.split(sums, 4, axis=1)
            last_c[way] = _sigmoid(f) * last_c[way] + _sigmoid(i) * np.tanh(c)
            last_h[way] = _sigmoid(o) * np.tanh(last_c[way])
            y[step, way] = last_h[way]
    return y, last_h, last_c


def kept(rows: int) -> Variant:
    """Make a variant of kept.cu, whose blocks have so many rows of the batch."""
    gates = 4 * hidden_size
    floats = rows * (hidden_size + 2 * inputs + gates)  # states, features of two steps, gates
    shared = 4 * floats + gates * (inputs + hidden_size - KEPT) * size_of("T")
    name = "kept" if rows == 1 else f"kept{rows}"
    return Variant(
        name,
        Launch((ceil_div(n, rows), dirs, 1), (THREADS, 1, 1), (steps, n), shared),
        f"weights in registers and shared memory, {rows} of the batch a block",
        source="kept.cu",
        when=(4 * hidden_size <= THREADS) & (shared <= SHARED_LIMIT),
        # More blocks than multiprocessors would follow each other; rows of one block share its weights.
        prefer=None if rows == 1 else dirs * n > MULTIPROCESSORS,
    )


def clusters_at_once(blocks: int) -> Dim:
    """Return how many clusters of so many blocks run at once."""
    return ROOM_PERCENT[blocks] * MULTIPROCESSORS // (100 * blocks)


@dataclass(frozen=True)
class Cluster:
    """Hold an entry of cluster.cu: the properties are the numbers of ``Division`` in cluster.cuh."""

    blocks: int
    rows: int

    @property
    def units(self) -> Dim:
        """Return the units of a block."""
        return ceil_div(hidden_size, self.blocks)

    @property
    def lanes(self) -> Dim:
        """Return the lanes of a unit: 32, 16 or 8."""
        return 8 + 8 * minimum(1, 32 // self.units) + 16 * minimum(1, 16 // self.units)

    @property
    def most_units(self) -> int:
        """Return the units of a block whose lanes have registers for their weights of the states, at most 64 each."""
        return 32 if self.blocks == 8 else 64

    @property
    def shared_bytes(self) -> Dim:
        """Return the bytes of shared memory of a block: barriers, states and features of two steps, weights."""
        per = 4 // self.rows
        pieces, of_x = ceil_div(hidden_size, per * self.lanes), ceil_div(inputs, self.lanes)
        floats = self.lanes * (4 * pieces + self.rows * of_x)
        # Weights of a thread that registers hold; with more, those of the features are here.
        most = 84 if self.rows == 1 else 80
        are_shared = minimum(1, maximum(4 * (pieces * per + of_x), most) - most)
        return 16 + 8 * floats + are_shared * 4 * THREADS * of_x * size_of("T")

    def variant(self) -> Variant:
        """Make the variant."""
        groups = ceil_div(n, self.rows)
        return Variant(
            f"by{self.blocks}" if self.rows == 1 else f"by{self.blocks}_rows{self.rows}",
            Launch((groups * self.blocks, dirs, 1), (THREADS, 1, 1), (steps, n), self.shared_bytes),
            f"weights in the registers of a cluster of {self.blocks}, {self.rows} of the batch a cluster",
            source="cluster.cu",
            min_sm=90,
            only_sm=True,
            when=(self.units <= self.most_units) & (self.shared_bytes <= LARGE_SHARED_LIMIT),
            # Clusters that are not all there at once follow each other; rows of one cluster share its weights.
            prefer=self._are_fastest if self.rows == 1 else None,
        )

    @property
    def _are_fastest(self) -> Condition:
        """Return whether clusters of one sequence are all there at once, and larger ones would not be."""
        fit = dirs * n <= clusters_at_once(self.blocks)
        larger = [blocks for blocks in ROOM_PERCENT if blocks > self.blocks]
        return fit & (dirs * n > clusters_at_once(larger[0])) if larger else fit


KERNEL = Kernel(
    name="lstm",
    doc="y, y_h, y_c = LSTM(x, w, r, b, h0, c0), all steps of a layer in one launch",
    axes=(
        Axis("steps", "length of the sequence"),
        Axis("n", "sequences"),
        Axis("inputs", "features of a step", static=True),
        Axis("dirs", "directions", static=True),
    ),
    inputs=(
        Tensor("x", (steps, n, inputs), "T", "sequences"),
        Tensor("w", (dirs, 4 * hidden_size, inputs), "T", "weights of the features", weight=True),
        Tensor("r", (dirs, 4 * hidden_size, hidden_size), "T", "weights of the state", weight=True),
        Tensor("b", (dirs, 8 * hidden_size), "T", "biases of both", weight=True),
        Tensor("h0", (dirs, n, hidden_size), "T", "first states"),
        Tensor("c0", (dirs, n, hidden_size), "T", "first cells"),
    ),
    outputs=(
        Tensor("y", (steps, dirs, n, hidden_size), "T", "states of all steps"),
        Tensor("y_h", (dirs, n, hidden_size), "T", "last states"),
        Tensor("y_c", (dirs, n, hidden_size), "T", "last cells"),
    ),
    types=(
        Types("fp32", {"T": "float32"}, tolerance=3e-6),
        Types("fp16", {"T": "float16"}, tolerance=2e-3),
        # ONNX has an LSTM of bfloat16 from opset 22 on alone.
    ),
    attributes=(
        IntegerAttribute("hidden_size", 1, 1024, (12,), "length of a state"),
        Attribute("direction", DIRECTIONS, "where a sequence begins"),
    ),
    requires=(dirs <= 2) & (n <= 1 << 24),
    variants=(
        *(Cluster(blocks, rows).variant() for rows in (1, MANY_ROWS) for blocks in ROOM_PERCENT),
        kept(MANY_ROWS),
        kept(1),
        Variant(
            "direct",
            Launch((n, dirs, 1), (DIRECT_THREADS, 1, 1), (steps, n), 4 * (inputs + 5 * hidden_size)),
            "weights from L2 at each step",
        ),
    ),
    claims=(hidden_size <= 256,),
    patterns=PATTERNS,
    reference=reference,
    max_elements=2**40,
    examples=(
        {"steps": 1, "n": 1, "inputs": 1, "dirs": 1, "hidden_size": 1, "direction": "forward"},
        {"steps": 3, "n": 5, "inputs": 7, "dirs": 1, "hidden_size": 9, "direction": "reverse"},
        {"steps": 9, "n": 3, "inputs": 40, "dirs": 2, "hidden_size": 128, "direction": "bidirectional"},
        {"steps": 4, "n": 2, "inputs": 64, "dirs": 2, "hidden_size": 300, "direction": "bidirectional"},
        {"steps": 6, "n": 7, "inputs": 120, "dirs": 1, "hidden_size": 50, "direction": "reverse"},
        {"steps": 4, "n": 37, "inputs": 300, "dirs": 2, "hidden_size": 250, "direction": "bidirectional"},
        {"steps": 5, "n": 301, "inputs": 16, "dirs": 1, "hidden_size": 32, "direction": "forward"},
    ),
    flops=8 * steps * n * dirs * hidden_size * (inputs + hidden_size),
    source_dir=Path(__file__).parent,
)
