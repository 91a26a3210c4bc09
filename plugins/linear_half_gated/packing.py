"""Lay the two layers of ``linear_half_gated`` out as one, whose columns are gate, value, gate, value, and so on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..linear.packing import inputs_of_x, pack_rows, to_rows

PAIRED = (("gate", "w"), ("gate_bias", "bias"))
LAST = np.iinfo(np.int64).max


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Interleave the layers, and lay their weights out for wgmma."""
    rows, biases = (np.stack([weights[gate], weights[value]], axis=1) for gate, value in PAIRED)
    packed = pack_rows(rows.reshape(-1, rows.shape[-1]), biases)
    return {"weights": packed["weights"], "biases": packed["bias"]}


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    biases = op.Reshape(weights["biases"], op.ints(-1))
    rows = to_rows(op, weights["weights"], biases, inputs_of_x(op))
    return {
        name: op.Slice(columns, op.ints(first), op.ints(LAST), op.ints(0), op.ints(2))  # every second one
        for names, columns in zip(PAIRED, (rows, biases), strict=True)
        for first, name in enumerate(names)
    }
