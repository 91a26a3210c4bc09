"""Define the tools that build, run and time TensorRT engines: the program trtexec, or TensorRT's Python package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import onnx
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.shapes import Shape
from lenet_trt.tensorrt.engine import BuildOptions

Arrays = Mapping[str, NDArray[np.generic]]
Outputs = Sequence[NDArray[np.float64]]
# Why a row has no time where only building was asked for.
NOT_RUN = "built, and not run: only building was asked for"


@dataclass(frozen=True)
class Engine:
    """Hold an engine on disk; ``with_plugins``: it needs what the tool loads for our kernels."""

    path: Path
    build_seconds: float
    with_plugins: bool = False


@dataclass(frozen=True)
class EngineModel:
    """Hold the models from which an engine is built.

    ``typed``: computes in the types of its tensors. ``weak``: the same for releases that get the types by options, with
    these flags of trtexec; None where ``typed``, ``half`` and ``int8`` suffice for them. ``fused``: has our plugin
    nodes in place of TensorRT's layers.
    """

    typed: onnx.ModelProto
    fused: Callable[[], onnx.ModelProto]
    half: bool = False
    int8: bool = False
    weak: onnx.ModelProto | None = None
    weak_flags: Sequence[str] = ()

    @property
    def precision(self) -> str:
        """Name the narrowest type that it computes in, or "" for float32."""
        return "int8" if self.int8 else "fp16" if self.half else ""


def with_plugins(model: onnx.ModelProto, plugins: str | Sequence[Kernel] = "auto") -> Callable[[], onnx.ModelProto]:
    """Return what puts plugin nodes into the model: see ``fuse``."""
    from lenet_trt.fuse.stage import fuse

    return lambda: fuse(model, plugins).model


class EngineTool(Protocol):
    """Build, run and time engines; ``folder`` is for the files that the tool writes.

    Every method raises a LenetTrtError with TensorRT's message. ``runs`` is False where the tool only builds. ``weak``:
    this TensorRT takes ``EngineModel.weak`` and chooses among the types that its options allow.
    """

    runs: bool
    weak: bool

    def __str__(self) -> str:
        """Name the tool and its version."""

    def built(
        self,
        model: EngineModel,
        engine: Path,
        options: BuildOptions,
        shapes: Sequence[Mapping[str, Shape]],
        *,
        with_plugins: bool,
        external_tactics: bool = False,
    ) -> Engine:
        """Build an engine; ``shapes`` are the smallest, the usual and the largest of each input, or none.

        ``external_tactics``: TensorRT's own layers may use kernels of cuBLAS and cuDNN.
        """

    def outputs(self, engine: Engine, inputs: Arrays) -> dict[str, NDArray[np.float64]]:
        """Run an engine on these inputs and return its outputs by name."""

    def timed(self, engine: Engine, shapes: Mapping[str, Shape], iterations: int) -> list[float]:
        """Run an engine and return the microseconds that each inference took on the GPU, after a warm-up."""

    def layers(self, engine: Engine) -> list[str]:
        """Name the layers of an engine that has been timed, each with TensorRT's name of its kernel where it tells."""


def outputs_of(tool: EngineTool, engine: Engine, model: onnx.ModelProto, inputs: Arrays) -> Outputs:
    """Run an engine of a model on these inputs and return its outputs in the model's order.

    Raises:
        LenetTrtError: the engine lacks one.
    """
    found, names = tool.outputs(engine, inputs), [value.name for value in model.graph.output]
    if missing := set(names) - found.keys():
        raise LenetTrtError(f"{engine.path.name} has the outputs {sorted(found)}; {sorted(missing)} are missing")
    return [found[name] for name in names]
