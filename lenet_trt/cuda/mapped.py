"""Hold host memory that the GPU reads and writes where it lies."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.cuda.driver import ask, current_context, driver, freed_with


class Mapped:
    """Hold pinned host memory of a shape, filled with zeros: ``array`` for the host, ``pointer`` for the GPU.

    ``write_combined``: the host's writes bypass its cache, which the GPU then need not look into; the host reads such
    memory very slowly. The memory is freed with the object, which the user of ``array`` must keep.
    """

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any], write_combined: bool = False) -> None:
        current_context()
        cuda = driver()
        self.shape, self.dtype = tuple(shape), dtype
        self.size_bytes = math.prod(shape) * dtype.itemsize
        flags = cuda.CU_MEMHOSTALLOC_DEVICEMAP | (cuda.CU_MEMHOSTALLOC_WRITECOMBINED if write_combined else 0)
        size = max(self.size_bytes, 1)
        self._host = int(ask(cuda.cuMemHostAlloc(size, flags), f"cannot pin {size} bytes of host memory"))
        freed_with(self, cuda.cuMemFreeHost, self._host)
        # The address is another one than the host's where the memory is write-combined.
        self.pointer = int(ask(cuda.cuMemHostGetDevicePointer(self._host, 0), "the GPU cannot see the host's memory"))
        memory = (ctypes.c_uint8 * self.size_bytes).from_address(self._host)
        self.array: NDArray[Any] = np.ctypeslib.as_array(memory).view(dtype).reshape(self.shape)
        self.array[...] = np.zeros((), dtype)
