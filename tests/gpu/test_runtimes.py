"""The graph runtime on a GPU: right results, everybody's arrays and streams, failures, and no growth."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[gpu]'")

from lenet_trt.cli import main  # noqa: E402
from lenet_trt.cuda.driver import Buffer  # noqa: E402
from lenet_trt.errors import LenetTrtError  # noqa: E402
from lenet_trt.export.cases import ConvCase, MatMulCase, conv_model, matmul_model  # noqa: E402
from lenet_trt.export.lenet5 import SHIPPED  # noqa: E402
from lenet_trt.export.mnist import network_input  # noqa: E402
from lenet_trt.export.mnist import test_set as mnist_test_set  # noqa: E402
from lenet_trt.fuse.stage import fuse  # noqa: E402
from lenet_trt.kernel.examples import relative_error  # noqa: E402
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes  # noqa: E402
from lenet_trt.onnx_model.precision import convert  # noqa: E402
from lenet_trt.run.throughput import _Pipeline, measure_throughput  # noqa: E402
from lenet_trt.runtimes.arrays import DeviceArray  # noqa: E402
from lenet_trt.runtimes.graph.runtime import GraphRuntime  # noqa: E402
from lenet_trt.runtimes.graph.torch_program import TorchProgram  # noqa: E402
from lenet_trt.runtimes.load import load  # noqa: E402
from lenet_trt.runtimes.network import Network  # noqa: E402
from own_gpu_memory import device_bytes, kept_by_torch_a_capture, resident_bytes  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU")
HERE = Path(__file__).parent
RANDOM = np.random.default_rng(5)


def lenet5(precision: str = "fp32", fused: bool = False) -> onnx.ModelProto:
    model = onnx.load(SHIPPED)
    model = model if precision == "fp32" else convert(model, precision)
    return fuse(model).model if fused else model


def network_of(model: onnx.ModelProto) -> Network:
    return Network(GraphRuntime(model), "a test")


def exact(model: onnx.ModelProto, *inputs: np.ndarray) -> np.ndarray:
    """The first output in float64, by torch on the CPU; for models of float32 without plugin nodes."""
    double = onnx.ModelProto()
    double.CopyFrom(model)
    for tensor in double.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(onnx.numpy_helper.from_array(array.astype(np.float64), tensor.name))
    program = TorchProgram(double, torch.device("cpu"))
    return program.run([torch.from_numpy(array.astype(np.float64)) for array in inputs], {})[0].numpy()


def images(count: int) -> np.ndarray:
    return RANDOM.random((count, 1, 28, 28), dtype=np.float32)


CONV = ConvCase(batch=None, filters=50)
CONV_POOL = ConvCase(batch=None, filters=50, activation="relu", pool=True)
CASES = {
    "lenet5": (lambda: lenet5(), lambda n: (images(n),), 5e-6),
    "lenet5-fp16": (lambda: lenet5("fp16"), lambda n: (images(n),), 2e-3),
    "lenet5-bf16": (lambda: lenet5("bf16"), lambda n: (images(n),), 2e-2),
    "conv": (lambda: conv_model(CONV), lambda n: (images(n),), 1e-6),
    "conv-relu-pool": (lambda: conv_model(CONV_POOL), lambda n: (images(n),), 1e-6),
    "matmul": (
        lambda: matmul_model(MatMulCase((6, 200, 8, 1, 64), dynamic=True)),
        lambda n: (
            RANDOM.standard_normal((n, 200, 8, 1, 64), dtype=np.float32),
            RANDOM.standard_normal((n, 1, 8, 64, 1), dtype=np.float32),
        ),
        1e-6,
    ),
}
ORIGINALS = {
    "lenet5-fp16": lambda: lenet5(),
    "lenet5-bf16": lambda: lenet5(),
}


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_right(name: str, fused: bool) -> None:
    make, inputs, tolerance = CASES[name]
    model = make()
    original = ORIGINALS.get(name, make)()
    model = fuse(model).model if fused else model
    assert bool(plugin_nodes(model)) == fused
    network = network_of(model)
    for count in (1, 3, 32, 1000):
        given = inputs(count)
        found = network(*given)
        assert found.dtype == np.float32
        assert relative_error(found, exact(original, *given)) <= tolerance, count


def test_a_whole_network_is_one_kernel_in_one_graph() -> None:
    network = network_of(lenet5(fused=True))
    prepared = network.prepare(torch.rand(1, 1, 28, 28, device="cuda"))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        prepared()
        torch.cuda.synchronize()
    kernels = [event.name for event in seen.events() if "lenet5" in event.name or "memcpy" in event.name.lower()]
    assert len(kernels) == 1, [event.name for event in seen.events()]


def test_mnist_through_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(lenet5(fused=True), tmp_path / "fused.onnx")
    assert main(["run", str(tmp_path / "fused.onnx"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runtime"].startswith("graph: ")
    assert "there is a CUDA GPU" in found["why"]
    assert abs(found["correct"] - 9934) <= 1


def test_auto_goes_on_where_torch_cannot(tmp_path: Path) -> None:
    model = lenet5()
    for node in model.graph.node:
        if node.op_type == "Relu":
            node.op_type = "Shrink"  # which the graph runtime does not have
    onnx.save(model, tmp_path / "other.onnx")
    network = load(tmp_path / "other.onnx")
    assert network.runtime == "ort"
    assert "the graph runtime has no operator Shrink" in network.reason
    with pytest.raises(LenetTrtError, match="no operator Shrink"):
        load(tmp_path / "other.onnx", "graph")


# Arrays of every library, in and out.


def numba_cuda() -> Any:
    numba = pytest.importorskip("numba.cuda", reason="numba is not installed")
    if not numba.is_available():
        pytest.skip("numba sees no CUDA GPU")
    return numba


def given_as(library: str, array: np.ndarray) -> Any:
    if library == "torch":
        return torch.from_numpy(array).cuda()
    if library == "cupy":
        return pytest.importorskip("cupy").asarray(array)
    if library == "pycuda":
        pytest.importorskip("pycuda.autoprimaryctx", reason="PyCUDA is not installed")
        from pycuda import gpuarray

        return gpuarray.to_gpu(array)
    if library == "numba":
        return numba_cuda().to_device(array)
    if library == "jax":
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        jax = pytest.importorskip("jax")
        if jax.default_backend() != "gpu":
            pytest.skip("JAX sees no GPU")
        return jax.numpy.asarray(array).block_until_ready()
    tensor = torch.from_numpy(array).cuda()
    return DeviceArray(tensor.data_ptr(), tuple(tensor.shape), "float32", tensor)


def on_host(library: str, array: Any) -> np.ndarray:
    if library in ("torch",):
        return array.cpu().numpy()
    if library in ("cupy", "pycuda"):
        return array.get()
    if library == "numba":
        return array.copy_to_host()
    return torch.as_tensor(array, device="cuda").cpu().numpy()


@pytest.mark.parametrize("library", ["torch", "cupy", "pycuda", "numba", "jax", "other"])
def test_arrays_of(library: str) -> None:
    pixels = images(9)
    network = network_of(lenet5(fused=True))
    wanted = network(pixels)
    given = given_as(library, pixels)
    for _ in range(4):  # an address that is new, one that was seen, and one that is known
        found = network(given)
        torch.cuda.synchronize()
        if library not in ("jax", "other"):
            assert type(found) is type(given)
        assert np.array_equal(on_host(library, found), wanted)
    assert (len(network._device._by_address), len(network._device._by_shape)) == (1, 1)  # type: ignore[union-attr]


def test_pycuda_in_a_context_of_its_own_is_told() -> None:
    pytest.importorskip("pycuda", reason="PyCUDA is not installed")
    program = (
        "import sys, numpy as np; from lenet_trt.run import load; network = load(sys.argv[1], 'graph')\n"
        "network(np.zeros((1, 1, 28, 28), np.float32))\n"
        "import pycuda.autoinit; from pycuda import gpuarray\n"
        "network(gpuarray.to_gpu(np.zeros((1, 1, 28, 28), np.float32)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(SHIPPED)], capture_output=True, text=True, timeout=120)
    assert "another CUDA context than the network" in done.stderr
    assert "pycuda.autoprimaryctx" in done.stderr


def test_pixels_are_divided_on_the_gpu() -> None:
    pixels, labels = mnist_test_set()
    network = network_of(lenet5(fused=True))
    found = network(torch.from_numpy(pixels[:1000, None]).cuda())
    torch.testing.assert_close(found.cpu(), torch.from_numpy(network(network_input(pixels[:1000]))))
    assert (found.argmax(dim=1).cpu().numpy() == labels[:1000]).mean() > 0.98


def test_results_are_their_callers_own() -> None:
    network = network_of(lenet5(fused=True))
    inputs = [torch.rand(5, 1, 28, 28, device="cuda") for _ in range(40)]  # more than addresses are kept
    first = [network(x) for x in inputs for _ in range(2)]
    copies = [y.clone() for y in first]
    again = [network(x) for x in inputs for _ in range(2)]
    for one, copy, other in zip(first, copies, again, strict=True):
        assert torch.equal(one, copy)
        assert torch.equal(one, other)


def test_prepared_calls_read_and_write_the_same_memory() -> None:
    network = network_of(lenet5())
    x = torch.rand(7, 1, 28, 28, device="cuda")
    prepared = network.prepare(x)
    for _ in range(3):
        x.uniform_()
        prepared()
        torch.testing.assert_close(prepared.outputs, network(x), rtol=1e-4, atol=1e-5)


# Streams.


def slowly(stream: Any, x: Any, value: float) -> None:
    """Fill x in the stream, after about 10 ms."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.fill_(value)


