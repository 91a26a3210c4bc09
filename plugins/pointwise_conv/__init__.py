"""Declare ``pointwise_conv``: a convolution with 1x1 filters, bias and an optional activation, in fp16 and bf16."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lenet_trt.kernel import Kernel
from lenet_trt.pattern import Pattern

from ..pointwise.declaration import (
    ATTRIBUTES,
    AXES,
    EXAMPLES,
    FLOPS,
    OUTPUTS,
    PACKING,
    TYPES,
    VARIANTS,
    WEIGHTS,
    X,
    reference,
)
from ..windows.activation import NODES_IN_HALVES
from ..windows.declaration import IN_FLOATS, IN_GROUPS


def _followed_by(nodes: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def convolution(op: Any, x: Any, w: Any, bias: Any) -> Any:
        return nodes(op, op.Conv(x, w, bias, kernel_shape=[1, 1]))

    return convolution


KERNEL = Kernel(
    name="pointwise_conv",
    doc="y = act(Conv(x, w, bias)), 1x1 filters at stride 1, in fp16 and bf16",
    axes=AXES,
    inputs=(X, *WEIGHTS),
    outputs=OUTPUTS,
    types=TYPES,
    attributes=ATTRIBUTES,
    packing=PACKING,
    claims=(IN_FLOATS,),  # never: in a group alone
    in_groups=IN_GROUPS,
    variants=VARIANTS,
    patterns=tuple(Pattern(_followed_by(nodes), {"activation": name}) for name, nodes in NODES_IN_HALVES),
    reference=reference,
    examples=EXAMPLES,
    flops=FLOPS,
    source_dir=Path(__file__).parent,
)
