"""What was to be reached: the times set before the kernels were written, and the figures of the write-ups."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """At most ``us`` microseconds, and at least ``times`` faster than ``peer`` (None: than the best one), on an H200.

    ``workload`` is the name in the record of ``kernels``.
    """

    workload: str
    us: float
    times: float
    peer: str | None = None


@dataclass(frozen=True)
class Where:
    """A row: the suite, the backend, and what its case has at least."""

    suite: str
    backend: str
    case: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Quoted:
    """A figure of a write-up that this project began with: what took how long, and on which GPU, where it says so.

    ``same`` is the row that does it the same way here (``note``: how far it does), ``ours`` the one that does the same
    work best.
    """

    write_up: int
    what: str
    us: float
    gpu: str
    same: Where
    ours: Where
    note: str = ""


GPU_OF_GOALS = "NVIDIA H200"
GOALS = (
    Goal("lenet5 fp32 n=1", 6.0, 5.3),
    Goal("lenet5 fp32 n=32", 9.5, 7.9),
    Goal("lenet5 fp32 n=1024", 20, 7.8),
    Goal("lenet5 fp32 n=10000", 80, 14.9),
    Goal("lenet5 fp16 n=1", 6.0, 4.6),
    Goal("lenet5 fp16 n=32", 6.8, 4.7),
    Goal("lenet5 fp16 n=1024", 9.5, 11),
    Goal("lenet5 fp16 n=10000", 28, 24.9),
    Goal("matmul fp32", 60.5, 23, "torch.matmul"),
    Goal("conv5x5_bias fp32", 305, 5.7),
    Goal("conv5x5_bias_relu_pool2 fp32", 165, 10),
    Goal("conv5x5_bias_relu_pool2 fp16", 90, 19),
)
# In the `graph` runtime, one image may take so much longer than the kernel's replay alone.
RUNTIME_US = 1.5
# What the host may add to that, from the call to the answer.
HOST_US = 10

_MATMUL = (("workload", "matmul fp32"), ("mode", "launch"))
_CONV = (("workload", "ladder conv5x5_bias fp32"),)
_IN_GPU_MEMORY = (("images", "GPU memory"),)
_NETWORK = Where("10k", "lenet5 kernel", _IN_GPU_MEMORY)
_LOOP, _FIRST = "0: loops on one CPU thread", "1: a thread an output"
QUOTED = (
    Quoted(1, "10,000 MNIST images, PyTorch, CPU", 0.30e6, "none", Where("10k", "torch CPU"), _NETWORK),
    Quoted(
        1,
        "10,000 MNIST images, PyTorch, GPU",
        0.015e6,
        "not named",
        Where("10k", "torch eager", _IN_GPU_MEMORY),
        _NETWORK,
    ),
    Quoted(
        1,
        "10,000 MNIST images, a launch a layer and image, a sync after each",
        6.31e6,
        "not named",
        Where("10k", "naive CUDA program", _IN_GPU_MEMORY),
        _NETWORK,
    ),
    Quoted(
        3,
        "MatMul (600,200,8,1,64) x (600,1,8,64,1), by TensorRT",
        203e3,
        "an Ada GPU",
        Where("kernels", "torch.matmul", _MATMUL),
        Where("kernels", "product", _MATMUL),
        "TensorRT itself is not timed here",
    ),
    Quoted(
        5,
        "Conv of 10,000 images, loops",
        11.7e6,
        "none",
        Where("ladder", _LOOP, _CONV),
        Where("ladder", "product", _CONV),
    ),
    Quoted(
        5,
        "Conv of 10,000 images, the first kernel",
        1.24e6,
        "not named",
        Where("ladder", _FIRST, _CONV),
        Where("ladder", "product", _CONV),
    ),
)