@pytest.mark.parametrize("kind", ["current", "torch", "raw", "cupy"])
@pytest.mark.parametrize("prepared", [False, True], ids=["call", "prepared"])
def test_on_the_callers_stream(kind: str, prepared: bool) -> None:
    network = network_of(lenet5(fused=True))
    x = torch.zeros(4, 1, 28, 28, device="cuda")
    wanted = network(torch.full_like(x, 0.5))
    stream: Any = torch.cuda.Stream()
    given: Any = {"torch": stream, "raw": stream.cuda_stream}.get(kind)
    if kind == "cupy":
        given = pytest.importorskip("cupy").cuda.ExternalStream(stream.cuda_stream)
    with torch.cuda.stream(stream if kind == "current" else torch.cuda.current_stream()):
        call = network.prepare(x, stream=given) if prepared else None
        for _ in range(3):  # calls that make others ready wait
            network(x, stream=given)
        for turn in range(3):
            torch.cuda.synchronize()
            x.zero_()
            torch.cuda.synchronize()
            slowly(stream, x, 0.5)
            if call is None:
                found = network(x, stream=given)
            else:
                call()
                found = call.outputs
            assert not stream.query(), "the call waited for the stream"
            stream.synchronize()
            assert torch.equal(found, wanted), turn


def test_streams_that_take_turns_do_not_disturb_each_other() -> None:
    network = network_of(lenet5(fused=True))
    streams = [torch.cuda.Stream() for _ in range(3)]
    inputs = [torch.rand(2000, 1, 28, 28, device="cuda") for _ in range(40)]
    wanted = [network(x) for x in inputs]
    torch.cuda.synchronize()
    found = []
    for index, x in enumerate(inputs):
        with torch.cuda.stream(streams[index % 3]):
            found.append(network(x))
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_one_network_in_several_threads() -> None:
    network = network_of(lenet5(fused=True))
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            pixels = np.full((number + 1, 1, 28, 28), number / 8, np.float32)
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                x = torch.from_numpy(pixels).cuda()
                wanted = network(x).cpu().numpy()
                for _ in range(50):
                    assert np.array_equal(network(pixels), wanted)
                    assert np.array_equal(network(x).cpu().numpy(), wanted)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# Failures.


