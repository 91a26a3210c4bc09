"""TensorRT's runtime through the plugin library's C interface, for a Python that TensorRT has no package for.

``CBindings`` has the names of the package ``tensorrt`` that running an engine needs, and no others. It calls the
functions of library/cpp/runtime.cpp.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_file
from lenet_trt.kernel.shapes import Shape
from lenet_trt.onnx_model.plugin_nodes import OPERATOR
from lenet_trt.tensorrt.flavors import Flavor
from lenet_trt.tensorrt.library_file import library_release

_MAX_RANK = 8
_Sizes = ctypes.c_int64 * _MAX_RANK
_LIBRARIES = ("libnvinfer.so", "libnvinfer_lean.so")


class _Facts(ctypes.Structure):
    """lenet_trt_tensor_facts of runtime.cpp."""

    _fields_ = (
        ("is_input", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("is_on_gpu", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("sizes", _Sizes),
    )


_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
# name -> (what it returns, its arguments)
_FUNCTIONS: dict[str, tuple[Any, Sequence[Any]]] = {
    "said": (_TEXT, ()),
    "version": (_INT, ()),
    "register": (_INT, ()),
    "engine": (_POINTER, (_TEXT, ctypes.c_size_t)),
    "end_engine": (None, (_POINTER,)),
    "tensor_count": (_INT, (_POINTER,)),
    "tensor_name": (_TEXT, (_POINTER, _INT)),
    "tensor": (None, (_POINTER, _TEXT, ctypes.POINTER(_Facts))),
    "profile": (_INT, (_POINTER, _TEXT, _INT, _Sizes)),
    "context": (_POINTER, (_POINTER,)),
    "end_context": (None, (_POINTER,)),
    "set_shape": (_INT, (_POINTER, _TEXT, _INT, _Sizes)),
    "set_address": (_INT, (_POINTER, _TEXT, _POINTER)),
    "shape": (_INT, (_POINTER, _TEXT, _Sizes)),
    "enqueue": (_INT, (_POINTER, _POINTER)),
}


class _Severity(IntEnum):
    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = range(5)


class _Logger:
    """The base of loggers; ``log`` is theirs."""

    Severity = _Severity


class CBindings:
    """Stand for the module ``tensorrt``, over a plugin library that is loaded beside TensorRT's."""

    # Numbers of nvinfer1::DataType, which every release from 8.5 on shares as far as it has them.
    DataType = IntEnum("DataType", "FLOAT HALF INT8 INT32 BOOL UINT8 FP8 BF16 INT64", start=0)
    TensorIOMode = IntEnum("TensorIOMode", "NONE INPUT OUTPUT", start=0)
    TensorLocation = IntEnum("TensorLocation", "DEVICE HOST", start=0)
    ILogger = _Logger
    __name__ = "tensorrt, by the plugin library"

    def __init__(self, library: ctypes.CDLL, path: Path) -> None:
        self._functions = {name: getattr(library, f"lenet_trt_{name}") for name in _FUNCTIONS}
        for name, function in self._functions.items():
            function.restype, function.argtypes = _FUNCTIONS[name]
        self._path = path
        version = self.call("version")
        major, rest = divmod(version, 10_000 if version >= 100_000 else 1000)
        self.__version__ = f"{major}.{rest // 100}.{rest % 100}"

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the interface."""
        return self._functions[name](*(each.encode() if isinstance(each, str) else each for each in arguments))

    def tell(self, log: Any) -> None:
        """Give a logger the errors since the last time."""
        for line in self.call("said").decode(errors="replace").splitlines():
            log.log(_Severity.ERROR, line)

    def Runtime(self, log: Any) -> Any:  # noqa: N802 (the module's name)
        """Return what deserializes engines."""
        return SimpleNamespace(deserialize_cuda_engine=lambda data: self._deserialized(data, log))

    def get_plugin_registry(self) -> Any:
        """Return a registry that tells of our plugin alone, which the library registers with TensorRT."""
        mine = [SimpleNamespace(name=OPERATOR)] if self.call("register") else []
        return SimpleNamespace(load_library=self._loaded, all_creators=mine, plugin_creator_list=mine)

    def _deserialized(self, data: bytes, log: Any) -> Any:
        handle = self.call("engine", data, len(data))
        self.tell(log)
        return _Engine(self, handle, log) if handle else None

    def _loaded(self, path: str) -> Any:
        """Answer as the registry does: None where the library is another one than that which runs the engine."""
        return self._path if sha256_file(Path(path)) == sha256_file(self._path) else None


class _Engine:
    """An ICudaEngine."""

    def __init__(self, bindings: CBindings, handle: int, log: Any) -> None:
        self._bindings, self._handle, self._log = bindings, handle, log

    @property
    def num_io_tensors(self) -> int:
        return int(self._bindings.call("tensor_count", self._handle))

    def get_tensor_name(self, index: int) -> str:
        return str(self._bindings.call("tensor_name", self._handle, index).decode())

    def get_tensor_mode(self, name: str) -> IntEnum:
        return self._bindings.TensorIOMode["INPUT" if self._facts(name).is_input else "OUTPUT"]

    def get_tensor_location(self, name: str) -> IntEnum:
        return self._bindings.TensorLocation["DEVICE" if self._facts(name).is_on_gpu else "HOST"]

    def get_tensor_dtype(self, name: str) -> Any:
        number = self._facts(name).type
        return next((kind for kind in self._bindings.DataType if kind == number), f"number {number} of TensorRT")

    def get_tensor_shape(self, name: str) -> Shape:
        facts = self._facts(name)
        return tuple(facts.sizes[: facts.rank])

    def get_tensor_profile_shape(self, name: str, _: int) -> tuple[Shape, ...]:
        found = []
        for which in range(3):
            rank = self._bindings.call("profile", self._handle, name, which, sizes := _Sizes())
            found.append(tuple(sizes[: max(rank, 0)]))
        return tuple(found)

    def create_execution_context(self) -> Any:
        handle = self._bindings.call("context", self._handle)
        self._bindings.tell(self._log)
        return _Context(self._bindings, handle, self, self._log) if handle else None

    def __del__(self) -> None:
        self._bindings.call("end_engine", self._handle)

    def _facts(self, name: str) -> _Facts:
        found = _Facts()
        self._bindings.call("tensor", self._handle, name, ctypes.byref(found))
        return found


class _Context:
    """An IExecutionContext; its engine lives as long."""

    def __init__(self, bindings: CBindings, handle: int, engine: _Engine, log: Any) -> None:
        self._bindings, self._handle, self._engine, self._log = bindings, handle, engine, log

    def set_input_shape(self, name: str, shape: Shape) -> bool:
        return self._told("set_shape", name, len(shape), _Sizes(*shape))

    def set_tensor_address(self, name: str, address: int) -> bool:
        return self._told("set_address", name, address)

    def get_tensor_shape(self, name: str) -> Shape:
        rank = self._bindings.call("shape", self._handle, name, sizes := _Sizes())
        return tuple(sizes[: max(rank, 0)])

    def execute_async_v3(self, stream: int) -> bool:
        return self._told("enqueue", stream)

    def __del__(self) -> None:
        self._bindings.call("end_context", self._handle)

    def _told(self, name: str, *arguments: Any) -> bool:
        done = bool(self._bindings.call(name, self._handle, *arguments))
        if not done:
            self._bindings.tell(self._log)
        return done


def flavor_by_library(path: Path) -> Flavor:
    """Load TensorRT's own library and a plugin library for it, and return them as a flavor that runs engines.

    Raises:
        LenetTrtError: the file is no plugin library, or TensorRT's library of its major version is not found.
    """
    major, _ = library_release(path)
    for name in _LIBRARIES:
        try:
            ctypes.CDLL(f"{name}.{major}", mode=ctypes.RTLD_GLOBAL)
            break
        except OSError as error:
            reason = error
    else:
        raise LenetTrtError(
            f"{path} is for TensorRT {major}, whose library {_LIBRARIES[0]}.{major} is not found ({reason}): put its "
            "folder on LD_LIBRARY_PATH"
        )
    try:
        bindings: Any = CBindings(ctypes.CDLL(str(path.resolve())), path)
    except (OSError, AttributeError) as error:
        raise LenetTrtError(f"{path} cannot be used: {error}: make it again with lenet-trt library") from error
    return Flavor("tensorrt", bindings, bindings.__version__, f"its Python package is not here; by {path}")
