"""Describe how the step of ``conv5x5_bias_relu_pool2`` is launched; it continues the steps of ``conv5x5_bias``."""

from lenet_trt.kernel.steps import like_variant

from ...conv5x5.declaration import n
from .. import KERNEL

STEPS = (
    like_variant(
        "6: ReLU and max-pool fused",
        KERNEL.variant("split"),
        "06_fused_pool.cu",
        "conv5x5_bias_step06",
        ("x", "w", "bias", n, "y"),
    ),
)
