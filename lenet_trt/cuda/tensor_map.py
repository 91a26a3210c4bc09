"""Make tensor maps (CUtensorMap) as arguments of a launch.

The driver is called by ctypes. cuda-bindings have ``cuTensorMapEncodeTiled`` too, but their map is a new Python object
each time, and nothing says that it lies at a multiple of 64 bytes, as the driver wants. A map here stays where it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from lenet_trt.cuda.direct import driver_library
from lenet_trt.cuda.driver import ask, driver
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.tensor_maps import SpecializedMap

# Source: cuda.h of CUDA 13.0. CUtensorMapDataType by element type, CUtensorMapSwizzle by bytes, CUtensorMapL2promotion.
_TYPES = {"int8": 0, "uint8": 0, "int32": 3, "float16": 6, "float32": 7, "bfloat16": 9}
_SWIZZLES = {32: 1, 64: 2, 128: 3}
_PROMOTE_TO_128_BYTES = 2
_NO_INTERLEAVING = _ZEROS_OUTSIDE = 0
_BYTES = _ALIGNMENT = 128  # of a map; the driver wants at least 64


class EncodedMap:
    """Hold a map of an input for known sizes, in memory of the host: ``address`` stays, and is a launch's argument.

    ``follow(pointer)`` makes it a map of the input at that device address.

    Raises:
        LenetTrtError: hardware copies no boxes of such an array, or the driver is too old.
    """

    def __init__(self, which: SpecializedMap, values: Mapping[str, int]) -> None:
        self._tensor = which.tensor
        self._memory = (ctypes.c_ubyte * (_BYTES + _ALIGNMENT))()
        self.address = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT
        self.input = which.input
        self._pointer: int | None = None
        try:
            self._encode = driver_library().cuTensorMapEncodeTiled
        except AttributeError:
            raise LenetTrtError(
                "the NVIDIA driver has no cuTensorMapEncodeTiled: update it to one for CUDA 12.0 (525) or newer"
            ) from None
        sizes, rank = which.sizes(values), len(which.box)
        strides = which.strides(sizes)
        # The driver has the innermost axis first.
        self._before = (ctypes.c_void_p(self.address), ctypes.c_int(_TYPES[which.dtype]), ctypes.c_uint32(rank))
        self._after = (
            (ctypes.c_uint64 * rank)(*reversed(sizes)),
            (ctypes.c_uint64 * rank)(*reversed(strides)),  # of all axes but one
            (ctypes.c_uint32 * rank)(*reversed(which.box)),
            (ctypes.c_uint32 * rank)(*[1] * rank),
            ctypes.c_int(_NO_INTERLEAVING),
            ctypes.c_int(_SWIZZLES[which.row_bytes]),
            ctypes.c_int(_PROMOTE_TO_128_BYTES),
            ctypes.c_int(_ZEROS_OUTSIDE),
        )

    def follow(self, pointer: int) -> None:
        """Make the map of the input at this address, unless it is that already."""
        if pointer == self._pointer:
            return
        status = self._encode(*self._before, ctypes.c_void_p(pointer), *self._after)
        if status:
            self._pointer = None
            ask((driver().CUresult(status),), f"cannot make a tensor map of {self._tensor} at {pointer:#x}")
        self._pointer = pointer
