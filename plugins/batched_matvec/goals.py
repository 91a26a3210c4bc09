"""What was to be reached by ``batched_matvec`` on an H200, and what a write-up says of the MatMul."""

from lenet_trt.bench.goals import Goal, Quoted, Where

CASE = (("workload", "matmul fp32"), ("mode", "launch"))
GOALS = (Goal("matmul fp32", 60.5, 23, "torch.matmul"),)
QUOTED = (
    Quoted(
        3,
        "MatMul (600,200,8,1,64) x (600,1,8,64,1), by TensorRT",
        203e3,
        "an Ada GPU",
        Where("kernels", "torch.matmul", CASE),
        Where("kernels", "product", CASE),
        "TensorRT itself is not timed here",
    ),
)
