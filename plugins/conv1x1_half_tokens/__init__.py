"""Declare ``conv1x1_half_tokens``: the convolution of ``conv1x1_half``, and the transposition to tokens behind it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.kernel import Kernel, Tensor
from lenet_trt.pattern import Pattern

from ..channels_last.declaration import X
from ..conv1x1_half.declaration import (
    ATTRIBUTES,
    AXES,
    BESIDE,
    CLAIMS,
    EXAMPLES,
    FLOPS,
    PACKING,
    REQUIRES,
    TYPES,
    WEIGHTS,
    variants,
)
from ..linear.declaration import HOPPER
from ..patch_embedding.pattern import CHANNELS_LAST, one_axis
from ..pointwise.declaration import k
from ..pointwise.declaration import reference as convolution
from ..windows.declaration import h, n, w

NAME = "conv1x1_half_tokens"


def reference(x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str) -> np.ndarray:
    """Compute the convolution and the activation, then put channels last."""
    return np.moveaxis(convolution(x, weights, bias, activation=activation), 1, -1)


def nodes(**more: int) -> Callable[..., Any]:
    """Return the convolution, and a transposition."""

    def graph(op: Any, x: Any, w: Any, bias: Any) -> Any:
        return op.Transpose(op.Conv(x, w, bias, kernel_shape=[1, 1]), perm=CHANNELS_LAST, **more)

    return graph


KERNEL = Kernel(
    name=NAME,
    doc="y = Transpose(act(Conv(x, w, bias))), 1x1 filters at stride 1, x channels last in memory, in fp16 and bf16",
    axes=AXES,
    inputs=(X, *WEIGHTS),
    outputs=(Tensor("y", (n, h, w, k), "T", "tokens"),),
    types=TYPES,
    attributes=ATTRIBUTES,
    requires=REQUIRES,
    packing=PACKING,
    variants=variants(NAME),
    patterns=(
        Pattern(nodes(), {"activation": "none"}, preference=1),
        Pattern(nodes(fold=1), {"activation": "none"}, preference=1, views=one_axis, body=nodes()),
    ),
    reference=reference,
    examples=EXAMPLES,
    claims=CLAIMS,
    beside_plugins=BESIDE,
    in_groups=HOPPER,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
