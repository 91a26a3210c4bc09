"""Run the CUDA program with which write-up 1 begins: one image at a time, one launch a layer, a sync after each.

It runs once by this toolkit's own way to the driver, and once through PyCUDA, as in the write-up. The kernels are
those of the first step of ``lenet5``.
"""

from __future__ import annotations

import ctypes
import math
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from lenet_trt.bench.backends.on_gpu import OnGpu, stream
from lenet_trt.bench.backends.protocol import LabelledBatch
from lenet_trt.cuda.compile import Module, compile_for_launch
from lenet_trt.cuda.driver import ask, current_context, driver
from lenet_trt.cuda.launch import load_function
from lenet_trt.cuda.timing import Timed, TimingPlan, time_in_turns
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.dims import as_dim
from lenet_trt.kernel.registry import kernel
from lenet_trt.kernel.steps import steps_of
from lenet_trt.runtimes.arrays import DeviceArray, own_array

# Launches the kernel for the image and the logits at these addresses.
LaunchOne: TypeAlias = Callable[[int, int], None]

NETWORK = "lenet5"
_SLOT = 8
# A launch is too short for the events' clock: a graph of this many launches is timed.
_LAUNCHES_TIMED = 200
# The shares are measured over this many images.
_IMAGES_PROFILED = 1000


@dataclass(frozen=True)
class LayerLaunch:
    """Describe a launch of the program for one image; ``arguments`` are names of tensors and 32-bit sizes."""

    module: Module
    grid: int
    block: int
    arguments: tuple[str | int, ...]


@dataclass(frozen=True)
class Shares:
    """Hold where the naive program's time goes.

    ``sync``: the share of the host's time inside the sync calls. ``kernels``: for each kernel its share of the GPU's
    time in kernels, and its microseconds per launch.
    """

    sync: float
    kernels: Mapping[str, tuple[float, float]]


class NaiveSession:
    """Hold the program with its weights on the GPU; ``pycuda``: PyCUDA launches it."""

    def __init__(self, pycuda: bool) -> None:
        self._context = _PyCudaContext() if pycuda else None
        current_context()
        self._layers, buffers = program()
        self._tensors = {**_weights(), **{name: own_array(shape, "float32") for name, shape in buffers.items()}}

    def prepare(self, images: LabelledBatch) -> Naive:
        """Load the kernels and lay out their arguments."""
        tensors = {name: array.pointer for name, array in self._tensors.items()}
        if self._context is None:
            launches = [_launcher(layer, tensors) for layer in self._layers]
            return Naive(images, self._layers, launches, driver().cuCtxSynchronize, self._tensors)
        launches = [self._context.launcher(layer, tensors) for layer in self._layers]
        return Naive(images, self._layers, launches, self._context.synchronize, self._tensors)

    def close(self) -> None:
        """Leave PyCUDA's context."""
        self._tensors.clear()
        if self._context is not None:
            self._context.close()


class Naive(OnGpu):
    """Run a batch, image by image."""

    def __init__(
        self,
        images: LabelledBatch,
        layers: Sequence[LayerLaunch],
        launches: Sequence[LaunchOne],
        synchronize: Callable[[], Any],
        kept: Mapping[str, DeviceArray],
    ) -> None:
        self._layers, self._launches, self._synchronize, self._kept = layers, launches, synchronize, kept
        output = own_array(images.exact.shape, "float32")
        strides = images.device.nbytes // len(images), output.nbytes // len(images)
        self._addresses = [
            (images.device.pointer + index * strides[0], output.pointer + index * strides[1])
            for index in range(len(images))
        ]
        details = {"launches": len(images) * len(launches)}
        super().__init__(images, self._run, output, details, self_waiting=True)

    def _run(self) -> None:
        launches, synchronize = self._launches, self._synchronize
        for x, y in self._addresses:
            for launch in launches:
                launch(x, y)
                synchronize()

    def sync_share(self) -> float:
        """Return the share of the host's time that the sync calls take, from 0 to 1, over a number of images."""
        clock = time.perf_counter_ns
        inside = 0
        begin = clock()
        for x, y in self._addresses[:_IMAGES_PROFILED]:
            for launch in self._launches:
                launch(x, y)
                before = clock()
                self._synchronize()
                inside += clock() - before
        return inside / (clock() - begin)

    def shares(self) -> Shares:
        """Measure where the time goes: in sync calls by the host's clock, then in kernels by CUDA events."""
        work = stream()
        graphs = []
        for launch in self._launches:
            chosen = [self._addresses[index % len(self._addresses)] for index in range(_LAUNCHES_TIMED)]
            with work.capture() as graph:
                for x, y in chosen:
                    launch(x, y)
            graphs.append(graph)
        timed = {str(index): Timed([partial(graph.replay, work)]) for index, graph in enumerate(graphs)}
        # The graphs are so long that the host stays ahead of the GPU: nothing needs to hold the stream.
        stats = time_in_turns(timed, work.handle, lambda _: None, TimingPlan(rounds=5, burst=6, settle=2))
        each = [stats[str(index)].median_us / _LAUNCHES_TIMED for index in range(len(graphs))]
        entries = [layer.module.entry for layer in self._layers]
        by_kernel = {
            entry: [us for us, name in zip(each, entries, strict=True) if name == entry]
            for entry in dict.fromkeys(entries)
        }
        kernels = {entry: (sum(us) / sum(each), sum(us) / len(us)) for entry, us in by_kernel.items()}
        return Shares(self.sync_share(), kernels)


