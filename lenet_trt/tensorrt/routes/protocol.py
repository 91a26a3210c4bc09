"""Define a route: one way by which a kernel gets into a TensorRT engine, and is there when the engine is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from onnx import ModelProto

    from lenet_trt.kernel.declaration import Kernel
    from lenet_trt.tensorrt.flavors import Flavor


class Route(Protocol):
    """Define one way into TensorRT. ``name``: its name on the command line, in sidecars and in messages.

    ``title`` says it in a few words. ``needs_library``: the process that builds or loads such an engine needs the
    plugin library; ``needs_python``: it needs Python. ``network_flags``: what the network definition is asked for, by
    TensorRT's names.
    """

    name: str
    title: str
    needs_library: bool
    needs_python: bool
    network_flags: tuple[str, ...]

    def obstacle(self, flavor: Flavor) -> str | None:
        """Say why the flavor does not take plugins this way; None when it does."""

    def parsed(self, model: ModelProto, flavor: Flavor, targets: Sequence[int]) -> ModelProto:
        """Make of a fused model what TensorRT's parser is given.

        Raises:
            LenetTrtError: a plugin node cannot go this way.
        """

    def layer_type(self, flavor: Flavor) -> str:
        """Name the type of the network's layers that proves that the plugins are there."""

    def register(self, flavor: Flavor, kernels: Sequence[Kernel], library: Path | None) -> None:
        """Make the kernels known to TensorRT's parser.

        Raises:
            LenetTrtError: TensorRT does not take them.
        """

    def load(self, flavor: Flavor, entries: Sequence[Mapping[str, Any]], library: Path | None) -> None:
        """Make known what an engine needs before it is deserialized; ``entries`` are its sidecar's plugins.

        Raises:
            LenetTrtError: it is not to be had here, or is not what the engine was built with.
        """

    def load_any(self, flavor: Flavor, library: Path | None) -> None:
        """Make known what an engine without a sidecar may need, where this flavor takes plugins this way."""

    def program_obstacle(self) -> str | None:
        """Say why ``trtexec`` cannot load such an engine; None when it can."""
