"""What was to be reached by ``lenet5`` on an H200, set before the kernel was written."""

from lenet_trt.bench.goals import Goal

GOALS = (
    Goal("lenet5 fp32 n=1", 6.0, 5.3),
    Goal("lenet5 fp32 n=32", 9.5, 7.9),
    Goal("lenet5 fp32 n=1024", 20, 7.8),
    Goal("lenet5 fp32 n=10000", 80, 14.9),
    Goal("lenet5 fp16 n=1", 6.0, 4.6),
    Goal("lenet5 fp16 n=32", 6.8, 4.7),
    Goal("lenet5 fp16 n=1024", 9.5, 11),
    Goal("lenet5 fp16 n=10000", 28, 24.9),
)
