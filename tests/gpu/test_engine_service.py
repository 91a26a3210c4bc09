"""A plugin engine in service: 100,000 inferences with and without a CUDA graph, and two contexts at once.

Needs a TensorRT that takes the GPU, and the plugin library for it: ./liblenet_trt_plugins.so, or LENET_TRT_LIBRARY.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from lenet_trt.cuda.driver import Stream, ask, driver
from lenet_trt.cuda.gpus import first_gpu
from lenet_trt.errors import LenetTrtError
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.examples import relative_error
from lenet_trt.kernel.registry import kernel
from lenet_trt.onnx_model.profiles import Profile
from lenet_trt.runtimes.arrays import DeviceArray, own_array
from lenet_trt.runtimes.tensorrt import EngineCall, TensorRt
from lenet_trt.tensorrt.engine import engine_from_onnx
from lenet_trt.tensorrt.find_library import DEFAULT_LIBRARY
from lenet_trt.tensorrt.flavors import Flavor, select
from lenet_trt.tensorrt.routes import ROUTES

INFERENCES = 100_000
CHECKS = 10
# What allocators may keep; a leak of 100 bytes an inference would be more.
SLACK = 8 << 20
TOLERANCE = 1e-5


def flavor_here() -> Flavor | None:
    """A TensorRT that runs engines on this GPU."""
    gpu = first_gpu()
    for name in ("tensorrt", "rtx"):
        try:
            flavor = select(name)
        except LenetTrtError:
            continue
        if gpu is not None and flavor.supports(gpu):
            return flavor
    return None


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> TensorRt:
    """LeNet-5 as one plugin, in an engine."""
    flavor = flavor_here()
    if flavor is None:
        pytest.skip("no TensorRT that is installed takes the GPU here")
    library = Path(os.environ.get("LENET_TRT_LIBRARY", DEFAULT_LIBRARY))
    if not library.is_file():
        pytest.skip(f"{library} is not there: make it with lenet-trt library, or name one in LENET_TRT_LIBRARY")
    model = fuse(onnx.load(SHIPPED), "lenet5").model
    profiles = {"images": Profile((1, 1, 28, 28), (32, 1, 28, 28), (1024, 1, 28, 28))}
    options = {"plugins": ["lenet5"], "route": ROUTES["library"], "library": library}
    plan = engine_from_onnx(model, flavor, profiles=profiles, **options)
    path = tmp_path_factory.mktemp("service") / "lenet5.engine"
    path.write_bytes(plan)
    return TensorRt(path, None, library, flavor)


def images(batch: int) -> np.ndarray:
    return np.random.default_rng(batch).random((batch, 1, 28, 28), np.float32)


def wanted(x: np.ndarray) -> np.ndarray:
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(SHIPPED).graph.initializer}
    lenet5 = kernel("lenet5")
    arrays = [weights[tensor.name.replace("_", ".")].astype(np.float64) for tensor in lenet5.inputs[1:]]
    return np.asarray(lenet5.reference(x.astype(np.float64), *arrays))


def on_gpu(x: np.ndarray) -> DeviceArray:
    made = own_array(x.shape, "float32")
    made.owner.write(x.reshape(-1))
    return made


def result(call: EngineCall) -> np.ndarray:
    (output,) = call.outputs
    return output.owner.read().view(np.float32).reshape(output.shape)


def in_use() -> dict[str, int]:
    """Bytes of the GPU that are not free, and of the host's memory that this process has."""
    free, total = ask(driver().cuMemGetInfo(), "cannot ask for the GPU's memory")
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"device": int(total) - int(free), "host": pages * os.sysconf("SC_PAGE_SIZE")}


def check_growth(what: str, once: Callable[[], None], stream: Stream) -> None:
    """Nothing may grow between the first tenth of the inferences, which fills caches, and the last."""
    seen = []
    for _ in range(CHECKS):
        for _ in range(INFERENCES // CHECKS):
            once()
        stream.synchronize()
        seen.append(in_use())
    for name in ("device", "host"):
        values = [each[name] for each in seen]
        print(f"{what}, {INFERENCES:,} inferences: {name} {', '.join(f'{v / 2**20:.1f}' for v in values)} MiB")
        assert values[-1] - values[0] <= SLACK, f"{what}: {name} memory grew: {values}"


@pytest.mark.parametrize("batch", [1, 33])
def test_a_hundred_thousand_inferences_leave_nothing_behind(runtime: TensorRt, batch: int) -> None:
    x, stream = images(batch), Stream()
    given = on_gpu(x)  # the call reads this memory, and does not keep it
    call = runtime.prepare([given])
    check_growth(f"batch {batch}, launched", lambda: call(stream.handle), stream)
    assert relative_error(result(call), wanted(x)) < TOLERANCE


def test_a_hundred_thousand_replays_of_a_cuda_graph_leave_nothing_behind(runtime: TensorRt) -> None:
    x, stream = images(32), Stream()
    given = on_gpu(x)
    call = runtime.prepare([given])
    with stream.capture() as graph:
        call(stream.handle)
    assert graph.kernel_nodes >= 1
    call.outputs[0].owner.write(np.full(call.outputs[0].shape, np.nan, np.float32).reshape(-1))
    check_growth("CUDA graph, batch 32", lambda: graph.replay(stream), stream)
    assert relative_error(result(call), wanted(x)) < TOLERANCE


def test_two_contexts_on_two_streams_at_once_do_not_disturb_each_other(runtime: TensorRt) -> None:
    batches = (7, 1000)
    inputs = [images(batch) for batch in batches]
    given = [on_gpu(x) for x in inputs]
    calls = [runtime.prepare([x]) for x in given]
    alone = [result(call).copy() for call in calls]
    streams = [Stream(), Stream()]
    for call in calls:
        call.outputs[0].owner.write(np.full(call.outputs[0].shape, np.nan, np.float32).reshape(-1))
    for _ in range(2000):
        for call, stream in zip(calls, streams, strict=True):
            call(stream.handle)
    for stream in streams:
        stream.synchronize()
    for call, x, before in zip(calls, inputs, alone, strict=True):
        assert np.array_equal(result(call), before)
        assert relative_error(result(call), wanted(x)) < TOLERANCE
