"""Lay the weights of ``linear`` and ``linear_half`` out for ``wgmma`` (see packed.cuh)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lenet_trt.kernel import Packing, Tensor

from .declaration import BIAS, CHUNK, EIGHT, Product, W


def to_blocks(parts: np.ndarray) -> np.ndarray:
    """Return [in / 32, parts, out / 8, 4, 8, 8] of ``parts`` [parts, out, in], filled up with zeros."""
    parts = np.pad(parts, ((0, 0), (0, 0), (0, -parts.shape[-1] % CHUNK)))
    count, outputs, inputs = parts.shape
    blocks = parts.reshape(count, outputs // EIGHT, EIGHT, inputs // CHUNK, CHUNK // EIGHT, EIGHT)
    return np.ascontiguousarray(blocks.transpose(3, 0, 1, 4, 2, 5))


def weights_in_blocks(layer: Product) -> Tensor:
    """Return the packed weights of a layer in 16 bits."""
    return Tensor("weights", layer.packed(1), "T", "w, laid out for wgmma (linear/packed.cuh)", weight=True)


def pack_rows(w: np.ndarray, bias: np.ndarray) -> dict[str, np.ndarray]:
    """Lay the weights [out, in] of a layer in 16 bits out for wgmma."""
    return {"weights": to_blocks(w[np.newaxis]), "bias": bias}


def packing_of_rows(axis: int = 1) -> Packing:
    """Return the packing of a dense layer's weights in 16 bits; ``axis``: that of the inputs in x."""

    def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return pack_rows(weights["w"], weights["bias"])

    def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
        return {"w": to_rows(op, weights["weights"], weights["bias"], inputs_of_x(op, axis)), "bias": weights["bias"]}

    return Packing((W, BIAS), pack, unpack)


def to_rows(op: Any, blocks: str, like: str, inputs: str) -> str:
    """Write the nodes that make [out, in] of the blocks of one part; ``like`` has a number for each output.

    ``inputs``: the value that holds the number of inputs, [1].
    """
    return str(op.Slice(padded_rows(op, blocks, like), op.ints(0), inputs, op.ints(1)))


def padded_rows(op: Any, blocks: str, like: str) -> str:
    """Write the nodes that make the same, with the zeros behind the last input."""
    ordered = op.Transpose(blocks, perm=[2, 4, 0, 1, 3, 5])
    return str(op.Reshape(ordered, op.Concat(op.Shape(like), op.ints(-1), axis=0)))


def inputs_of_x(op: Any, axis: int = 1) -> str:
    """Write the nodes that give the number of inputs of x, which are along an axis: of rows [n, in] the second one."""
    return str(op.Slice(op.Shape("x"), op.ints(axis), op.ints(axis + 1)))
