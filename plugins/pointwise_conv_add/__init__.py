"""Declare ``pointwise_conv_add``: a convolution with 1x1 filters, a residual connection, an activation, in 16 bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.kernel import Kernel
from lenet_trt.pattern import Pattern

from ..pointwise.declaration import (
    ATTRIBUTES,
    AXES,
    EXAMPLES,
    FLOPS,
    OTHER,
    OUTPUTS,
    PACKING,
    PIXELS,
    TYPES,
    VARIANTS,
    WEIGHTS,
    X,
    k,
)
from ..pointwise.declaration import reference as convolution
from ..windows.activation import ACTIVATIONS, NODES_IN_HALVES
from ..windows.declaration import IN_FLOATS, IN_GROUPS


def reference(
    x: np.ndarray, other: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str
) -> np.ndarray:
    """Compute the convolution, add, then compute the activation."""
    return ACTIVATIONS[activation](convolution(x, weights, bias, activation="none") + other)


def _followed_by(nodes: Callable[[Any, Any], Any], conv_first: bool) -> Callable[..., Any]:
    def graph(op: Any, x: Any, other: Any, w: Any, bias: Any) -> Any:
        y = op.Conv(x, w, bias, kernel_shape=[1, 1])
        return nodes(op, op.Add(y, other) if conv_first else op.Add(other, y))

    return graph


KERNEL = Kernel(
    name="pointwise_conv_add",
    doc="y = act(Conv(x, w, bias) + other), 1x1 filters at stride 1, in fp16 and bf16",
    axes=AXES,
    inputs=(X, OTHER, *WEIGHTS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    packing=PACKING,
    claims=(IN_FLOATS,),  # never: in a group alone
    in_groups=IN_GROUPS,
    variants=VARIANTS,
    patterns=tuple(
        Pattern(_followed_by(nodes, conv_first), {"activation": name})
        for name, nodes in NODES_IN_HALVES
        for conv_first in (True, False)
    ),
    reference=reference,
    examples=EXAMPLES,
    flops=FLOPS + PIXELS * k,
    source_dir=Path(__file__).parent,
)
