"""Offer patterns at the path from which kernels import them; their code is in ``lenet_trt.kernel.pattern``."""

from lenet_trt.kernel.pattern import DOMAIN, Pattern, Views, repeated, rows_of, several_open

__all__ = ["DOMAIN", "Pattern", "Views", "repeated", "rows_of", "several_open"]
