"""Run a TensorRT engine on a GPU of its flavor; it is deserialized if its sidecar matches, or on request.

Source: IRuntime, ICudaEngine, IExecutionContext and IRuntimeConfig of tensorrt 8.5, 8.6 and 11.4 and of tensorrt_rtx
1.7.1. Their names are tested; running an engine was not, for want of a GPU that TensorRT-RTX takes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lenet_trt.cuda.driver import Stream, current_context
from lenet_trt.cuda.gpus import first_gpu, gpus
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import cache_dir, sha256_bytes, write_atomic
from lenet_trt.onnx_model.ports import Port
from lenet_trt.runtimes.arrays import DeviceArray, own_array
from lenet_trt.tensorrt.data_types import data_types
from lenet_trt.tensorrt.engine import error_log
from lenet_trt.tensorrt.find_library import library_for_engine
from lenet_trt.tensorrt.flavors import INSTALL, Flavor, select
from lenet_trt.tensorrt.routes import ROUTES, recorded_route
from lenet_trt.tensorrt.routes.failures import reporting
from lenet_trt.tensorrt.sidecar import Sidecar
from lenet_trt.tensorrt.vouch import engine_obstacle, flavor_of


class TensorRt:
    """Hold an engine; without a ``sidecar`` it is deserialized unchecked, which the caller must have asked for.

    ``flavor`` is the one that built it, where no sidecar says so; None: the usual one here.

    Raises:
        LenetTrtError: the engine is not what the sidecar says, is for another flavor, version or GPU, or TensorRT
            refuses it.
    """

    name = "tensorrt"
    scales_images = False
    waits = False

    def __init__(
        self, path: Path, sidecar: Sidecar | None, library: Path | None = None, flavor: Flavor | None = None
    ) -> None:
        data = path.read_bytes()
        flavor = _checked_flavor(path, data, sidecar, library, flavor)
        trt = flavor.trt
        current_context()
        _load_plugins(flavor, path, sidecar, library)
        self._log = error_log(trt)
        runtime = trt.Runtime(self._log)
        self._runtime, self._trt, self._data = runtime, trt, data
        engine = self._deserialized()
        if engine is None:
            raise LenetTrtError(f"{flavor.product} does not load {path}: {self._said()}")
        self._engine, self._shares_profiles, self._prepared = engine, flavor.can.shares_profiles, False
        self._config, self._cache = _runtime_config(flavor, engine, data)
        names = in_order((engine.get_tensor_name(index) for index in range(engine.num_io_tensors)), sidecar)
        found = [(engine.get_tensor_mode(name), _port(trt, engine, name, sidecar)) for name in names]
        self.inputs = tuple(port for mode, port in found if mode == trt.TensorIOMode.INPUT)
        self.outputs = tuple(port for mode, port in found if mode == trt.TensorIOMode.OUTPUT)
        gpu = first_gpu()
        self.where = f"{gpu.name if gpu else 'GPU'}, {flavor.product}"

    def prepare(self, inputs: Sequence[DeviceArray]) -> EngineCall:
        """Make an execution context for these addresses and run it once, so that TensorRT has compiled everything."""
        engine = self._engine_for_a_context()
        context = (
            engine.create_execution_context() if self._config is None else engine.create_execution_context(self._config)
        )
        if context is None:
            raise LenetTrtError(f"TensorRT cannot make an execution context: {self._said()}")
        for port, array in zip(self.inputs, inputs, strict=True):
            if not context.set_input_shape(port.name, array.shape):
                low, _, high = engine.get_tensor_profile_shape(port.name, 0)
                raise LenetTrtError(
                    f"{port.name} has shape {list(array.shape)}; the engine was built for {list(low)} to {list(high)}: "
                    "build it with --batch, or use another batch"
                )
            context.set_tensor_address(port.name, array.pointer)
        outputs = []
        for port in self.outputs:
            shape = tuple(context.get_tensor_shape(port.name))
            if min(shape, default=0) < 0:
                raise LenetTrtError(f"the shape of {port.name} depends on the data, which is not supported here")
            outputs.append(own_array(shape, port.dtype))
            context.set_tensor_address(port.name, outputs[-1].pointer)
        call = EngineCall(engine, context, tuple(outputs), self._log)
        stream = Stream()
        call(stream.handle)
        stream.synchronize()
        if self._cache is not None:
            self._cache.save()
        return call

    def _deserialized(self) -> Any:
        with reporting():
            return self._runtime.deserialize_cuda_engine(self._data)

    def _engine_for_a_context(self) -> Any:
        """Return the engine, or a second one: before TensorRT 10, one context uses up an engine's profile."""
        first, self._prepared = not self._prepared, True
        return self._engine if first or self._shares_profiles else self._deserialized()

    def layer_times(self, call: EngineCall) -> list[tuple[str, float]]:
        """Return a list to which each later run of the call adds its layers and their milliseconds, in order.

        Raises:
            LenetTrtError: the engine runs without TensorRT's Python package, which tells them.
        """
        if not hasattr(self._trt, "IProfiler"):
            raise LenetTrtError(f"TensorRT's times of layers need its Python package: {INSTALL['tensorrt']}")
        times: list[tuple[str, float]] = []
        call.report_to(_reporter(self._trt, times))
        return times

    def description(self, call: EngineCall | None = None) -> str:
        """Return what TensorRT's engine inspector says of the layers, as JSON; the sizes of open axes are a call's."""
        engine, trt = self._engine, self._trt
        inspector = engine.create_engine_inspector() if call is None else call.inspector()
        return str(inspector.get_engine_information(trt.LayerInformationFormat.JSON))

    def close(self) -> None:
        """Write what TensorRT compiled late, and release the engine."""
        if self._cache is not None:
            self._cache.save()
        del self._engine, self._runtime

    def _said(self) -> str:
        return "; ".join(dict.fromkeys(self._log.errors)) or "it gave no reason"


