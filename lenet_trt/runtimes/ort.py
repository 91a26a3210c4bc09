"""Run ONNX Runtime, the independent reference, on the CPU or on a CUDA GPU where its package supports that."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from numpy.typing import NDArray
from onnx import ModelProto

from lenet_trt.cuda.driver import Stream, ask, driver, freed_with
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.branches import without_decided_ifs
from lenet_trt.onnx_model.onnx_runtime import INSTALL_CUDA, onnx_runtime
from lenet_trt.onnx_model.ports import ports
from lenet_trt.onnx_model.precision import emulated, kinds_of
from lenet_trt.runtimes.arrays import DeviceArray

onnxruntime = onnx_runtime()

_CUDA = "CUDAExecutionProvider"
_CPU = "CPUExecutionProvider"
_FATAL = 4  # log only fatal errors on stderr: other errors also come as exceptions
# ONNX Runtime puts this before its message: "[ONNXRuntimeError] : 1 : FAIL : ".
_PREFIX = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
# ONNX Runtime runs twice before it captures a CUDA graph, and once to capture it.
_RUNS_TO_CAPTURE = 3


def has_cuda() -> bool:
    """Return whether the installed package can run on a CUDA GPU (onnxruntime-gpu)."""
    return _CUDA in onnxruntime.get_available_providers()


def for_cpu(model: ModelProto) -> tuple[ModelProto, str]:
    """Return a model that ONNX Runtime computes on the CPU as its types say, and how far it may be optimized.

    Plugin nodes become the nodes that they replaced, and 16-bit arithmetic is emulated. The graph may be optimized as
    usual ("yes"), by the basic rules alone ("basic"), or not at all ("no"); for the last two Q/DQ stay as they are.
    """
    if model.functions:  # inlined functions let ONNX Runtime's optimiser work on the whole graph
        model = onnx.inliner.inline_local_functions(model)
    kinds = kinds_of(model)
    if kinds & {"fp16", "bf16"}:
        return emulated(without_decided_ifs(model)), "no"
    # It would put integer layers in the place of DequantizeLinear, layer, QuantizeLinear, and quantize biases. Its
    # integer layers saturate on CPUs without VNNI, so that answers would depend on the machine. For float8 they fail,
    # and other extended optimisations give wrong answers (1.31: 94.9% instead of 99.3% for LeNet-5).
    return model, "basic" if kinds & {"int8", "fp8"} else "yes"


class OrtCpu:
    """Run ONNX Runtime on the CPU.

    float16 and bfloat16 are computed in float32 and rounded after each operator. Layers between DequantizeLinear and
    QuantizeLinear are computed in float32 as the model says it. With ``profile`` ONNX Runtime times each node, into a
    file whose name begins so. ``threads``: how many processor cores compute a call; None: all.

    Raises:
        LenetTrtError: ONNX Runtime has no implementation of one of the operators.
    """

    name = "ort"
    where = f"ONNX Runtime {onnxruntime.__version__} on the CPU"

    def __init__(self, model: ModelProto, *, profile: Path | None = None, threads: int | None = None) -> None:
        self.inputs, self.outputs = ports(model)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL
        if threads is not None:
            options.intra_op_num_threads = threads
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = str(profile)
        model, optimize = for_cpu(model)
        if optimize != "yes":
            levels = onnxruntime.GraphOptimizationLevel
            options.graph_optimization_level = levels.ORT_DISABLE_ALL if optimize == "no" else levels.ORT_ENABLE_BASIC
            options.add_session_config_entry("session.disable_quant_qdq", "1")
        self._session = _session(model, options, [_CPU])
        self._wide = {put.name for put in self._session.get_inputs() if put.type == "tensor(float)"}

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Run once; ONNX Runtime may be called from several threads."""
        feed = {}
        for port, array in zip(self.inputs, inputs, strict=True):
            feed[port.name] = array.astype(np.float32) if port.name in self._wide else array
        results = _told(lambda: self._session.run(None, feed))
        return [
            np.asarray(result).astype(numpy_dtype(port.dtype), copy=False)
            for port, result in zip(self.outputs, results, strict=True)
        ]

    def end_profile(self) -> Path:
        """Stop timing nodes, and return the file with their times."""
        return Path(self._session.end_profiling())

    def close(self) -> None:
        """Release the session."""
        del self._session