def test_what_cannot_be_taken_is_said_and_the_network_stays_usable() -> None:
    network = network_of(lenet5(fused=True))
    x = torch.rand(8, 1, 28, 28, device="cuda")
    wanted = network(x)
    for bad, told in (
        (x[:, 0], r"images has shape \[8, 28, 28\]; wanted"),
        (x.double(), "images is float64; wanted images float32"),
        (x.transpose(2, 3), r"has the strides .*copy it first"),
    ):
        with pytest.raises(LenetTrtError, match=told):
            network(bad)
    for _ in range(3):
        network(x)
    for extra in (x, np.zeros(3)):
        with pytest.raises(LenetTrtError, match=r"takes 1 inputs \(images\), not 2"):
            network(x, extra)
    with pytest.raises(LenetTrtError, match="is not GPU memory"):
        network(DeviceArray(np.zeros(784, np.float32).ctypes.data, (1, 1, 28, 28), "float32", None))
    with pytest.raises(LenetTrtError, match=r"prepare\(\) takes arrays on the GPU"):
        network.prepare(np.zeros((1, 1, 28, 28), np.float32))
    with pytest.raises(LenetTrtError, match="some inputs are on the GPU and some on the host"):
        network_of(matmul_model(MatMulCase((2, 3, 2, 1, 8))))(
            torch.zeros(2, 3, 2, 1, 8, device="cuda"), np.zeros((2, 1, 2, 8, 1), np.float32)
        )
    assert torch.equal(network(x), wanted)
    with pytest.raises(LenetTrtError, match=r"the inputs are on the GPU and ONNX Runtime .* computes on the host"):
        load(SHIPPED, "ort-cpu")(x)


