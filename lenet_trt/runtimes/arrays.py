"""Use memory on the GPU and streams, whoever made them.

Source: the CUDA Array Interface, version 3 (numba.readthedocs.io), and the CUDA stream protocol of cuda.core.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lenet_trt.cuda.driver import Buffer, ask, driver
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.shapes import Shape
from lenet_trt.kernel.types import numpy_dtype

ONE_CONTEXT = (
    "use the GPU's primary context everywhere (PyCUDA: import pycuda.autoprimaryctx, not pycuda.autoinit) and one GPU"
)


class DeviceArray:
    """Describe memory on the GPU: dense, last axis fastest; ``owner`` keeps it alive."""

    __slots__ = ("dtype", "owner", "pointer", "shape")

    def __init__(self, pointer: int, shape: Shape, dtype: str, owner: Any) -> None:
        self.pointer = pointer
        self.shape = shape
        self.dtype = dtype
        self.owner = owner

    @property
    def nbytes(self) -> int:
        """Return its size in bytes."""
        return math.prod(self.shape) * numpy_dtype(self.dtype).itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kind = numpy_dtype("int16" if self.dtype == "bfloat16" else self.dtype).str
        return {"shape": self.shape, "typestr": kind, "data": (self.pointer, False), "strides": None, "version": 3}


def raw_stream(stream: Any) -> int:
    """Return the handle of a stream: an integer, or an object of torch, CuPy, PyCUDA, Numba or cuda.core.

    Raises:
        LenetTrtError: the object is no stream.
    """
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr", "handle"):  # torch; CuPy; PyCUDA and Numba
        handle = getattr(stream, attribute, None)
        if handle is not None:
            return int(getattr(handle, "value", handle) or 0)
    raise LenetTrtError(
        f"stream is a {type(stream).__name__}; wanted a stream of torch, CuPy, PyCUDA or Numba, or its raw handle"
    )


def check_memory(array: DeviceArray) -> None:
    """Refuse memory that kernels of the current CUDA context cannot read.

    Raises:
        LenetTrtError: the memory is in another context, or not on a GPU.
    """
    if array.pointer == 0:
        return  # an empty array
    cuda = driver()
    attribute = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_CONTEXT
    status, context = cuda.cuPointerGetAttribute(attribute, array.pointer)
    if int(status) != 0:
        raise LenetTrtError(f"the address {array.pointer:#x} of an input is not GPU memory")
    current = ask(cuda.cuCtxGetCurrent(), "cannot ask for the CUDA context")
    if int(context) not in (0, int(current)):  # memory of a stream-ordered pool belongs to no context
        raise LenetTrtError(f"an input is in another CUDA context than the network: {ONE_CONTEXT}")


def own_array(shape: Sequence[int], dtype: str) -> DeviceArray:
    """Allocate memory on the GPU, freed with the object; for callers without an allocator of their own."""
    buffer = Buffer(math.prod(shape) * numpy_dtype(dtype).itemsize)
    return DeviceArray(buffer.pointer, tuple(shape), dtype, buffer)


@dataclass(frozen=True)
class RawStream:
    """Offer a raw handle in the stream protocol of cuda.core."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle
