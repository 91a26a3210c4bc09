"""The verb ``run``, and ``load``: any engine, ONNX or fused ONNX file as a Python function."""

from lenet_trt.runtimes.load import load

__all__ = ["load"]
