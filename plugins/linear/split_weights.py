"""Declare the weights of a product in floats: two fp16 numbers each, as ``wgmma`` reads them, and their packing."""

from __future__ import annotations

from typing import Any

import numpy as np

from lenet_trt.kernel import Tensor

from ..split_floats.packing import join, split
from .declaration import Product
from .packing import to_blocks, to_rows


def split_weights(layer: Product, bias: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors of packed weights, and the bias."""
    return (
        Tensor(
            "weights",
            layer.packed(2),
            "float16",
            "w as rows, divided by its output's scale, as two fp16 numbers (linear/packed.cuh)",
            weight=True,
        ),
        Tensor("scales", (layer.outputs,), "T", "a power of two for each output", weight=True),
        bias,
    )


def pack_split(rows: np.ndarray, bias: np.ndarray) -> dict[str, np.ndarray]:
    """Split each output's weights, a row, divided by a power of two, and lay them out for wgmma."""
    both, scales = split(rows)
    return {"weights": to_blocks(both), "scales": scales, "bias": bias}


def split_rows(op: Any, weights: Any, inputs: str) -> str:
    """Write the nodes that give the rows of weights, up to the bits that two fp16 numbers do not have.

    ``inputs``: the value that holds the number of inputs, [1].
    """
    scales = weights["scales"]
    rows = to_rows(op, join(op, weights["weights"], axis=1), scales, inputs)
    return str(op.Mul(rows, op.Reshape(scales, op.ints(-1, 1))))
