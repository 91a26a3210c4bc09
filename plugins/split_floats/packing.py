"""Split weights into two fp16 numbers each, for tensor cores (see split.cuh)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lenet_trt.kernel.types import ELEMENT_TYPES

LOW = 2048.0
FLOAT = ELEMENT_TYPES["float32"].onnx_number
MAX_SCALE = 126


def split(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divide each row of ``w``, by its first axis, by a power of two that brings it below 2, and split it.

    Returns hi and lo, [2, ...] in fp16, of which hi + lo / 2048 is the row divided; and the powers of two.
    """
    across = tuple(range(1, w.ndim))
    most = np.max(np.abs(w), axis=across, initial=0.0, where=np.isfinite(w))
    exponents = np.clip(np.frexp(most)[1] - 1, -MAX_SCALE, MAX_SCALE)
    scaled = np.ldexp(w, -np.expand_dims(exponents, across))
    with np.errstate(invalid="ignore", over="ignore"):
        hi = scaled.astype(np.float16)
        rest = (scaled - hi.astype(w.dtype)) * w.dtype.type(LOW)
    lo = np.where(np.isfinite(hi), rest, 0).astype(np.float16)  # an infinity is one alone
    return np.stack((hi, lo)), np.ldexp(np.ones(len(w), w.dtype), exponents)


def join(op: Any, both: str, axis: int) -> str:
    """Write the nodes that compute hi + lo / 2048 of what has them along ``axis``, which becomes 1 long."""
    floats = op.Cast(both, to=FLOAT)
    hi, lo = (op.Slice(floats, op.ints(i), op.ints(i + 1), op.ints(axis)) for i in range(2))
    return str(op.Add(hi, op.Mul(lo, op.constant(np.array(1 / LOW, np.float32)))))
