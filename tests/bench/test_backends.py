"""Where a backend's logits lie, read without the library that made them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from lenet_trt.bench.backends.on_gpu import Memory, memory_of
from lenet_trt.runtimes.arrays import DeviceArray


def copied(memory: Memory) -> np.ndarray:
    """The bytes, of memory on the CPU."""
    return np.frombuffer(ctypes.string_at(memory.pointer, memory.nbytes), np.uint8).copy()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("width", [10, 12, 16])
def test_rows_may_be_padded(dtype: str, width: int) -> None:
    torch = pytest.importorskip("torch")
    logits = torch.randn(64, width).to(getattr(torch, dtype))[:, :10]
    memory = memory_of(logits)
    # What lies behind the last logit need not be there.
    assert memory.nbytes == (63 * width + 10) * logits.element_size()
    assert np.array_equal(memory.seen_in(copied(memory)), logits.numpy())


def test_our_own_arrays_are_dense() -> None:
    values = np.arange(30, dtype=np.float32).reshape(3, 10)
    memory = memory_of(DeviceArray(values.ctypes.data, values.shape, "float32", values))
    assert memory.nbytes == values.nbytes
    assert np.array_equal(memory.seen_in(copied(memory)), values)
