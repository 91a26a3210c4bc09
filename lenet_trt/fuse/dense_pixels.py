"""Write an MLP of pointwise convolutions as dense layers of pixels, where pixels have their channels last before it.

The two convolutions treat each pixel alone, and so does the activation between them:

    Conv(act(Conv(Transpose(x), w1)), w2)    is    Transpose(Gemm(act(Gemm(x, w1)), w2))

with filters of 1x1 and ``Transpose`` to channels first. Source: timm's ConvNeXt with ``conv_mlp=True``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from lenet_trt.fuse.cut import Insertion, NewNodes, Uses, replaced
from lenet_trt.fuse.movement import TO_CHANNELS_FIRST
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

_ONE_BY_ONE = {"kernel_shape": [1, 1]}
# What activations are written with.
_OF_NUMBERS = ("Add", "Clip", "Div", "Erf", "Gelu", "HardSigmoid", "HardSwish", "Mul", "Pow", "Relu", "Sigmoid", "Tanh")


@dataclass(frozen=True)
class _Mlp:
    """Hold two pointwise convolutions of pixels x, and the nodes of the activation between them."""

    x: str
    first: WorkingNode
    activation: Sequence[WorkingNode]
    last: WorkingNode

    @property
    def origins(self) -> frozenset[int]:
        return self.first.origins.union(self.last.origins, *(node.origins for node in self.activation))


def with_dense_pixels(model: onnx.ModelProto, graph: WorkingGraph) -> tuple[onnx.ModelProto, frozenset[str]]:
    """Return the model with dense layers for such convolutions, and what these and the ``Transpose`` behind them give.

    ``graph``: the model in the form in which layers keep their order.
    """
    uses = Uses(model.graph)
    insertions: list[Insertion] = []
    new = NewNodes()
    written: set[str] = set()
    for node in graph.nodes:
        mlp = _mlp(graph, node)
        if mlp is None or uses.obstacle(mlp.origins, [mlp.x], mlp.last.outputs):
            continue
        written.update(_add_layers(graph, mlp, new))
        insertions.append(Insertion(new.taken(), mlp.origins))
    return (replaced(model, insertions, [], new.tensors) if insertions else model), frozenset(written)


def _mlp(graph: WorkingGraph, first: WorkingNode) -> _Mlp | None:
    """Return the MLP that begins with this convolution."""
    transpose = graph.producer(first.inputs[0]) if _is_pointwise(graph, first) else None
    if transpose is None or not transpose.is_op("Transpose") or transpose.attributes.get("perm") != TO_CHANNELS_FIRST:
        return None
    values = {first.outputs[0]}
    activation: list[WorkingNode] = []
    last = None
    for node in graph.nodes[graph.nodes.index(first) + 1 :]:
        if not values.intersection(node.uses):
            continue
        if last is None and _is_pointwise(graph, node):
            last = node
        elif node.is_op(*_OF_NUMBERS) and all(each in values or _is_number(graph, each) for each in node.uses):
            activation.append(node)
            values.update(node.outputs)
        else:
            return None
    return None if last is None else _Mlp(transpose.inputs[0], first, activation, last)


def _is_pointwise(graph: WorkingGraph, node: WorkingNode) -> bool:
    """Return whether a node is a convolution of 1x1 in normal form, with constant weights."""
    return (
        node.is_op("Conv")
        and node.attributes == _ONE_BY_ONE
        and len(node.inputs) == 3
        and all(name in graph.constants for name in node.inputs[1:])
    )


def _is_number(graph: WorkingGraph, name: str) -> bool:
    constant = graph.constants.get(name)
    return constant is not None and constant.size == 1 and constant.ndim <= len(TO_CHANNELS_FIRST)


def _add_layers(graph: WorkingGraph, mlp: _Mlp, new: NewNodes) -> list[str]:
    """Add the dense layers and what is around them; return what those layers, and the ``Transpose``, give."""
    names = {mlp.first.outputs[0]: _layer(graph, mlp.first, mlp.x, new)}
    for node in mlp.activation:
        for name in node.uses:
            if name not in names:
                names[name] = new.constant(f"{name}.of_pixels", graph.constants[name])
        names[node.outputs[0]] = f"{node.outputs[0]}.of_pixels"
        inputs = [names[name] if name else "" for name in node.inputs]
        new.add(node.op_type, inputs, names[node.outputs[0]], **node.attributes)
    pixels = _layer(graph, mlp.last, names[mlp.last.inputs[0]], new)
    new.add("Transpose", [pixels], mlp.last.outputs[0], perm=TO_CHANNELS_FIRST)
    return [names[mlp.first.outputs[0]], pixels, mlp.last.outputs[0]]


def _layer(graph: WorkingGraph, convolution: WorkingNode, x: str, new: NewNodes) -> str:
    """Add a dense layer in the place of a convolution, and return what it gives."""
    y = f"{convolution.outputs[0]}.of_pixels"
    filters, bias = (graph.constants[name] for name in convolution.inputs[1:])
    new.dense_layer(x, (f"{y}.weights", filters.reshape(filters.shape[:2])), (f"{y}.bias", bias), y)
    return y