def test_too_little_memory_names_the_node_and_leaves_the_network_usable() -> None:
    network = network_of(conv_model(CONV))
    x = torch.rand(3, 1, 28, 28, device="cuda")
    wanted = network(x)
    _, total = torch.cuda.mem_get_info()
    count = int(total // (50 * 24 * 24 * 4))  # the result alone needs all of the memory
    large = torch.empty(count, 1, 28, 28, device="cuda")
    with pytest.raises(LenetTrtError, match=r"node conv \(Conv\)"):
        network.prepare(large)
    del large
    torch.cuda.empty_cache()
    assert torch.equal(network(x), wanted)


def test_a_kernel_that_fails_is_named_and_the_process_lives(tmp_path: Path) -> None:
    environment = {**os.environ, "LENET_TRT_PLUGINS": str(HERE.parent / "failing_kernels")}
    done = subprocess.run(
        [sys.executable, str(HERE / "lost_context.py"), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    good, told, still = done.stdout.splitlines()
    assert good == "good [2.0, 2.0, 2.0, 2.0, 2.0]"
    assert told.startswith("told node the_trap (lenet_trt::trap_copy)"), told
    assert "The GPU's context is lost" in told
    assert still == "still [4.0, 4.0, 4.0]"


def test_an_empty_batch() -> None:
    for fused in (False, True):
        network = network_of(lenet5(fused=fused))
        assert network(np.zeros((0, 1, 28, 28), np.float32)).shape == (0, 10)
        assert network(torch.zeros(0, 1, 28, 28, device="cuda")).shape == (0, 10)


# Over time.


def test_memory_does_not_grow() -> None:
    """Shapes and addresses that come and go, more of them than are kept, and one that stays."""
    captures = []
    kept_by_torch = kept_by_torch_a_capture()

    class Counting(GraphRuntime):
        def prepare(self, inputs: Any) -> Any:
            captures.append(len(inputs))
            return super().prepare(inputs)

    network = Network(Counting(lenet5()), "a test")
    steady = torch.rand(16, 1, 28, 28, device="cuda")
    hosts = [images(count) for count in range(1, 13)]

    def work(seconds: float) -> int:
        count = 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for pixels in hosts:
                network(pixels)
                network(torch.from_numpy(pixels).cuda())
            for _ in range(500):
                network(steady)
            torch.cuda.synchronize()
            count += 1
        gc.collect()
        return count

    work(3)
    device, host, before = device_bytes(), resident_bytes(), len(captures)
    rounds = work(9)
    assert rounds > 5
    assert device_bytes() - device <= 64 << 20  # what a few calls have; thousands were made
    captured = len(captures) - before
    assert captured > 100
    assert resident_bytes() - host <= (8 << 20) + 1.2 * kept_by_torch * captured


def test_growth_would_be_seen() -> None:
    before = device_bytes()
    kept: list[Any] = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda")]
    assert 100 << 20 <= device_bytes() - before <= 110 << 20
    kept.append(Buffer(100 << 20))
    assert 200 << 20 <= device_bytes() - before <= 220 << 20
    del kept
    assert device_bytes() - before <= 4 << 20


def test_networks_are_freed_with_their_calls() -> None:
    def once() -> None:
        network = network_of(conv_model(CONV))
        network(images(2000))
        network.close()

    once()
    before = device_bytes()
    for _ in range(3):
        once()
    assert device_bytes() - before <= 8 << 20


def test_throughput_names_its_limit_and_the_results_are_right() -> None:
    pixels, labels = mnist_test_set()
    network = network_of(lenet5(fused=True))
    measured = measure_throughput(network, pixels[:, None], 2000)
    assert set(measured.alone) == {"copies", "compute", "host"}
    assert measured.limit == min(measured.alone, key=lambda part: measured.alone[part])
    assert measured.images_per_s <= 1.1 * measured.alone[measured.limit]
    assert measured.bytes_per_image == 784
    pipeline = _Pipeline(network.on_device, pixels.reshape(5, 2000, 1, 28, 28))
    pipeline.run(copy=True, compute=True)
    found = pipeline.results.array.argmax(axis=2).reshape(-1)
    assert abs(int((found == labels).sum()) - 9934) <= 1


def test_a_known_call_costs_the_host_little() -> None:
    network = network_of(lenet5(fused=True))
    x = torch.rand(1, 1, 28, 28, device="cuda")
    for _ in range(5):
        network(x)
    samples = []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(100):
            network(x)
        samples.append((time.perf_counter() - start) * 1e6 / 100)
    median = float(np.median(samples))
    print(f"host time of a call: {median:.2f} us")
    assert median < 30  # twice what was measured on an idle machine
