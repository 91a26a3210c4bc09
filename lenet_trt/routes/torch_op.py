"""Offer kernels as torch operators at the path from which users import them; their code is in the graph runtime."""

from lenet_trt.runtimes.graph.torch_op import op

__all__ = ["op"]