def program() -> tuple[list[LayerLaunch], dict[str, tuple[int, ...]]]:
    """Compile the launches for one image, and return them with the buffers between them (shape by name)."""
    declared, step = kernel(NETWORK), steps_of(NETWORK)[0]
    bound = declared.bind_axes({"n": 1}, declared.types_named("fp32"))
    context = current_context()
    sizes = {**bound.axes, **bound.specialized.known_sizes, **context.sizes}
    layers = []
    for each in step.launches:
        module = compile_for_launch(bound.specialized, each.variant, context.sm)
        blocks = math.prod(as_dim(size).evaluate(sizes) for size in each.grid)
        arguments = tuple(a if isinstance(a, str) else as_dim(a).evaluate(sizes) for a in each.arguments)
        layers.append(LayerLaunch(module, blocks, each.block, arguments))
    return layers, {name: tuple(as_dim(d).evaluate(sizes) for d in shape) for name, shape in step.buffers.items()}


def _weights() -> dict[str, DeviceArray]:
    from lenet_trt.export.weights import load_weights

    placed = {}
    for name, array in load_weights().items():
        placed[name.replace(".", "_")] = own = own_array(array.shape, "float32")
        data = np.ascontiguousarray(array)
        ask(driver().cuMemcpyHtoD(own.pointer, data.ctypes.data, data.nbytes), "cannot copy to the GPU")
    return placed


def _launcher(layer: LayerLaunch, tensors: Mapping[str, int]) -> LaunchOne:
    """Prepare a launch into the shared stream; its arguments lie in one table, where only the addresses change."""
    function = load_function(current_context(), layer.module, 0)
    values = (ctypes.c_uint64 * len(layer.arguments))()
    places: dict[str, int] = {}
    for index, argument in enumerate(layer.arguments):
        if isinstance(argument, int):
            struct.pack_into("<i", values, index * _SLOT, argument)
        elif argument in ("x", "y"):
            places[argument] = index
        else:
            values[index] = tensors[argument]
    base = ctypes.addressof(values)
    table = (ctypes.c_void_p * len(values))(*(base + index * _SLOT for index in range(len(values))))
    arguments = (function, layer.grid, 1, 1, layer.block, 1, 1, 0, stream().handle, ctypes.addressof(table), 0)
    launch = driver().cuLaunchKernel
    x_at, y_at = places.get("x"), places.get("y")

    def call(x: int, y: int, kept: Any = table) -> None:
        if x_at is not None:
            values[x_at] = x
        if y_at is not None:
            values[y_at] = y
        (status,) = launch(*arguments)
        if status != 0:
            ask((status,), f"cannot launch {layer.module.entry}")

    return call


class _PyCudaContext:
    """Use PyCUDA in the primary context, which all other backends use too."""

    def __init__(self) -> None:
        try:
            import pycuda.driver as pycuda
        except ImportError as error:
            raise LenetTrtError(f"PyCUDA is not installed ({error}): pip install 'lenet-trt[pycuda]'") from error
        current_context()
        pycuda.init()
        self._pycuda = pycuda
        self._context = pycuda.Device(0).retain_primary_context()
        self._context.push()
        self._modules: dict[bytes, Any] = {}

    def launcher(self, layer: LayerLaunch, tensors: Mapping[str, int]) -> LaunchOne:
        """Prepare a launch into the default stream, as in the write-up."""
        if layer.module.image not in self._modules:
            self._modules[layer.module.image] = self._pycuda.module_from_buffer(layer.module.image)
        function = self._modules[layer.module.image].get_function(layer.module.entry)
        function.prepare("".join("i" if isinstance(argument, int) else "P" for argument in layer.arguments))
        launch, grid, block = function.prepared_call, (layer.grid, 1), (layer.block, 1, 1)
        arguments = [a if isinstance(a, int) else tensors.get(a, 0) for a in layer.arguments]
        names = list(layer.arguments)
        x_at, y_at = (names.index(name) if name in names else None for name in ("x", "y"))

        def call(x: int, y: int) -> None:
            if x_at is not None:
                arguments[x_at] = x
            if y_at is not None:
                arguments[y_at] = y
            launch(grid, block, *arguments)

        return call

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self._pycuda.Context.synchronize()

    def close(self) -> None:
        """Leave the context as it was found."""
        self._modules.clear()
        self._context.pop()
