"""What was to be reached by ``conv5x5_bias_relu_pool2`` on an H200, set before the kernel was written."""

from lenet_trt.bench.goals import Goal

GOALS = (
    Goal("conv5x5_bias_relu_pool2 fp32", 165, 10),
    Goal("conv5x5_bias_relu_pool2 fp16", 90, 19),
)
