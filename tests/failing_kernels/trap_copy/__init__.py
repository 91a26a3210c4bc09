"""A kernel that stops the GPU on negative input."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import axes, ceil_div
from lenet_trt.kernel import Axis, Kernel, Launch, Tensor, Types, Variant

(n,) = axes("n")


def reference(x: np.ndarray) -> np.ndarray:
    """y in float64."""
    return x


KERNEL = Kernel(
    name="trap_copy",
    doc="y = x",
    axes=(Axis("n", "elements"),),
    inputs=(Tensor("x", (n,), "T", "values"),),
    outputs=(Tensor("y", (n,), "T", "the same"),),
    types=(Types("fp32", {"T": "float32"}, tolerance=0.0),),
    variants=(Variant("plain", Launch((ceil_div(n, 128), 1, 1), (128, 1, 1), extras=(n,)), "one thread an element"),),
    reference=reference,
    examples=({"n": 1}, {"n": 1001}),
    flops=n,
    source_dir=Path(__file__).parent,
)
