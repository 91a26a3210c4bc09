"""Put kernels as data into the plugin nodes; one C++ library runs them in TensorRT 8.5 to 11, without Python.

The engine is built from a copy of the fused model in which every plugin node carries its kernel (``library.embed``).
Before such an engine is built or loaded, the library must be loaded into TensorRT's registry.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_bytes
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.plugin_nodes import OPERATOR
from lenet_trt.tensorrt.library.embed import embedded
from lenet_trt.tensorrt.library_file import library_content

if TYPE_CHECKING:
    from onnx import ModelProto

    from lenet_trt.kernel.declaration import Kernel
    from lenet_trt.tensorrt.flavors import Flavor


@dataclass(frozen=True)
class _Loaded:
    path: Path
    sha256: str


_loaded: dict[str, _Loaded] = {}


class LibraryRoute:
    """Define the route ``library``: see ``Route``."""

    name = "library"
    title = "one C++ library for every kernel, which trtexec and C++ programs load as well"
    needs_library = True
    needs_python = False
    network_flags: tuple[str, ...] = ()

    def obstacle(self, flavor: Flavor) -> str | None:
        """Return None: every known release takes plugin libraries."""
        return None

    def parsed(self, model: ModelProto, flavor: Flavor, targets: Sequence[int]) -> ModelProto:
        """Make the copy whose plugin nodes carry their kernels, for the GPUs that the engine is for."""
        return embedded(model, [f"sm_{sm}" for sm in targets or flavor.portable_sms()])

    def layer_type(self, flavor: Flavor) -> str:
        """Name the type of the plugins' layers."""
        return flavor.can.library_layer

    def register(self, flavor: Flavor, kernels: Sequence[Kernel], library: Path | None) -> None:
        """Load the library; the kernels are in the model."""
        load_library(flavor, library)

    def load(self, flavor: Flavor, entries: Sequence[Mapping[str, Any]], library: Path | None) -> None:
        """Load the library; the kernels are in the engine."""
        load_library(flavor, library)

    def load_any(self, flavor: Flavor, library: Path | None) -> None:
        """Load the library that was given, if one was."""
        if library is not None:
            load_library(flavor, library)

    def program_obstacle(self) -> str | None:
        """Return None: ``trtexec`` can run the engine when it is given the library."""
        return None


def load_library(flavor: Flavor, path: Path | None) -> None:
    """Load a plugin library into TensorRT's registry; again for the same file does nothing.

    Raises:
        LenetTrtError: there is none, it is no plugin library of this TensorRT, or another one is loaded already.
    """
    if path is None:
        raise LenetTrtError(
            "the plugin library is needed and none was given: make it with lenet-trt library, and give it with "
            "--library FILE"
        )
    content = library_content(path, flavor.name, flavor.version, flavor.product)
    before = _loaded.get(flavor.name)
    if before is not None and before.sha256 == sha256_bytes(content):
        return
    if before is not None:
        raise LenetTrtError(
            f"{before.path} is loaded in this process already, and {path} is another plugin library: use one of them, "
            "or a new process"
        )
    registry = flavor.trt.get_plugin_registry()
    was_there = _has_creator(flavor, registry)
    # Where the registry does not load it, it registers itself when it is opened.
    answer = registry.load_library(str(path.resolve())) if flavor.can.loads_libraries else _opened(path)
    if answer is None or not _has_creator(flavor, registry):
        why = (
            f"another library has registered {DOMAIN}::{OPERATOR} already: load one of the two, in a new process"
            if was_there
            else "its own messages above say why; make it on this machine with lenet-trt library"
        )
        raise LenetTrtError(f"{flavor.product} does not load the plugin library {path}: {why}")
    _loaded[flavor.name] = _Loaded(path, sha256_bytes(content))


def _opened(path: Path) -> Any:
    try:
        return ctypes.CDLL(str(path.resolve()), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be opened: {error}") from error


def _has_creator(flavor: Flavor, registry: Any) -> bool:
    offered = getattr(registry, flavor.can.creator_list)
    return any(creator.name == OPERATOR for creator in offered)
