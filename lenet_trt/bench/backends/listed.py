"""List every backend in the order of the tables: the CPU first, then from slow to fast."""

from __future__ import annotations

from functools import partial

from lenet_trt.bench.backends import naive, with_onnx, with_tensorrt, with_torch
from lenet_trt.bench.backends.protocol import Backend
from lenet_trt.bench.suite import SuiteOptions

NAIVE = "naive CUDA program"
OURS = ("our kernels", "lenet5 kernel", "TensorRT + plugins")  # names of backends with our kernels begin so
# These use the compiler's default mode. Tuning makes them faster, and takes some seconds for each batch size.
COMPILED = ("torch.compile + graph", "torch.compile + graph, fp16")
TUNED_BATCHES = (1, 32, 1024, 10_000, 16_384)
_NO_OPTIONS = SuiteOptions()


def backends(options: SuiteOptions = _NO_OPTIONS) -> tuple[Backend, ...]:
    """Return every backend; the options name what builds the engines of those that have some."""
    return (
        Backend("torch CPU, 1 thread", "PyTorch on the CPU", "CPU", partial(with_torch.CpuSession, 1)),
        Backend("torch CPU", "PyTorch on the CPU, all threads", "CPU", partial(with_torch.CpuSession, None)),
        Backend("ONNX Runtime CPU", "ONNX Runtime on the CPU, all threads", "CPU", with_onnx.OrtCpuSession),
        Backend(
            "ONNX Runtime CPU, int8",
            "the same on the quantized network",
            "CPU",
            partial(with_onnx.OrtCpuSession, "int8"),
            "int8",
        ),
        Backend(
            NAIVE,
            "a launch a layer and image, a device sync after each",
            "GPU",
            partial(naive.NaiveSession, pycuda=False),
        ),
        Backend(
            f"{NAIVE}, PyCUDA", "the same, launched through PyCUDA", "GPU", partial(naive.NaiveSession, pycuda=True)
        ),
        Backend("torch eager", "PyTorch on the GPU, layer by layer", "GPU", with_torch.GpuSession, host_too=True),
        Backend(
            "torch CUDA graph",
            "the same, captured in a CUDA graph",
            "GPU",
            partial(with_torch.GpuSession, captured=True),
            host_too=True,
        ),
        Backend(
            COMPILED[0],
            "torch.compile for any batch, captured in a CUDA graph",
            "GPU",
            partial(with_torch.GpuSession, captured=True, compiled=with_torch.COMPILED),
        ),
        Backend(
            COMPILED[1],
            "the same in half precision",
            "GPU",
            partial(with_torch.GpuSession, "fp16", captured=True, compiled=with_torch.COMPILED),
            "fp16",
        ),
        Backend(
            "torch.compile, tuned + graph",
            "torch.compile with max-autotune for each batch, captured in a CUDA graph",
            "GPU",
            partial(with_torch.GpuSession, captured=True, compiled=with_torch.TUNED),
            host_too=True,
            batches=TUNED_BATCHES,
            quick=False,
        ),
        Backend(
            "torch.compile, tuned + graph, fp16",
            "the same in half precision",
            "GPU",
            partial(with_torch.GpuSession, "fp16", captured=True, compiled=with_torch.TUNED),
            "fp16",
            batches=TUNED_BATCHES,
            quick=False,
        ),
        Backend(
            "ONNX Runtime CUDA",
            "ONNX Runtime's CUDA provider, I/O binding",
            "GPU",
            partial(with_onnx.ort_cuda_session, "fp32", cuda_graph=False),
        ),
        Backend(
            "ONNX Runtime CUDA graph",
            "the same with its CUDA graph enabled",
            "GPU",
            partial(with_onnx.ort_cuda_session, "fp32", cuda_graph=True),
            host_too=True,
        ),
        Backend(
            "ONNX Runtime CUDA graph, fp16",
            "the same in half precision",
            "GPU",
            partial(with_onnx.ort_cuda_session, "fp16", cuda_graph=True),
            "fp16",
        ),
        Backend(
            "ONNX Runtime CUDA, int8",
            "the quantized network without a CUDA graph, which its CUDA provider cannot make of it",
            "GPU",
            partial(with_onnx.ort_cuda_session, "int8", cuda_graph=False),
            "int8",
        ),
        Backend(
            "TensorRT",
            "an engine of TensorRT's own layers for each batch, without TF32, captured in a CUDA graph",
            "GPU",
            partial(with_tensorrt.TensorRtSession, options, "fp32", plugins=False),
            host_too=True,
            batches=TUNED_BATCHES,
        ),
        Backend(
            "TensorRT, fp16",
            "the same in half precision",
            "GPU",
            partial(with_tensorrt.TensorRtSession, options, "fp16", plugins=False),
            "fp16",
            batches=TUNED_BATCHES,
            quick=False,
        ),
        Backend(
            "TensorRT, int8",
            "an engine of the network with Q/DQ for each batch, captured in a CUDA graph",
            "GPU",
            partial(with_tensorrt.TensorRtSession, options, "int8", plugins=False),
            "int8",
            batches=TUNED_BATCHES,
            quick=False,
        ),
        Backend(
            "TensorRT, int8, bytes",
            "the same, with images of one byte a pixel",
            "GPU",
            partial(with_tensorrt.TensorRtSession, options, "int8", plugins=False, in_bytes=True),
            "int8",
            host_too=True,
            batches=TUNED_BATCHES,
            quick=False,
        ),
        Backend(
            "TensorRT + plugins",
            "an engine with our kernels as plugins for all batches, captured in a CUDA graph",
            "GPU",
            partial(with_tensorrt.TensorRtSession, options, "fp32", plugins=True),
            host_too=True,
        ),
        Backend(
            "TensorRT + plugins, fp16",
            "the same in half precision",
            "GPU",
            partial(with_tensorrt.TensorRtSession, options, "fp16", plugins=True),
            "fp16",
            quick=False,
        ),
        Backend(
            "TensorRT + plugins, int8, bytes",
            "the same in int8, with images of one byte a pixel",
            "GPU",
            partial(with_tensorrt.TensorRtSession, options, "int8", plugins=True, in_bytes=True),
            "int8",
            host_too=True,
            quick=False,
        ),
        Backend(
            "our kernels, layer by layer",
            "a kernel for each layer, captured in a CUDA graph",
            "GPU",
            partial(with_onnx.our_kernels_session, "fp32", layers=True),
            host_too=True,
        ),
        Backend(
            "our kernels, layer by layer, fp16",
            "the same in half precision",
            "GPU",
            partial(with_onnx.our_kernels_session, "fp16", layers=True),
            "fp16",
        ),
        Backend(
            "lenet5 kernel",
            "the whole network in one kernel of ours",
            "GPU",
            partial(with_onnx.our_kernels_session, "fp32", layers=False),
            host_too=True,
        ),
        Backend(
            "lenet5 kernel, fp16",
            "the same on fp16 tensor cores",
            "GPU",
            partial(with_onnx.our_kernels_session, "fp16", layers=False),
            "fp16",
            host_too=True,
        ),
        Backend(
            "lenet5 kernel, int8",
            "the quantized network in one kernel of ours, which quantizes the images",
            "GPU",
            partial(with_onnx.our_kernels_session, "int8", layers=False),
            "int8",
        ),
        Backend(
            "lenet5 kernel, int8, bytes",
            "the same, with images of one byte a pixel",
            "GPU",
            partial(with_onnx.our_kernels_session, "int8", layers=False, in_bytes=True),
            "int8",
            host_too=True,
        ),
    )


def backend(name: str, options: SuiteOptions = _NO_OPTIONS) -> Backend:
    """Return the backend with this name."""
    return next(each for each in backends(options) if each.name == name)