class EngineCall:
    """Hold an execution context with its addresses set; its engine lives as long as the context."""

    def __init__(self, engine: Any, context: Any, outputs: tuple[DeviceArray, ...], log: Any) -> None:
        self.outputs = outputs
        self._engine, self._context = engine, context
        self._log = log

    def __call__(self, stream: int) -> None:
        """Put the engine's work into the stream."""
        context = self._context
        self._log.errors.clear()
        with reporting():
            done = context.execute_async_v3(stream)
        if not done:
            raise LenetTrtError(f"TensorRT failed: {'; '.join(self._log.errors) or 'it gave no reason'}")

    def inspector(self) -> Any:
        """Return TensorRT's inspector of the engine, which tells the sizes of this call."""
        engine, context = self._engine, self._context
        inspector = engine.create_engine_inspector()
        inspector.execution_context = context
        return inspector

    def report_to(self, profiler: Any) -> None:
        """Give TensorRT's IProfiler the time of each layer; each run is then waited for."""
        context = self._context
        context.profiler = profiler


class RuntimeCache:
    """Keep on disk the kernels that TensorRT-RTX compiles when an engine first runs on this GPU."""

    def __init__(self, cache: Any, path: Path) -> None:
        self._cache = cache
        self._path = path
        self._stored = b""
        with suppress(OSError):  # there is no cache file yet
            self._stored = path.read_bytes()
        # A cache that TensorRT does not take (for example of another driver) is replaced when it is saved.
        if self._stored and not cache.deserialize(self._stored):
            self._stored = b""

    def save(self) -> None:
        """Write the cache where it changed; the cache only saves time, so a full disk is no failure."""
        cache = self._cache
        data = bytes(cache.serialize())
        if data and data != self._stored:
            try:
                write_atomic(self._path, data)
            except LenetTrtError as error:
                print(f"note: TensorRT's runtime cache is not kept: {error}", file=sys.stderr)
            self._stored = data


