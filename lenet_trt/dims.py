"""Symbolic sizes, at the path that kernels import them from; they live in ``lenet_trt.kernel.dims``."""

from lenet_trt.kernel.dims import *  # noqa: F403
