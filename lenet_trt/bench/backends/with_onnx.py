"""Open sessions from the ONNX file: ONNX Runtime, and our kernels in the graph runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.bench.backends.on_gpu import RuntimeSession
from lenet_trt.bench.backends.protocol import LabelledBatch, Precision

if TYPE_CHECKING:
    import onnx

# The kernels of single layers, for a fused model that does not use the kernel of the whole network.
LAYER_KERNELS = ("conv5x5_bias_relu_pool2", "dense_bias_relu")


class OrtCpuSession:
    """Run ONNX Runtime on the CPU, with its default number of threads."""

    def __init__(self, precision: Precision = "fp32") -> None:
        from lenet_trt.runtimes.ort import OrtCpu

        self._runtime = OrtCpu(_model(precision))

    def prepare(self, images: LabelledBatch) -> _OrtCpu:
        """Return the batch; nothing needs to be prepared."""
        return _OrtCpu(self._runtime, images)

    def close(self) -> None:
        """Release the session."""
        self._runtime.close()


class _OrtCpu:
    def __init__(self, runtime: Any, images: LabelledBatch) -> None:
        self.details: dict[str, Any] = {}
        self._run = runtime.run
        self._inputs = [images.host]

    def __call__(self) -> None:
        self._outputs = self._run(self._inputs)

    def logits(self) -> NDArray[np.float32]:
        self()
        return np.asarray(self._outputs[0])


def ort_cuda_session(precision: Precision, cuda_graph: bool) -> RuntimeSession:
    """Open ONNX Runtime on the GPU; it reads and writes GPU memory."""
    from lenet_trt.onnx_model.onnx_runtime import onnx_runtime
    from lenet_trt.runtimes.ort import OrtCuda

    onnx_runtime().set_default_logger_severity(3)  # errors only: its warnings here are harmless
    return RuntimeSession(OrtCuda(_model(precision), cuda_graph=cuda_graph), self_waiting=True)


def our_kernels_session(precision: Precision, layers: bool, in_bytes: bool = False) -> RuntimeSession:
    """Open the fused file in the graph runtime, with a kernel for each layer or one for the whole network.

    ``in_bytes``: it takes quantized images, which int8 alone does.
    """
    from lenet_trt.fuse.stage import fuse
    from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
    from lenet_trt.runtimes.graph.runtime import GraphRuntime

    whole = ["lenet5_int8" if precision == "int8" else "lenet5"]
    model = fuse(_model(precision, in_bytes), LAYER_KERNELS if layers else whole).model
    return RuntimeSession(GraphRuntime(model), {"kernels": len(plugin_nodes(model))}, in_bytes=in_bytes)


def _model(precision: Precision, in_bytes: bool = False) -> onnx.ModelProto:
    """Load the shipped export in this precision."""
    from lenet_trt.export.lenet5 import SHIPPED, lenet5_int8
    from lenet_trt.onnx_model.precision import convert
    from lenet_trt.onnx_model.quantization import with_quantized_input
    from lenet_trt.onnx_model.read import load_model

    if precision == "int8":
        return with_quantized_input(lenet5_int8()) if in_bytes else lenet5_int8()
    model = load_model(SHIPPED)
    return model if precision == "fp32" else convert(model, precision)
