"""Open sessions of TensorRT engines: built by its Python package or by trtexec, run in a CUDA graph."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lenet_trt.bench.backends.on_gpu import OnGpu, stream
from lenet_trt.bench.backends.protocol import LabelledBatch, Precision
from lenet_trt.bench.engine_lenet5 import lenet5_model, lenet5_shapes, quantized_lenet5_model
from lenet_trt.bench.engine_tool import Engine, EngineTool
from lenet_trt.bench.python_engines import PythonEngines
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.bench.trtexec_engines import trtexec_here
from lenet_trt.cuda.driver import Stream
from lenet_trt.cuda.gpus import Gpu, first_gpu, gpus
from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.tensorrt import TensorRt
from lenet_trt.tensorrt.c_bindings import flavor_by_library
from lenet_trt.tensorrt.engine import BuildOptions
from lenet_trt.tensorrt.find_library import DEFAULT_LIBRARY, library_for_build
from lenet_trt.tensorrt.flavors import INSTALL, Flavor, select

# The largest batch of an engine with plugins; TensorRT's own layers get an engine for each batch.
_LARGEST = 16_384


class TensorRtSession:
    """Build engines of LeNet-5 for the GPU here, with our kernels as plugins or without, and run them.

    ``in_bytes``: the engines take images of one byte a pixel, which int8 alone does.

    Raises:
        LenetTrtError: nothing here builds and runs engines; see ``engines_here``.
    """

    def __init__(self, options: SuiteOptions, precision: Precision, plugins: bool, in_bytes: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lenet-trt-bench-")
        self._here = engines_here(options, Path(self._folder.name))
        self._model = quantized_lenet5_model(in_bytes) if precision == "int8" else lenet5_model(precision)
        self._plugins, self._in_bytes = plugins, in_bytes
        self._for_all = self._built(1, 1024, _LARGEST) if plugins else None

    def prepare(self, images: LabelledBatch) -> OnGpu:
        """Build or load an engine for the batch, and capture its inference in a CUDA graph."""
        batch = len(images)
        images = images.quantized if self._in_bytes else images
        engine = self._for_all or self._built(batch, batch, batch)
        runtime = self._here.loaded(engine)
        call = runtime.prepare([images.device])
        with stream().capture() as graph:
            call(stream().handle)
        details = {"tensorrt": str(self._here.tool), "build_seconds": engine.build_seconds}
        # The arguments keep the engine and its context: the graph needs them.
        submit = partial(_replay, graph.replay, stream(), runtime, call)
        return OnGpu(images, submit, call.outputs[0], details)

    def close(self) -> None:
        """Delete the engines' files."""
        self._folder.cleanup()

    def _built(self, smallest: int, usual: int, largest: int) -> Engine:
        path, shapes = Path(self._folder.name) / f"{largest}.engine", lenet5_shapes(smallest, usual, largest)
        return self._here.tool.built(self._model, path, BuildOptions(), shapes, with_plugins=self._plugins)


def _replay(replay: Any, on: Stream, *_: object) -> None:
    replay(on)


@dataclass(frozen=True)
class EnginesHere:
    """Hold what builds engines for the GPU here, and what runs them.

    ``library``: the plugin library, where one is here. ``by_library``: the library runs the engines, not TensorRT's
    Python package.
    """

    tool: EngineTool
    flavor: Flavor
    library: Path | None
    by_library: bool

    def loaded(self, engine: Engine) -> TensorRt:
        """Load an engine that the tool built."""
        return TensorRt(engine.path, None, self.library if engine.with_plugins else None, self.flavor)


def engines_here(options: SuiteOptions, folder: Path) -> EnginesHere:
    """Find what builds and runs engines on the GPU here; files are written into the folder.

    TensorRT's Python package builds and runs where it takes the GPU. Otherwise, and where the options name trtexec or
    flags of it, trtexec builds, and the plugin library, which is of the same release, runs.

    Raises:
        LenetTrtError: no TensorRT that takes the GPU is here; the message says what was tried.
    """
    gpu = first_gpu()
    if gpu is None:
        raise LenetTrtError(f"engines run on a GPU, and there is none here: {gpus().problem}")
    if options.trtexec is not None or options.trtexec_flags:
        return _by_trtexec(options, gpu, folder)
    try:
        return _by_package(options, gpu)
    except LenetTrtError as problem:
        reason = problem
    try:
        return _by_trtexec(options, gpu, folder)
    except LenetTrtError as problem:
        raise LenetTrtError(f"{reason}; trtexec with the plugin library would do: {problem}") from problem


def _by_trtexec(options: SuiteOptions, gpu: Gpu, folder: Path) -> EnginesHere:
    tool, library = trtexec_here(options, gpu, folder)
    return EnginesHere(tool, flavor_by_library(library), library, by_library=True)


def _by_package(options: SuiteOptions, gpu: Gpu) -> EnginesHere:
    flavor = select()
    if not flavor.supports(gpu):
        raise LenetTrtError(f"{flavor.product} does not take {gpu.name} ({gpu.capability}): {INSTALL['tensorrt']}")
    ahead = flavor.can.builds_without_gpu
    if options.library is not None:
        library: Path | None = library_for_build(options.library).resolve()
    else:
        library = DEFAULT_LIBRARY.resolve() if DEFAULT_LIBRARY.is_file() and not ahead else None
    tool = PythonEngines(flavor, library, (gpu.sm,) if ahead else ())
    return EnginesHere(tool, flavor, library, by_library=False)
