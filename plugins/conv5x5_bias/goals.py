"""What was to be reached by ``conv5x5_bias`` on an H200, and what a write-up says of the convolution."""

from lenet_trt.bench.goals import Goal, Quoted, Where

from .steps import CPU_STEP, STEPS

CASE = (("workload", "ladder conv5x5_bias fp32"),)
GOALS = (Goal("conv5x5_bias fp32", 305, 5.7),)
QUOTED = (
    Quoted(
        5,
        "Conv of 10,000 images, loops",
        11.7e6,
        "none",
        Where("ladder", CPU_STEP.name, CASE),
        Where("ladder", "product", CASE),
    ),
    Quoted(
        5,
        "Conv of 10,000 images, the first kernel",
        1.24e6,
        "not named",
        Where("ladder", STEPS[0].name, CASE),
        Where("ladder", "product", CASE),
    ),
)
