"""A case of the survey: a network in a batch and a precision, and the engines that it is built into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from lenet_trt.bench.engine_tool import Engine, EngineModel, EngineTool
from lenet_trt.bench.kept_engines import KeptEngines
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.bench.trtexec_engines import trtexec_engines
from lenet_trt.bench.zoo.models import ExportedNetwork
from lenet_trt.bench.zoo.tables import PLUGINS, TENSORRT
from lenet_trt.cuda.gpus import Gpu
from lenet_trt.files import sha256_file
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import convert
from lenet_trt.profile.trtexec import Trtexec
from lenet_trt.runtimes.ort import runner
from lenet_trt.tensorrt.engine import BuildOptions
from lenet_trt.tensorrt.find_library import DEFAULT_LIBRARY


@dataclass(frozen=True)
class Builder:
    """Hold what builds and runs engines: trtexec, the plugin library, the GPU, and the folder of the engines.

    ``library``: the path, also where there is no file; TensorRT's own layers need none.
    """

    tool: Trtexec
    library: Path
    gpu: Gpu
    folder: Path
    flags: tuple[str, ...]

    @classmethod
    def of(cls, options: SuiteOptions, tool: Trtexec, gpu: Gpu, folder: Path) -> Builder:
        """Return what the options of a suite name."""
        return cls(tool, (options.library or DEFAULT_LIBRARY).resolve(), gpu, folder, options.trtexec_flags)

    def engines(self, scratch: Path) -> EngineTool:
        """Return what builds an engine, or takes it from the folder; ``scratch`` is for files of the moment."""
        library = sha256_file(self.library) if self.library.is_file() else ""
        made = trtexec_engines(self.tool, self.library, self.gpu, scratch, self.flags)
        return KeptEngines(made, {"flags": self.flags, "gpu": self.gpu.name, "library": library})


@dataclass(frozen=True)
class ZooCase:
    """Hold a network's models in a batch and a precision."""

    exported: ExportedNetwork
    batch: int
    precision: str

    @cached_property
    def plain(self) -> onnx.ModelProto:
        """Return the float model with this batch."""
        return self.exported.at(self.batch)

    @cached_property
    def wanted(self) -> list[NDArray[Any]]:
        """Return the float model's results of the inputs that are drawn for this batch."""
        return list(runner(self.plain)(self.exported.network.drawn(self.batch)))

    @cached_property
    def typed(self) -> onnx.ModelProto:
        """Return the model in this precision."""
        return convert(self.plain, self.precision)

    @cached_property
    def fused(self) -> onnx.ModelProto:
        """Return the model with our plugin nodes."""
        return fuse(self.typed).model

    @cached_property
    def plugins(self) -> Mapping[str, int]:
        """Count the plugin nodes by kernel."""
        return Counter(plugin_nodes(self.fused).values())

    @property
    def backends(self) -> tuple[str, ...]:
        """Name the engines: TensorRT's own layers, and our plugins where one fits."""
        return (TENSORRT, PLUGINS) if self.plugins else (TENSORRT,)

    def ran(self, backend: str, *, weak: bool) -> onnx.ModelProto:
        """Return the model whose nodes the layers of an engine have.

        ``weak``: this TensorRT gets the float model, and its layers say what they compute in.
        """
        return self.fused if backend == PLUGINS else self.plain if weak else self.typed

    def built(self, backend: str, builder: EngineTool, folder: Path) -> Engine:
        """Build the engine of a backend into the folder.

        The engines of a network in a batch share what TensorRT timed: a layer that is in several has the same kernel.

        Raises:
            LenetTrtError: TensorRT refused the model or could not build it.
        """
        half = self.precision == "fp16"
        model = EngineModel(self.typed, lambda: self.fused, half=half, weak=self.plain if half else None)
        stem = f"{self.exported.network.name}-n{self.batch}"
        options = BuildOptions(timing_cache=folder / f"{stem}.timings")
        ours = backend == PLUGINS
        path = folder / f"{stem}-{self.precision}{'-plugins' * ours}.engine"
        return builder.built(model, path, options, [], with_plugins=ours)
