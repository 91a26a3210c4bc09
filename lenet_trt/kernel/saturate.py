"""Quantize and dequantize in NumPy, bit for bit as ONNX defines it: for references of kernels, and for constants.

Source: the ONNX operators QuantizeLinear and DequantizeLinear (onnx.ai/onnx/operators).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.kernel.types import ELEMENT_TYPES, numpy_dtype

_LARGEST_FLOAT8 = 448


def quantize(
    values: NDArray[Any], scale: NDArray[Any] | float, dtype: str, zero: NDArray[Any] | int = 0, axis: int = 1
) -> NDArray[Any]:
    """Divide by the scale, round half to even, add the zero point, and saturate to the type.

    Shapes: scale and zero are scalars, or have one entry for each position along ``axis`` of ``values``.
    """
    kind = numpy_dtype(dtype)
    values = np.asarray(values)
    with np.errstate(over="ignore"):
        scaled = values / _along(scale, values, axis, values.dtype)
    if kind.kind not in "iu":
        return np.asarray(np.clip(scaled, -_LARGEST_FLOAT8, _LARGEST_FLOAT8).astype(kind))
    limits = np.iinfo(kind)
    shifted = np.rint(scaled) + _along(zero, values, axis, values.dtype)
    return np.asarray(np.clip(shifted, limits.min, limits.max).astype(kind))


def dequantize(
    values: NDArray[Any], scale: NDArray[Any] | float, zero: NDArray[Any] | int = 0, axis: int = 1
) -> NDArray[Any]:
    """Subtract the zero point, and multiply by the scale; the result has the type of the scale.

    Shapes: as ``quantize``.
    """
    kind = np.asarray(scale).dtype if isinstance(scale, np.ndarray) else np.dtype(np.float32)
    exact = np.asarray(values).astype(kind) - _along(zero, values, axis, kind)
    return np.asarray(exact * _along(scale, values, axis, kind))


def scaled(sums: NDArray[Any], factor: NDArray[Any], addend: NDArray[Any]) -> NDArray[Any]:
    """Return sums * factor + addend in float32 with one rounding, as a fused multiply-add; the sums are rounded before.

    Products of 24 bits are exact in float64. A sum there that is not exact is made odd, so that rounding it to float32
    gives what one rounding would give (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums").
    """
    with np.errstate(over="ignore", invalid="ignore"):
        product = sums.astype(np.float32).astype(np.float64) * factor.astype(np.float64)
        total = product + addend
        given = total - product
        error = (product - (total - given)) + (addend - given)
        bits = np.ascontiguousarray(total).view(np.int64)
        toward = np.where((error > 0) == (total > 0), 1, -1)
        odd = np.where((error != 0) & np.isfinite(error) & (bits % 2 == 0), bits + toward, bits)
        return np.asarray(odd.view(np.float64).astype(np.float32))


def is_quantized(dtype: str) -> bool:
    """Return whether numbers of that type are compared as integers: equal, or wrong."""
    return dtype in ELEMENT_TYPES and ELEMENT_TYPES[dtype].arithmetic == "int8"


def _along(entries: NDArray[Any] | float, values: NDArray[Any], axis: int, kind: np.dtype[Any]) -> NDArray[Any]:
    array = np.asarray(entries).astype(kind)
    if array.size == 1:
        return array.reshape(())
    shape = [1] * np.ndim(values)
    shape[axis] = array.size
    return array.reshape(shape)
