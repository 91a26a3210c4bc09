"""Hold host memory that the GPU reads and writes where it lies."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.cuda.driver import ask, current_context, driver, freed_with


class _Pinned:
    """Hold an allocation of the driver, which is freed with the object."""

    def __init__(self, size: int) -> None:
        cuda = driver()
        answer = cuda.cuMemHostAlloc(size, cuda.CU_MEMHOSTALLOC_DEVICEMAP)
        self.address = int(ask(answer, f"cannot pin {size} bytes of host memory"))
        freed_with(self, cuda.cuMemFreeHost, self.address)


class Mapped:
    """Hold pinned host memory of a shape, filled with zeros: ``array`` for the host, ``pointer`` for the GPU.

    The memory lives as long as the object, or an array that is a view of it.
    """

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        current_context()
        self.shape, self.dtype = tuple(shape), dtype
        self.size_bytes = math.prod(shape) * dtype.itemsize
        pinned = _Pinned(max(self.size_bytes, 1))
        address = driver().cuMemHostGetDevicePointer(pinned.address, 0)
        self.pointer = int(ask(address, "the GPU cannot see the host's memory"))
        self.array = owned_array(pinned, pinned.address, self.shape, dtype)


def owned_array(owner: object, address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return zeros in the memory at an address, which its owner frees: the array and all views keep the owner."""
    memory: Any = (ctypes.c_uint8 * (math.prod(shape) * dtype.itemsize)).from_address(address)
    memory.owner = owner
    array: NDArray[Any] = np.ctypeslib.as_array(memory).view(dtype).reshape(tuple(shape))
    array[...] = np.zeros((), dtype)
    return array
