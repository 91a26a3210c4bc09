"""List the ways to answer one request, from the host's array to the host's array."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.bench.backends.listed import backend
from lenet_trt.bench.backends.on_gpu import OnGpu
from lenet_trt.bench.backends.protocol import mnist
from lenet_trt.bench.latency.requests import Request
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.errors import LenetTrtError

if TYPE_CHECKING:
    from lenet_trt.runtimes.network import Network
    from lenet_trt.runtimes.protocol import DeviceRuntime

PATH, RESIDENT, RESIDENT_ALONE = "latency path", "resident kernel", "resident kernel, alone on its SMs"


def _nothing() -> None:
    """Do nothing."""


@dataclass
class OpenAnswerer:
    """Hold an open answerer: ``request(image)`` answers; ``rest`` is called after each turn; ``close`` at the end."""

    request: Request
    close: Callable[[], None] = _nothing
    rest: Callable[[], None] = _nothing
    details: dict[str, Any] = field(default_factory=dict)


@dataclass
class Setting:
    """Hold what answerers share: the batch of a request, the options, and a folder for engines."""

    batch: int
    options: SuiteOptions
    folder: Path

    @cached_property
    def example(self) -> NDArray[np.float32]:
        """Return the images of a request."""
        return mnist(self.batch).host

    @cached_property
    def fused(self) -> Network:
        """Return the network in one kernel, in the graph runtime."""
        return self._network(fused=True)

    @cached_property
    def plain(self) -> Network:
        """Return the network as exported, in the graph runtime: torch's kernels in one CUDA graph."""
        return self._network(fused=False)

    def _network(self, fused: bool) -> Network:
        import onnx

        from lenet_trt.export.lenet5 import SHIPPED
        from lenet_trt.fuse.stage import fuse
        from lenet_trt.runtimes.graph.runtime import GraphRuntime
        from lenet_trt.runtimes.network import Network

        model = onnx.load(SHIPPED)
        return Network(GraphRuntime(fuse(model, ["lenet5"]).model if fused else model), "asked for")

    def engine(self, plugins: bool) -> DeviceRuntime:
        """Build an engine by what builds and runs engines here, and load it.

        Raises:
            LenetTrtError: nothing here builds and runs engines, or the engine cannot be built.
        """
        from lenet_trt.bench.backends.with_tensorrt import engines_here
        from lenet_trt.bench.engine_lenet5 import lenet5_model, lenet5_shapes
        from lenet_trt.tensorrt.engine import BuildOptions

        here = engines_here(self.options, self.folder)
        shapes = lenet5_shapes(self.batch, self.batch, self.batch)
        path = self.folder / f"{'plugins' if plugins else 'plain'}.engine"
        return here.loaded(here.tool.built(lenet5_model("fp32"), path, BuildOptions(), shapes, with_plugins=plugins))


@dataclass(frozen=True)
class Answerer:
    """Describe a way to answer a request; ``open`` raises an error that says why it cannot run here.

    ``gpu``: it needs one. ``quick``: --quick takes it.
    """

    name: str
    what: str
    open: Callable[[Setting], OpenAnswerer]
    ours: bool = False
    gpu: bool = True
    quick: bool = True


def _ort_cpu(threads: int | None) -> Callable[[Setting], OpenAnswerer]:
    def opened(setting: Setting) -> OpenAnswerer:
        from lenet_trt.export.lenet5 import SHIPPED
        from lenet_trt.runtimes.load import load

        network = load(SHIPPED, "ort-cpu", threads=threads)
        return OpenAnswerer(network, network.close)

    return opened


def _copies(name: str) -> Callable[[Setting], OpenAnswerer]:
    """Return a answerer of a backend: copy into pinned memory, copy to the GPU, run, copy back, wait."""

    def opened(setting: Setting) -> OpenAnswerer:
        session = backend(name, setting.options).open()
        try:
            ready = session.prepare(mnist(setting.batch))
            if not isinstance(ready, OnGpu):
                raise LenetTrtError(f"{name} does not run on the GPU")
            call = ready.from_host()
        except BaseException:
            with suppress(Exception):
                session.close()
            raise
        return OpenAnswerer(lambda image: call(image).copy(), session.close, details=dict(ready.details))

    return opened


def _engine(plugins: bool, path: bool) -> Callable[[Setting], OpenAnswerer]:
    def opened(setting: Setting) -> OpenAnswerer:
        from lenet_trt.runtimes.network import Network

        network = Network(setting.engine(plugins), "asked for")
        if not path:
            return OpenAnswerer(network, network.close)
        fast = network.latency_path(setting.example)
        return OpenAnswerer(fast, network.close, details={"steps": fast.steps})

    return opened


def _call(setting: Setting) -> OpenAnswerer:
    return OpenAnswerer(setting.fused)


def _path(fused: bool) -> Callable[[Setting], OpenAnswerer]:
    def opened(setting: Setting) -> OpenAnswerer:
        network = setting.fused if fused else setting.plain
        fast = network.latency_path(setting.example)
        return OpenAnswerer(fast, fast.close, details={"steps": fast.steps})

    return opened


def _resident(alone: bool) -> Callable[[Setting], OpenAnswerer]:
    def opened(setting: Setting) -> OpenAnswerer:
        fast = setting.fused.resident(setting.example, alone=alone)
        return OpenAnswerer(fast, fast.close, fast.end, details={"steps": fast.steps})

    return opened


ANSWERERS: tuple[Answerer, ...] = (
    Answerer("ONNX Runtime CPU, 1 thread", "ONNX Runtime on one core", _ort_cpu(1), gpu=False),
    Answerer("ONNX Runtime CPU", "ONNX Runtime on all cores", _ort_cpu(None), gpu=False),
    Answerer("torch eager", "PyTorch, layer by layer", _copies("torch eager")),
    Answerer("torch CUDA graph", "the same, captured in a CUDA graph", _copies("torch CUDA graph")),
    Answerer(
        "torch.compile, tuned + graph",
        "torch.compile with max-autotune, captured in a CUDA graph",
        _copies("torch.compile, tuned + graph"),
        quick=False,
    ),
    Answerer("ONNX Runtime CUDA graph", "its CUDA provider, captured", _copies("ONNX Runtime CUDA graph")),
    Answerer("TensorRT", "an engine, by an ordinary call", _engine(plugins=False, path=False)),
    Answerer("TensorRT, latency path", "the same in one CUDA graph", _engine(plugins=False, path=True)),
    Answerer("TensorRT + plugins", "an engine with our kernel, the same way", _engine(plugins=True, path=False)),
    Answerer("TensorRT + plugins, latency path", "the same in one CUDA graph", _engine(plugins=True, path=True)),
    Answerer("lenet5 kernel, ordinary call", "network(image): copy, CUDA graph, copy, wait", _call, ours=True),
    Answerer("lenet5 kernel, pinned copies", "the same with pinned memory", _copies("lenet5 kernel"), ours=True),
    Answerer("torch's kernels, latency path", "the network as exported, in one CUDA graph", _path(False), ours=True),
    Answerer(PATH, "one launch that reads and writes the host's memory", _path(True), ours=True),
    Answerer(RESIDENT, "a kernel that stays on the GPU", _resident(False), ours=True),
    Answerer(RESIDENT_ALONE, "the same, with no other kernel on its SMs", _resident(True), ours=True),
)
