"""Where a backend's logits lie, read without the library that made them; and the backends in int8."""

from __future__ import annotations

import ctypes

import numpy as np
import onnx
import pytest

from lenet_trt.bench import ten_thousand
from lenet_trt.bench.backends.listed import backends
from lenet_trt.bench.backends.on_gpu import Memory, memory_of
from lenet_trt.bench.backends.protocol import TOLERANCES, Backend, LabelledBatch, Ready, Session, mnist
from lenet_trt.bench.backends.with_onnx import OrtCpuSession, _model
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.runtimes.arrays import DeviceArray


def copied(memory: Memory) -> np.ndarray:
    """The bytes, of memory on the CPU."""
    return np.frombuffer(ctypes.string_at(memory.pointer, memory.nbytes), np.uint8).copy()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("width", [10, 12, 16])
def test_rows_may_be_padded(dtype: str, width: int) -> None:
    torch = pytest.importorskip("torch")
    logits = torch.randn(64, width).to(getattr(torch, dtype))[:, :10]
    memory = memory_of(logits)
    # What lies behind the last logit need not be there.
    assert memory.nbytes == (63 * width + 10) * logits.element_size()
    assert np.array_equal(memory.seen_in(copied(memory)), logits.numpy())


def test_our_own_arrays_are_dense() -> None:
    values = np.arange(30, dtype=np.float32).reshape(3, 10)
    memory = memory_of(DeviceArray(values.ctypes.data, values.shape, "float32", values))
    assert memory.nbytes == values.nbytes
    assert np.array_equal(memory.seen_in(copied(memory)), values)


def ort_on_the_cpu(in_bytes: bool) -> Session:
    """ONNX Runtime on the CPU with the quantized network: it computes what TensorRT and our kernel compute."""
    from lenet_trt.runtimes.ort import OrtCpu

    class Quantized(OrtCpuSession):
        def __init__(self) -> None:
            self._runtime = OrtCpu(_model("int8", in_bytes))

        def prepare(self, images: LabelledBatch) -> Ready:
            return super().prepare(images.quantized if in_bytes else images)

    return Quantized()


@pytest.mark.parametrize("in_bytes", [False, True])
def test_the_quantized_network_is_right_within_its_limit(in_bytes: bool) -> None:
    chosen = Backend("int8", "", "CPU", lambda: ort_on_the_cpu(in_bytes), "int8")
    (row,) = ten_thousand.measure_10k(SuiteOptions(quick=True), [chosen], 10_000).rows
    assert row.why is None
    assert (row.extra["right"], row.extra["precision"]) == (9932, "int8")
    assert TOLERANCES["fp16"] < row.extra["error"] < TOLERANCES["int8"] / 2
    # One image alone counts as well.
    (one,) = ten_thousand.measure_10k(SuiteOptions(quick=True), [chosen], 1).rows
    assert one.why is None


def test_a_byte_a_pixel_is_the_models_own_quantization() -> None:
    images = mnist(300)
    (node,) = [node for node in _model("int8").graph.node if node.input[0] == "images"]
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in _model("int8").graph.initializer}
    scale = float(tensors[node.input[1]])
    assert images.quantized.host.dtype == np.int8
    assert images.quantized.host.shape == images.host.shape
    assert np.array_equal(images.quantized.host, np.rint(images.host / np.float32(scale)).clip(-128, 127))
    assert images.quantized.exact is images.exact


def test_every_way_has_a_row_in_int8() -> None:
    names = {each.name for each in backends() if each.precision == "int8"}
    for begin in ("ONNX Runtime CUDA", "TensorRT, int8", "TensorRT + plugins", "lenet5 kernel"):
        assert any(name.startswith(begin) for name in names), begin
