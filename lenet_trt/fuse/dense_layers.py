"""Bring dense layers into the normal form."""

from __future__ import annotations

import numpy as np

from lenet_trt.fuse.movement import TO_CHANNELS_LAST
from lenet_trt.fuse.rewriting import give_bias, is_read_once, replace_by_one
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode, count


def dense_layer(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace ``Gemm`` in either layout and ``MatMul`` (+ ``Add``) by ``Gemm(x, w, b, transB=1)``."""
    dequantize = _dequantized_weight(graph, node)
    stored = dequantize.inputs[0] if dequantize is not None else node.inputs[1] if len(node.inputs) > 1 else ""
    weight = graph.constants.get(stored)
    if weight is None or weight.ndim != 2:
        return
    transposed = False
    if node.is_op("Gemm"):
        wanted = {"alpha": 1.0, "beta": 1.0, "transA": 0}
        if any(node.attributes.get(name, value) != value for name, value in wanted.items()):
            return
        transposed = bool(node.attributes.get("transB", 0))
    elif not node.is_op("MatMul") or graph.rank(node.inputs[0]) != 2:
        return
    out = int(weight.shape[0 if transposed else 1])
    if dequantize is not None and len(node.inputs) > 2 and node.inputs[2] and graph.shape(node.inputs[2]) != (out,):
        return
    name = node.inputs[1]
    if not transposed:
        stored = graph.add_constant(f"{stored}.transposed", np.ascontiguousarray(weight.T))
        name = stored if dequantize is None else _other_axis(graph, dequantize, stored)
    give_bias(graph, node, name, {"transB": 1}, out, [(), (1,), (1, 1), (1, out)])


def dense_layer_of_more_axes(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace ``MatMul`` of more than two axes by a constant matrix (+ ``Add``) as ``dense_layer`` does for two.

    ONNX's ``Gemm`` has two: a pattern folds the others into rows (``Pattern.views``).
    """
    if not node.is_op("MatMul"):
        return
    weight, rank = graph.constants.get(node.inputs[1]), graph.rank(node.inputs[0])
    if weight is None or weight.ndim != 2 or rank is None or rank <= 2:
        return
    out = int(weight.shape[1])
    name = graph.add_constant(f"{node.inputs[1]}.transposed", np.ascontiguousarray(weight.T))
    ones = [(1,) * axes for axes in range(rank + 1)]
    give_bias(graph, node, name, {"transB": 1}, out, [*ones, *((*few, out) for few in ones[1:rank])])


def dense_layer_of_folded_rows(graph: WorkingGraph, node: WorkingNode) -> None:
    """Take into a dense layer the ``Reshape`` that folds the rows of x into one axis, and the one that unfolds them."""
    fold = graph.producer(node.inputs[0]) if node.is_op("Gemm") and node.attributes == {"transB": 1} else None
    unfold = graph.only_consumer(node.outputs[0])
    if fold is None or unfold is None or not (fold.is_op("Reshape") and unfold.is_op("Reshape")):
        return
    x, folded, weight, y = map(graph.shape, (fold.inputs[0], *node.inputs[:2], unfold.outputs[0]))
    if x is None or folded is None or weight is None or y is None or len(folded) != 2 or len(x) < 3:
        return
    if (x[-1], y[-1], x[:-1]) != (folded[-1], weight[0], y[:-1]) or x.count(None) > 1 or 0 in x:
        return
    old = [fold, node, unfold] if graph.only_consumer(fold.outputs[0]) is node else [node, unfold]
    replace_by_one(graph, old, unfold.slot, "Gemm", [fold.inputs[0], *node.inputs[1:]], unfold.outputs, node.attributes)


def scaled_outputs(graph: WorkingGraph, node: WorkingNode) -> None:
    """Take into a dense layer what multiplies each of its outputs by a constant, as the layer scale of DINOv2 does."""
    scale, rank = graph.only_consumer(node.outputs[0]), graph.rank(node.outputs[0])
    inputs = None if scale is None or rank is None else _scaled_layer(graph, node, scale, rank, rank - 1)
    if scale is not None and inputs is not None and scale.inputs[0] == node.outputs[0]:
        replace_by_one(graph, [node, scale], scale.slot, "Gemm", inputs, scale.outputs, node.attributes)


def scaled_outputs_channels_first(graph: WorkingGraph, node: WorkingNode) -> None:
    """The same where a ``Transpose`` lies between the layer and its scale, as in a ConvNeXt: the scale comes first."""
    transpose, rank = graph.only_consumer(node.outputs[0]), graph.rank(node.outputs[0])
    if transpose is None or rank is None or not transpose.is_op("Transpose"):
        return
    scale, perm = graph.only_consumer(transpose.outputs[0]), list(transpose.attributes.get("perm", ()))
    if scale is None or len(perm) != rank or scale.inputs[0] != transpose.outputs[0]:
        return
    inputs = _scaled_layer(graph, node, scale, rank, perm.index(rank - 1))
    if inputs is None:
        return
    between = f"{scale.outputs[0]}.before_transposition"
    first = WorkingNode("Gemm", inputs, [between], node.attributes, node.origins | scale.origins)
    second = WorkingNode("Transpose", [between], list(scale.outputs), transpose.attributes, transpose.origins)
    graph.replace([node, transpose, scale], [(transpose.slot, first), (scale.slot, second)])


def channels_last_flattening(graph: WorkingGraph, node: WorkingNode) -> None:
    """Move a ``Transpose`` to channels-last before ``Flatten`` and ``Gemm`` into the weight of the ``Gemm``."""
    if not node.is_op("Gemm") or node.inputs[1] not in graph.constants:
        return
    flatten = graph.producer(node.inputs[0])
    if flatten is None or not flatten.is_op("Flatten") or not is_read_once(graph, flatten):
        return
    transpose = graph.producer(flatten.inputs[0])
    if transpose is None or not transpose.is_op("Transpose") or not is_read_once(graph, transpose):
        return
    shape = graph.shape(transpose.inputs[0])
    if transpose.attributes.get("perm") != TO_CHANNELS_LAST or shape is None:
        return
    weight = graph.constants[node.inputs[1]]
    if count(shape[1:]) != weight.shape[1]:
        return
    channels, height, width = (int(size or 0) for size in shape[1:])
    turned = weight.reshape(-1, height, width, channels).transpose(0, 3, 1, 2).reshape(weight.shape)
    name = graph.add_constant(f"{node.inputs[1]}.channels_first", np.ascontiguousarray(turned))
    # The flattened values now come in another order, so they get another name.
    flattened = f"{flatten.outputs[0]}.channels_first"
    replace_by_one(graph, [transpose, flatten], flatten.slot, "Flatten", transpose.inputs, [flattened], {})
    replace_by_one(graph, [node], node.slot, "Gemm", [flattened, name, node.inputs[2]], node.outputs, node.attributes)


def _scaled_layer(graph: WorkingGraph, node: WorkingNode, scale: WorkingNode, rank: int, axis: int) -> list[str] | None:
    """Return the inputs of a dense layer whose outputs, then along ``axis``, are multiplied by a constant.

    None if that is not what ``scale`` does, or if a weight would not be finite.
    """
    if not node.is_op("Gemm") or node.attributes != {"transB": 1} or len(node.inputs) != 3 or not scale.is_op("Mul"):
        return None
    weight, bias, factor = (graph.constants.get(name) for name in (*node.inputs[1:], scale.inputs[1]))
    if weight is None or bias is None or factor is None or weight.dtype.kind not in "fV" or factor.ndim > rank:
        return None
    if (*(1,) * (rank - factor.ndim), *factor.shape) != (*(1,) * axis, len(weight), *(1,) * (rank - 1 - axis)):
        return None
    wide = factor.reshape(-1).astype(np.float64)
    with np.errstate(over="ignore"):
        products = [(weight * wide[:, np.newaxis]).astype(weight.dtype), (bias * wide).astype(bias.dtype)]
    if not all(np.isfinite(each).all() for each in products):
        return None
    names = [graph.add_constant(f"{name}.scaled", each) for name, each in zip(node.inputs[1:], products, strict=True)]
    return [node.inputs[0], *names]


def _dequantized_weight(graph: WorkingGraph, node: WorkingNode) -> WorkingNode | None:
    """Return the ``DequantizeLinear`` that gives the weights to this layer alone."""
    producer = graph.producer(node.inputs[1]) if node.is_op("Gemm", "MatMul") else None
    if producer is None or not producer.is_op("DequantizeLinear") or not is_read_once(graph, producer):
        return None
    return producer


def _other_axis(graph: WorkingGraph, dequantize: WorkingNode, transposed: str) -> str:
    """Dequantize a transposed matrix instead, whose scales lie along the other axis; return the name of the result."""
    name = f"{dequantize.outputs[0]}.transposed"
    one = graph.shape(dequantize.inputs[1]) == ()
    attributes = {} if one else {"axis": 1 - dequantize.attributes.get("axis", 1) % 2}
    inputs = [transposed, *dequantize.inputs[1:]]
    replace_by_one(graph, [dequantize], dequantize.slot, "DequantizeLinear", inputs, [name], attributes)
    return name