class OrtCuda:
    """Run ONNX Runtime on the GPU, with inputs and outputs bound to GPU memory; ``cuda_graph`` captures each call.

    It computes on its own stream; before and after a call, this stream and the caller's stream wait for each other.

    Raises:
        LenetTrtError: the package has no CUDA provider, or cannot run the model there.
    """

    name = "ort"
    scales_images = False
    waits = True
    where = f"ONNX Runtime {onnxruntime.__version__} on the GPU (CUDA provider)"

    def __init__(self, model: ModelProto, *, cuda_graph: bool = False) -> None:
        if not has_cuda():
            raise LenetTrtError(f"ONNX Runtime {onnxruntime.__version__} here has no CUDA provider: {INSTALL_CUDA}")
        self.inputs, self.outputs = ports(model)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        _load_libraries()
        self._stream = Stream()
        # fp32 is computed without TF32, as in every other runtime here.
        cuda = {
            "device_id": 0,
            "use_tf32": 0,
            "enable_cuda_graph": int(cuda_graph),
            "user_compute_stream": str(self._stream.handle),
        }
        self._session = _session(model, options, [(_CUDA, cuda), _CPU])
        if _CUDA not in self._session.get_providers():
            raise LenetTrtError(f"{self.where}: the provider does not start (its CUDA or cuDNN libraries are missing)")
        self._graph_ids = itertools.count(1) if cuda_graph else None

    def prepare(self, inputs: Sequence[DeviceArray]) -> _BoundCall:
        """Bind these addresses, and outputs of ONNX Runtime's own, whose addresses stay the same."""
        number = None if self._graph_ids is None else next(self._graph_ids)
        return _BoundCall(self._session, self.inputs, self.outputs, inputs, number, self._stream)

    def close(self) -> None:
        """Release the session."""
        del self._session


class _BoundCall:
    def __init__(
        self,
        session: Any,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        arrays: Sequence[DeviceArray],
        graph: int | None,
        own_stream: Stream | None,
        device: str = "cuda",
    ) -> None:
        self._session = session
        self._order = None if own_stream is None else _Order(own_stream)
        self._options = _run_options("-1")  # not captured: the outputs' shapes come from it
        self._binding = session.io_binding()
        for port, array in zip(inputs, arrays, strict=True):
            kind = onnx.helper.np_dtype_to_tensor_dtype(numpy_dtype(port.dtype))
            self._binding.bind_input(port.name, device, 0, kind, array.shape, array.pointer)
        for port in outputs:
            self._binding.bind_output(port.name, device, 0)
        self._run_and_wait()
        values = self._binding.get_outputs()
        for port, value in zip(outputs, values, strict=True):
            self._binding.bind_ortvalue_output(port.name, value)
        self.outputs = tuple(
            DeviceArray(value.data_ptr(), tuple(value.shape()), port.dtype, value)
            for port, value in zip(outputs, values, strict=True)
        )
        if graph is not None:
            self._options = _run_options(str(graph))
            for _ in range(_RUNS_TO_CAPTURE):
                self._run_and_wait()

    def __call__(self, stream: int) -> None:
        if self._order is None:
            self._run()
            return
        self._order.after(stream)
        self._run()
        self._order.before(stream)

    def _run(self) -> None:
        _told(lambda: self._session.run_with_iobinding(self._binding, self._options))

    def _run_and_wait(self) -> None:
        self._run()
        self._binding.synchronize_outputs()


class _Order:
    """Order the work of one stream after the earlier work and before the later work of other streams."""

    def __init__(self, own: Stream) -> None:
        self._own = own
        flag = driver().CUevent_flags.CU_EVENT_DISABLE_TIMING
        self._event = ask(driver().cuEventCreate(flag), "cannot make an event")
        freed_with(self, driver().cuEventDestroy, self._event)

    def after(self, stream: int) -> None:
        self._wait(self._own.handle, stream)

    def before(self, stream: int) -> None:
        self._wait(stream, self._own.handle)

    def _wait(self, waiting: int, running: int) -> None:
        ask(driver().cuEventRecord(self._event, running), "cannot record an event")
        ask(driver().cuStreamWaitEvent(waiting, self._event, 0), "cannot wait in a stream")


def _run_options(graph: str) -> Any:
    options = onnxruntime.RunOptions()
    options.log_severity_level = _FATAL
    options.add_run_config_entry("gpu_graph_id", graph)
    # The caller waits where that is needed.
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    return options


def _load_libraries() -> None:
    """Let ONNX Runtime find the CUDA and cuDNN of Python packages; its messages about it go to stderr."""
    if hasattr(onnxruntime, "preload_dlls"):  # since 1.21
        with redirect_stdout(sys.stderr):
            onnxruntime.preload_dlls()


def runner(model: ModelProto) -> Callable[[Mapping[str, NDArray[Any]]], list[NDArray[Any]]]:
    """Return a function that runs the model on the CPU: inputs by name -> outputs in order.

    Raises:
        LenetTrtError: ONNX Runtime has no implementation of one of the operators.
    """
    network = OrtCpu(model)
    return lambda inputs: network.run([inputs[port.name] for port in network.inputs])


def _session(model: ModelProto, options: Any, providers: Sequence[Any]) -> Any:
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        place = "CPU" if providers == [_CPU] else "GPU"
        raise LenetTrtError(f"ONNX Runtime cannot run this model on the {place}: {_words(error)}") from error


def _told(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # as above; its message names the node
        raise LenetTrtError(f"ONNX Runtime failed: {_words(error)}") from error


def _words(error: Exception) -> str:
    return " ".join(_PREFIX.sub("", str(error), count=1).split())
