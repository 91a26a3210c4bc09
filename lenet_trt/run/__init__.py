"""Verb ``run``, and ``load``, which makes a Python function of any engine, ONNX or fused ONNX file."""

from lenet_trt.runtimes.load import load

__all__ = ["load"]
