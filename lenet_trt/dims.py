"""Offer symbolic sizes at the path from which kernels import them; their code is in ``lenet_trt.kernel.dims``."""

from lenet_trt.kernel.dims import *  # noqa: F403
