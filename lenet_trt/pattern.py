"""Patterns, at the path that kernels import them from; they live in ``lenet_trt.kernel.pattern``."""

from lenet_trt.kernel.pattern import DOMAIN, Pattern, Views

__all__ = ["DOMAIN", "Pattern", "Views"]
