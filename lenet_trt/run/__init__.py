"""Run a network: the verb ``run``, and ``load``, which makes a Python function of an engine or an ONNX file."""

from lenet_trt.runtimes.load import load

__all__ = ["load"]