def in_order(names: Iterable[str], sidecar: Sidecar | None) -> list[str]:
    """Return an engine's tensors in the order of its model, which TensorRT may change; a sidecar tells that order."""
    places = {name: at for at, name in enumerate(sidecar.tensors)} if sidecar is not None else {}
    return sorted(names, key=lambda name: places.get(name, len(places)))


def _reporter(trt: Any, times: list[tuple[str, float]]) -> Any:
    class Reporter(trt.IProfiler):
        def __init__(self) -> None:
            trt.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            times.append((layer_name, ms))

    return Reporter()


def _checked_flavor(
    path: Path, data: bytes, sidecar: Sidecar | None, library: Path | None, known: Flavor | None
) -> Flavor:
    if sidecar is None:
        if first_gpu() is None:
            raise LenetTrtError(f"{path} cannot run here: there is no GPU: {gpus().problem}")
        return known or select("auto")
    # The very bytes that are deserialized: the file may have been replaced since it was looked at.
    if sha256_bytes(data) != sidecar.engine.sha256:
        raise LenetTrtError(f"the content of {path} does not match its sidecar: build it again with --force")
    flavor = flavor_of(sidecar, library)
    if (reason := engine_obstacle(path, sidecar, flavor, library)) is not None:
        raise LenetTrtError(f"{path} cannot run here: {reason}")
    return flavor


def _load_plugins(flavor: Flavor, engine: Path, sidecar: Sidecar | None, library: Path | None) -> None:
    """Load the kernels that the engine needs; an engine without a sidecar may need any kernel, and the library."""
    if sidecar is None:
        for route in ROUTES.values():
            route.load_any(flavor, library)
        return
    by_route: dict[str, list[Mapping[str, Any]]] = {}
    for entry in sidecar.plugins:
        by_route.setdefault(entry["route"], []).append(entry)
    found = library_for_engine(engine, sidecar, library)
    for name, entries in by_route.items():
        recorded_route(name).load(flavor, entries, found)


def _runtime_config(flavor: Flavor, engine: Any, data: bytes) -> tuple[Any, RuntimeCache | None]:
    """Return TensorRT-RTX's configuration with its cache; TensorRT keeps all of this in the engine."""
    if not flavor.can.runtime_cache:
        return None, None
    gpu = first_gpu()
    key = "|".join((sha256_bytes(data), flavor.version, str(gpu), str(gpus().driver_cuda)))
    config = engine.create_runtime_config()
    cache = config.create_runtime_cache()
    kept = RuntimeCache(cache, cache_dir("runtime") / f"{sha256_bytes(key.encode())[:32]}.cache")
    config.set_runtime_cache(cache)
    return config, kept


def _port(trt: Any, engine: Any, name: str, sidecar: Sidecar | None) -> Port:
    if engine.get_tensor_location(name) != trt.TensorLocation.DEVICE:
        raise LenetTrtError(f"{name} is a shape that the engine takes from the host, which is not supported here")
    kind = engine.get_tensor_dtype(name)
    dtypes = {theirs: ours for ours, theirs in data_types(trt).items()}
    if kind not in dtypes:
        raise LenetTrtError(f"{name} is of type {kind}, which is not supported")
    declared = sidecar.tensors.get(name, {}).get("shape", []) if sidecar is not None else []
    rank = len(engine.get_tensor_shape(name))
    names = declared if len(declared) == rank else ["?"] * rank
    axes = tuple(names[axis] if size < 0 else int(size) for axis, size in enumerate(engine.get_tensor_shape(name)))
    is_open = bool(axes) and isinstance(axes[0], str) and engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
    largest = int(engine.get_tensor_profile_shape(name, 0)[2][0]) if is_open else None
    return Port(name, dtypes[kind], axes, largest)
