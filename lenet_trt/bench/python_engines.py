"""Build, run and time engines by TensorRT's Python package, where there is no trtexec; or only build them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lenet_trt.bench.engine_tool import Arrays, Engine, EngineModel
from lenet_trt.cuda.driver import Stream
from lenet_trt.cuda.timing import Timed, TimingPlan, time_in_turns
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import write_atomic
from lenet_trt.kernel.shapes import Shape
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.profiles import Profile
from lenet_trt.runtimes.arrays import DeviceArray, own_array
from lenet_trt.runtimes.tensorrt import TensorRt
from lenet_trt.tensorrt.engine import BuildOptions, engine_from_onnx
from lenet_trt.tensorrt.flavors import Flavor
from lenet_trt.tensorrt.layers import layer_text
from lenet_trt.tensorrt.routes import ROUTES, chosen_route
from lenet_trt.trace.readers.trtexec_exports import inspected_layers

_BURST = 10


class PythonEngines:
    """Use the package tensorrt or tensorrt_rtx: see ``EngineTool``.

    Plugins use the route "library" where a ``library`` is given, else the flavor's default route. ``targets``: the
    compute capabilities for which to build. ``runs`` False: nothing runs, so no GPU is needed.
    """

    def __init__(self, flavor: Flavor, library: Path | None, targets: Sequence[int] = (), runs: bool = True) -> None:
        self.runs, self.weak = runs, not flavor.can.strongly_typed
        self._flavor, self._library, self._targets = flavor, library, targets
        self._route = ROUTES["library"] if library is not None else chosen_route(flavor, None)

    def __str__(self) -> str:
        return f"the Python package of {self._flavor.product}, plugins by the route {self._route.name}"

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
        """Build an engine: see ``EngineTool``."""
        if external_tactics:
            raise LenetTrtError("kernels of cuBLAS and cuDNN are measured by trtexec alone")
        if options.optimization_level is not None and not self._flavor.can.optimization_level:
            raise LenetTrtError(f"{self._flavor.product} has no optimization level")
        # Flags of trtexec say more than the types that TensorRT may choose among; the typed model says it all.
        chooses = self.weak and not with_plugins and model.weak is not None and not model.weak_flags
        given = model.fused() if with_plugins else model.weak if chooses else model.typed
        assert given is not None
        self._flavor.check_types(frozenset({model.precision or "fp32"}), self._targets, has_fp32_gemm=False)
        profiles = {name: Profile(*(each[name] for each in shapes)) for name in shapes[0]} if shapes else {}
        begin = time.monotonic()
        plan = engine_from_onnx(
            given,
            self._flavor,
            profiles=profiles,
            targets=self._targets,
            options=options,
            plugins=list(plugin_nodes(given).values()),
            route=self._route,
            library=self._library,
            half_allowed=model.half,
        )
        seconds = round(time.monotonic() - begin, 1)
        write_atomic(engine, plan)
        return Engine(engine, seconds, with_plugins)

    def outputs(self, engine: Engine, inputs: Arrays) -> dict[str, NDArray[np.float64]]:
        """Run an engine on these inputs: see ``EngineTool``."""
        with closing(self._loaded(engine)) as runtime:
            memory = [_filled(inputs[port.name]) for port in runtime.inputs]
            call = runtime.prepare(memory)
            return {port.name: _read(found) for port, found in zip(runtime.outputs, call.outputs, strict=True)}

    def timed(self, engine: Engine, shapes: Mapping[str, Shape], iterations: int) -> list[float]:
        """Time replays of a CUDA graph of an inference: see ``EngineTool``."""
        from lenet_trt.cuda.hold import memory_hold

        with closing(self._loaded(engine)) as runtime:
            sizes = {port.name: shapes.get(port.name) or tuple(map(int, port.axes)) for port in runtime.inputs}
            memory = [own_array(sizes[port.name], port.dtype) for port in runtime.inputs]
            call, stream = runtime.prepare(memory), Stream()
            with stream.capture() as graph:
                call(stream.handle)
            plan = TimingPlan(rounds=max(1, iterations // _BURST), burst=min(_BURST, iterations))
            timed = {"engine": Timed([partial(graph.replay, stream)])}
            found = time_in_turns(timed, stream.handle, memory_hold(stream.handle), plan)["engine"]
            return list(found.samples_us)

    def layers(self, engine: Engine) -> list[str]:
        """Name the layers, by TensorRT's engine inspector: see ``EngineTool``."""
        with closing(self._loaded(engine)) as runtime:
            return [layer_text(layer) for layer in inspected_layers(runtime.description(), engine.path.name)]

    def _loaded(self, engine: Engine) -> TensorRt:
        return TensorRt(engine.path, None, self._library if engine.with_plugins else None, self._flavor)


def _read(array: DeviceArray) -> NDArray[np.float64]:
    content: NDArray[np.uint8] = array.owner.read()
    return content.view(numpy_dtype(array.dtype)).reshape(array.shape).astype(np.float64)


def _filled(array: NDArray[np.generic]) -> DeviceArray:
    made = own_array(array.shape, array.dtype.name)
    made.owner.write(np.ascontiguousarray(array).reshape(-1))
    return made
