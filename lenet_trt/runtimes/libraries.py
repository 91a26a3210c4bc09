"""Read and make GPU arrays of each library: torch, CuPy, PyCUDA, Numba, and those with a common protocol.

Source: the CUDA Array Interface, version 3 (numba.readthedocs.io).
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.shapes import Shape
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.runtimes.arrays import DeviceArray, RawStream, own_array


@dataclass(frozen=True)
class Library:
    """Read and make the arrays of one library.

    ``view`` returns the memory of an array, ``pointer`` only its address, ``key`` what distinguishes arrays that need
    different calls. ``wrap`` returns an array over memory, ``empty`` a new array like this memory, for use in a stream
    (None: the library's current stream). ``stream`` returns the raw handle of the current stream.
    """

    name: str
    view: Callable[[Any], DeviceArray]
    pointer: Callable[[Any], int]
    key: Callable[[Any], tuple[Any, ...]]
    wrap: Callable[[DeviceArray], Any]
    empty: Callable[[DeviceArray, int | None], Any]
    stream: Callable[[Any], int]


def library_of(array: Any) -> Library | None:
    """Return the library of a GPU array, or None for an array that is not on a GPU."""
    kind = type(array)
    known = _BY_TYPE.get(kind)
    if known is None:
        known = _BY_TYPE[kind] = _LIBRARIES.get(kind.__module__.partition(".")[0], OTHER)
    if known is TORCH:
        return TORCH if array.is_cuda else None
    if known is not OTHER:
        return known
    if hasattr(array, "__cuda_array_interface__"):
        return OTHER
    if hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] == _DLPACK_CUDA:
        return DLPACK
    return None


def _torch_view(tensor: Any) -> DeviceArray:
    if not tensor.is_contiguous():
        raise _not_dense(tuple(tensor.shape), tensor.stride())
    return DeviceArray(tensor.data_ptr(), tuple(tensor.shape), _TORCH_NAMES[tensor.dtype], tensor)


class _TorchNames(dict[Any, str]):
    """Map torch.float32 to "float32", and remember the answer."""

    def __missing__(self, dtype: Any) -> str:
        name = self[dtype] = str(dtype).removeprefix("torch.")
        return name


_TORCH_NAMES = _TorchNames()


def _torch_wrap(array: DeviceArray) -> Any:
    import torch

    if isinstance(array.owner, torch.Tensor):
        return array.owner
    tensor = torch.as_tensor(array, device="cuda")
    return tensor.view(torch.bfloat16) if array.dtype == "bfloat16" else tensor


def _torch_key(tensor: Any) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.dtype, tensor.is_contiguous()


def _torch_empty(like: DeviceArray, stream: int | None) -> Any:
    import torch

    if stream is None:
        if isinstance(like.owner, torch.Tensor):
            return torch.empty_like(like.owner)
        return torch.empty(like.shape, dtype=getattr(torch, like.dtype), device="cuda")
    # torch hands out memory again in the order of the stream that it was current for.
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        return torch.empty(like.shape, dtype=getattr(torch, like.dtype), device="cuda")


def _torch_stream(array: Any) -> int:
    import torch

    # The raw handle, as torch's compiled code asks for it; current_stream() takes several times as long.
    return int(torch._C._cuda_getCurrentRawStream(array.get_device()))


def _interface_view(array: Any) -> DeviceArray:
    """Read ``__cuda_array_interface__``.

    Raises:
        LenetTrtError: the array is not dense, or has a type that networks do not have.
    """
    interface = array.__cuda_array_interface__
    shape = tuple(interface["shape"])
    dtype = np.dtype(interface["typestr"])
    strides = interface.get("strides")
    if strides is not None and math.prod(shape) and tuple(strides) != _dense_strides(shape, dtype.itemsize):
        raise _not_dense(shape, strides)
    return DeviceArray(int(interface["data"][0] or 0), shape, dtype.name, array)


def _not_dense(shape: Shape, strides: Sequence[int]) -> LenetTrtError:
    return LenetTrtError(
        f"an input of shape {list(shape)} has the strides {list(strides)}; wanted dense memory, last axis fastest: "
        "copy it first (.contiguous(), ascontiguousarray)"
    )


def _dense_strides(shape: Shape, itemsize: int) -> Shape:
    strides = [itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tuple(strides)


def _interface_stream(array: Any) -> int:
    """Return the stream that writes the array, where the array names it, else the default stream."""
    return int(array.__cuda_array_interface__.get("stream") or 0)


def _interface_key(array: Any) -> tuple[Any, ...]:
    view = _interface_view(array)
    return view.pointer, view.shape, view.dtype


def _cupy_key(array: Any) -> tuple[Any, ...]:
    return array.data.ptr, array.shape, array.dtype, array.flags.c_contiguous


def _cupy_empty(like: DeviceArray, stream: int | None) -> Any:
    import cupy

    if stream is None:
        return cupy.empty(like.shape, like.dtype)
    external = getattr(cupy.cuda.Stream, "from_external", None)  # from CuPy 14 on, in place of ExternalStream
    with external(RawStream(stream)) if external is not None else cupy.cuda.ExternalStream(stream):
        return cupy.empty(like.shape, like.dtype)


def _cupy_wrap(array: DeviceArray) -> Any:
    import cupy

    return cupy.asarray(array)


def _cupy_stream(array: Any) -> int:
    import cupy

    return int(cupy.cuda.get_current_stream().ptr)


def _pycuda_empty(like: DeviceArray, stream: int | None) -> Any:
    from pycuda import gpuarray

    return gpuarray.empty(like.shape, numpy_dtype(like.dtype))


def _pycuda_wrap(array: DeviceArray) -> Any:
    from pycuda import gpuarray

    return gpuarray.GPUArray(array.shape, numpy_dtype(array.dtype), base=array, gpudata=array.pointer)


def _numba_empty(like: DeviceArray, stream: int | None) -> Any:
    from numba import cuda

    return cuda.device_array(like.shape, numpy_dtype(like.dtype))


def _numba_wrap(array: DeviceArray) -> Any:
    from numba import cuda

    return cuda.as_cuda_array(array)


def _dlpack_tensor(array: Any) -> Any:
    if importlib.util.find_spec("torch") is None:
        raise LenetTrtError(
            "an input has DLPack and no __cuda_array_interface__, and reading DLPack needs torch: pip install torch"
        )
    import torch

    return torch.utils.dlpack.from_dlpack(array)


def _interface_pointer(array: Any) -> int:
    return int(array.__cuda_array_interface__["data"][0] or 0)


def _dlpack_view(array: Any) -> DeviceArray:
    return _torch_view(_dlpack_tensor(array))


def _dlpack_key(array: Any) -> tuple[Any, ...]:
    return _torch_key(_dlpack_tensor(array))


def _default_stream(array: Any) -> int:
    return 0


_DLPACK_CUDA = 2
TORCH = Library(
    "torch",
    _torch_view,
    lambda tensor: int(tensor.data_ptr()),
    _torch_key,
    _torch_wrap,
    _torch_empty,
    _torch_stream,
)
OTHER = Library(
    "cuda array interface",
    _interface_view,
    lambda array: int(array.pointer),
    _interface_key,
    lambda array: array,
    lambda like, stream: own_array(like.shape, like.dtype),
    _interface_stream,
)
DLPACK = Library("dlpack", _dlpack_view, TORCH.pointer, _dlpack_key, _torch_wrap, _torch_empty, _default_stream)
_NUMBA = Library(
    "numba", _interface_view, _interface_pointer, _interface_key, _numba_wrap, _numba_empty, _interface_stream
)
_LIBRARIES = {
    "torch": TORCH,
    "cupy": Library(
        "cupy", _interface_view, lambda array: int(array.data.ptr), _cupy_key, _cupy_wrap, _cupy_empty, _cupy_stream
    ),
    "pycuda": Library(
        "pycuda",
        _interface_view,
        lambda array: int(array.gpudata),
        _interface_key,
        _pycuda_wrap,
        _pycuda_empty,
        _default_stream,
    ),
    "numba": _NUMBA,
    "numba_cuda": _NUMBA,
}
_BY_TYPE: dict[type, Library] = {}
