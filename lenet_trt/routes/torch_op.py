"""Kernels as torch operators, at the path that users import them from; they live in the graph runtime."""

from lenet_trt.runtimes.graph.torch_op import op

__all__ = ["op"]
