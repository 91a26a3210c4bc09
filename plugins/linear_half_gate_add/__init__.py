"""Declare ``linear_half_gate_add``: a dense layer of tokens, times a gate of their image, and what is added to it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.kernel import Axis, BesidePlugins, Kernel, Tensor, float_types
from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views

from ..dense.declaration import inputs, outputs
from ..linear import reference as dense
from ..linear.declaration import BIAS, HOPPER, Product
from ..linear.packing import packing_of_rows, weights_in_blocks
from ..modulated_layer_norm.declaration import GATES, PART_OF_GATES, ROWS, gates, n, part_of, t
from ..modulated_layer_norm.pattern import ORDERS, gated_sum, part, tokens_of
from ..windows.activation import ACTIVATION, ACTIVATIONS
from ..windows.declaration import IN_FLOATS, rows_in_groups

NAME = "linear_half_gate_add"
SIX = {"gates": 6, "gate_part": 5}
LAYER = Product(ROWS, inputs, outputs, extras=(ROWS, t), mapped=True)


def reference(
    x: np.ndarray,
    other: np.ndarray,
    gate: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray,
    *,
    activation: str,
    gate_part: int,
) -> np.ndarray:
    """Compute the layer, let it through the gate, add, then compute the activation."""
    through = gate[:, gate_part, np.newaxis] * dense(x, weights, bias, activation="none")
    return ACTIVATIONS[activation](through + other)


def nodes(**order: bool) -> Callable[..., Any]:
    """Return the nodes with their operands in one order."""

    def graph(op: Any, x: Any, other: Any, gate: Any, w: Any, bias: Any) -> Any:
        return gated_sum(op, op.Gemm(x, w, bias, transB=1), other, gate, **order)

    return graph


def in_onnx(op: Any, x: Any, other: Any, gate: Any, w: Any, bias: Any, gate_part: Any) -> Any:
    """The same in ONNX, whose Gemm has two axes, of gates that are a part of a tensor."""
    y = op.Add(op.MatMul(x, op.Transpose(w, perm=[1, 0])), bias)
    return op.Add(op.Mul(part(op, gate, gate_part), y), other)


def views(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold what lies between the images and the columns into tokens."""
    x, other = shapes["x"], shapes["other"]
    if other[:-1] != x[:-1]:
        return f"the layer of {list(x)} and {list(other)} have other rows"
    found = tokens_of({**shapes, "scale": other[-1:]}, "other", ("gate",))
    if isinstance(found, str):
        return found
    return Views(inputs={**found, "x": (*found["other"][:-1], x[-1])}, outputs={"y": other}, like="other")


KERNEL = Kernel(
    name=NAME,
    doc="y = act(gate * Gemm(x, w, bias) + other) over the last axis, a gate of each image, in fp16 and bf16",
    axes=(
        Axis("n", "images"),
        Axis("t", "tokens of an image"),
        GATES,
        Axis("in", "inputs", static=True),
        Axis("out", "outputs", static=True),
    ),
    inputs=(
        Tensor("x", (n, t, inputs), "T", "tokens"),
        Tensor("other", (n, t, outputs), "T", "what is added"),
        Tensor("gate", (n, gates, outputs), "T", "factors of outputs; a part of each image", part="gate_part"),
        weights_in_blocks(LAYER),
        BIAS,
    ),
    outputs=(Tensor("y", (n, t, outputs), "T", "tokens"),),
    types=float_types()[1:],
    attributes=(ACTIVATION, part_of("gate")),
    requires=LAYER.requires & PART_OF_GATES,
    packing=packing_of_rows(2),
    variants=(*LAYER.wide(), *LAYER.narrow(element_bytes=2), LAYER.direct(f"{NAME}_direct")),
    patterns=tuple(Pattern(nodes(**each), {"activation": "none"}, views=views, body=in_onnx) for each in ORDERS),
    reference=reference,
    examples=(
        {"n": 1, "t": 15, "gates": 1, "in": 32, "out": 40, "activation": "none"},
        {"n": 7, "t": 19, **SIX, "in": 512, "out": 96, "activation": "none"},
        {"n": 3, "t": 90, **SIX, "in": 160, "out": 264, "activation": "relu"},
        {"n": 2, "t": 256, **SIX, "in": 1152, "out": 1152, "activation": "none"},
        {"n": 4, "t": 1024, "gates": 1, "in": 1536, "out": 1536, "activation": "none"},
        # Several tiles a multiprocessor, of up to 256 and up to 192 outputs, with many inputs.
        {"n": 41, "t": 140, "gates": 1, "in": 960, "out": 1024, "activation": "none"},
        {"n": 3, "t": 1400, **SIX, "in": 960, "out": 1280, "activation": "none"},
    ),
    in_groups=rows_in_groups(ROWS, outputs),
    beside_plugins=BesidePlugins(both=True, sizes=HOPPER),
    claims=(IN_FLOATS,),  # never by itself
    flops=LAYER.flops,
    source_dir=Path(__file__).parent,
)
