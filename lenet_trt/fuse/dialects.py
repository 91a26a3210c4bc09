"""Define the rules that bring the graphs of exporters into the normal form (see ``normal_form.py``).

Source: what torch.onnx.export (both exporters), tf2onnx and onnx-simplifier emit for convolutional networks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from lenet_trt.fuse.casts import layer_between_casts, needless_casts
from lenet_trt.fuse.channel_norms import norm_of_channels
from lenet_trt.fuse.flattening import is_flatten
from lenet_trt.fuse.folding import constant_folding, known_sizes, reshaped
from lenet_trt.fuse.last_axis import (
    constants_second,
    division_by_power_of_two,
    layer_normalization,
    mean_of_last_axis,
    softmax,
    top_k,
)
from lenet_trt.fuse.movement import TO_CHANNELS_LAST
from lenet_trt.fuse.patch_merging import patches_of_slices, patches_of_squares
from lenet_trt.fuse.products import einsum_as_matmul, products_of_matrices
from lenet_trt.fuse.rms_norms import rms_norm
from lenet_trt.fuse.shuffles import halves_of_channels, interleaved_concat, pixel_shuffle
from lenet_trt.fuse.tokens import patches_as_tokens
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode, count
from lenet_trt.kernel.types import numpy_dtype


def zero_points(graph: WorkingGraph, node: WorkingNode) -> None:
    """Leave out the zero point of a ``DequantizeLinear`` where it is 0, its default."""
    if node.is_op("DequantizeLinear") and len(node.inputs) == 3:
        zero = graph.constants.get(node.inputs[2])
        if zero is not None and not zero.any():
            node.inputs = node.inputs[:2]


def no_ops(graph: WorkingGraph, node: WorkingNode) -> None:
    """Remove ``Identity``, ``Dropout`` outside training, and ``Slice``, ``Pad`` and ``Reshape`` that change nothing."""
    if node.is_op("Dropout"):
        training = graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 else None
        dropped = len(node.inputs) > 2 and node.inputs[2] and (training is None or training.any())
        if dropped or _any_read(graph, node.outputs[1:]):
            return
    elif not (node.is_op("Identity") or _keeps_all(graph, node)):
        return
    graph.skip(node, node.inputs[0])


def empty_parts(graph: WorkingGraph, node: WorkingNode) -> None:
    """Leave out what has no elements of a ``Concat``, and the ``Concat`` where one tensor remains.

    transformers' Phi-3 joins the part of each head that is turned, all of it here, and the part that is not.
    """
    shapes = [graph.shape(name) for name in node.inputs] if node.is_op("Concat") else []
    kept = [name for name, shape in zip(node.inputs, shapes, strict=False) if shape is None or 0 not in shape]
    if len(kept) == 1 < len(node.inputs):
        graph.skip(node, kept[0])
    elif 1 < len(kept) < len(node.inputs):
        node.inputs = kept


def defaults(graph: WorkingGraph, node: WorkingNode) -> None:
    """Remove attributes that have the operator's default value."""
    if node.domain or not onnx.defs.has(node.op_type):
        return
    schema = onnx.defs.get_schema(node.op_type, graph.opsets.get("", 1))
    for name, declared in schema.attributes.items():
        if name in node.attributes and declared.default_value.name:
            default = helper.get_attribute_value(declared.default_value)
            default = default.decode() if isinstance(default, bytes) else default
            if node.attributes[name] == default:
                del node.attributes[name]


def flattening(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace ``Reshape`` to [batch, everything else], by constants or computed from ``Shape``, by ``Flatten``."""
    if node.is_op("Flatten"):
        axis = node.attributes.get("axis", 1)
        rank = graph.rank(node.inputs[0])
        if axis == 1 or (rank is not None and axis + rank == 1):
            node.attributes = {}
    elif node.is_op("Reshape") and is_flatten(graph, node):
        _put(graph, [node], node.slot, "Flatten", node.inputs[:1], node.outputs, {})


def convolution(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write a ``Conv``'s window in one way, and give it a bias: its own, one added afterwards, or zeros."""
    if not node.is_op("Conv"):
        return
    shape = graph.shape(node.inputs[1])
    if shape is None or len(shape) < 3 or not all(isinstance(size, int) for size in shape):
        return
    sizes = [int(size or 0) for size in shape]
    attributes = _window(graph, node, sizes[2:])
    if attributes is None:
        return
    if "group" in node.attributes:
        attributes["group"] = node.attributes["group"]
    ones = (1,) * (len(sizes) - 2)
    _with_bias(graph, node, node.inputs[1], attributes, sizes[0], [(sizes[0], *ones), (1, sizes[0], *ones)])


def transposed_convolution(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write the window of a ``ConvTranspose`` in one way, and give it a bias, as ``convolution`` does."""
    if not node.is_op("ConvTranspose") or node.attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return
    shape = graph.shape(node.inputs[1])
    if shape is None or len(shape) < 3 or not all(isinstance(size, int) for size in shape):
        return
    sizes = [int(size or 0) for size in shape]
    attributes = _window(graph, node, sizes[2:]) or {}
    for name in ("group", "output_padding", "output_shape"):
        if any(np.atleast_1d(node.attributes.get(name, 0))):
            attributes[name] = node.attributes[name]
    planes, ones = sizes[1] * int(node.attributes.get("group", 1)), (1,) * (len(sizes) - 2)
    _with_bias(graph, node, node.inputs[1], attributes, planes, [(planes, *ones), (1, planes, *ones)])


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
    _with_bias(graph, node, name, {"transB": 1}, out, [(), (1,), (1, 1), (1, out)])


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
    _with_bias(graph, node, name, {"transB": 1}, out, [*ones, *((*few, out) for few in ones[1:rank])])


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
    _put(graph, old, unfold.slot, "Gemm", [fold.inputs[0], *node.inputs[1:]], unfold.outputs, node.attributes)


def scaled_outputs(graph: WorkingGraph, node: WorkingNode) -> None:
    """Take into a dense layer what multiplies each of its outputs by a constant, as the layer scale of DINOv2 does."""
    scale, rank = graph.only_consumer(node.outputs[0]), graph.rank(node.outputs[0])
    inputs = None if scale is None or rank is None else _scaled_layer(graph, node, scale, rank, rank - 1)
    if scale is not None and inputs is not None and scale.inputs[0] == node.outputs[0]:
        _put(graph, [node, scale], scale.slot, "Gemm", inputs, scale.outputs, node.attributes)


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
    if producer is None or not producer.is_op("DequantizeLinear") or not _only(graph, producer):
        return None
    return producer


def _other_axis(graph: WorkingGraph, dequantize: WorkingNode, transposed: str) -> str:
    """Dequantize a transposed matrix instead, whose scales lie along the other axis; return the name of the result."""
    name = f"{dequantize.outputs[0]}.transposed"
    one = graph.shape(dequantize.inputs[1]) == ()
    attributes = {} if one else {"axis": 1 - dequantize.attributes.get("axis", 1) % 2}
    inputs = [transposed, *dequantize.inputs[1:]]
    _put(graph, [dequantize], dequantize.slot, "DequantizeLinear", inputs, [name], attributes)
    return name


def max_pooling(graph: WorkingGraph, node: WorkingNode) -> None:
    """Write a ``MaxPool``'s window in one way, and remove the layout of indices that no node reads."""
    if not node.is_op("MaxPool") or _any_read(graph, node.outputs[1:]):
        return
    attributes = _window(graph, node, list(node.attributes["kernel_shape"]))
    if attributes is None:
        return
    if "ceil_mode" in node.attributes:
        attributes["ceil_mode"] = node.attributes["ceil_mode"]
    node.attributes = attributes
    node.outputs = node.outputs[:1]


def activation_before_pooling(graph: WorkingGraph, node: WorkingNode) -> None:
    """Move a ``Relu`` or ``Tanh`` before its ``MaxPool``, which gives the same result, since both are monotone."""
    if not node.is_op("Relu", "Tanh"):
        return
    pool = graph.producer(node.inputs[0])
    if pool is None or not pool.is_op("MaxPool") or graph.only_consumer(pool.outputs[0]) is None:
        return
    between = f"{node.outputs[0]}.before_pooling"
    first = WorkingNode(node.op_type, list(pool.inputs), [between], node.attributes, node.origins)
    second = WorkingNode("MaxPool", [between], list(node.outputs), pool.attributes, pool.origins)
    graph.replace([pool, node], [(pool.slot, first), (node.slot, second)])


def channels_last_flattening(graph: WorkingGraph, node: WorkingNode) -> None:
    """Move a ``Transpose`` to channels-last before ``Flatten`` and ``Gemm`` into the weight of the ``Gemm``."""
    if not node.is_op("Gemm") or node.inputs[1] not in graph.constants:
        return
    flatten = graph.producer(node.inputs[0])
    if flatten is None or not flatten.is_op("Flatten") or not _only(graph, flatten):
        return
    transpose = graph.producer(flatten.inputs[0])
    if transpose is None or not transpose.is_op("Transpose") or not _only(graph, transpose):
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
    _put(graph, [transpose, flatten], flatten.slot, "Flatten", transpose.inputs, [flattened], {})
    _put(graph, [node], node.slot, "Gemm", [flattened, name, node.inputs[2]], node.outputs, node.attributes)


Rule: TypeAlias = Callable[[WorkingGraph, WorkingNode], None]
CLEANINGS: tuple[Rule, ...] = (
    constant_folding,
    known_sizes,
    reshaped,
    zero_points,
    no_ops,
    empty_parts,
    needless_casts,
    defaults,
    flattening,
)
LAYERS: tuple[Rule, ...] = (
    convolution,
    transposed_convolution,
    dense_layer,
    max_pooling,
    softmax,
    layer_normalization,
    top_k,
    mean_of_last_axis,
    division_by_power_of_two,
    constants_second,
    rms_norm,
    layer_between_casts,
)
# These change what lies between layers, so a kernel for a part of them is looked for without these as well.
REORDERINGS: tuple[Rule, ...] = (
    activation_before_pooling,
    channels_last_flattening,
    einsum_as_matmul,
    dense_layer_of_more_axes,
    dense_layer_of_folded_rows,
    scaled_outputs,
    products_of_matrices,
    norm_of_channels,
    interleaved_concat,
    halves_of_channels,
    pixel_shuffle,
    patches_as_tokens,
    patches_of_slices,
    patches_of_squares,
)


def _window(graph: WorkingGraph, node: WorkingNode, kernel: list[int]) -> dict[str, Any] | None:
    """Return kernel_shape, and strides, pads and dilations where they are not the default.

    Returns None where the padding depends on an unknown size.
    """
    rank = len(kernel)
    strides = list(node.attributes.get("strides", [1] * rank))
    dilations = list(node.attributes.get("dilations", [1] * rank))
    auto = node.attributes.get("auto_pad", "NOTSET")
    pads = list(node.attributes.get("pads", [0] * (2 * rank)))
    if auto == "VALID":
        pads = [0] * (2 * rank)
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        shape = graph.shape(node.inputs[0])
        if shape is None or count(shape[2:]) is None:
            return None
        reach = [(size - 1) * dilation for size, dilation in zip(kernel, dilations, strict=True)]
        total = [
            max((-(-int(size or 0) // stride) - 1) * stride + extent + 1 - int(size or 0), 0)
            for size, stride, extent in zip(shape[2:], strides, reach, strict=True)
        ]
        small = [amount // 2 for amount in total]
        large = [amount - half for amount, half in zip(total, small, strict=True)]
        pads = [*small, *large] if auto == "SAME_UPPER" else [*large, *small]
    optional = {"strides": (strides, 1), "pads": (pads, 0), "dilations": (dilations, 1)}
    changed = {name: value for name, (value, default) in optional.items() if set(value) != {default}}
    return {"kernel_shape": kernel, **changed}


def _with_bias(
    graph: WorkingGraph,
    node: WorkingNode,
    weight: str,
    attributes: dict[str, Any],
    size: int,
    shapes: list[tuple[int, ...]],
) -> None:
    """Rewrite a layer as op(x, weight, bias); the bias is its own, or a constant that is added to it, or zeros.

    ``shapes``: further shapes, beside ``[size]``, from which a constant may be broadcast.
    """
    nodes, slot, outputs = [node], node.slot, list(node.outputs)
    op_type = "Gemm" if node.op_type == "MatMul" else node.op_type
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    add = graph.only_consumer(node.outputs[0])
    if not bias and add is not None and add.is_op("Add"):
        other = [name for name in add.inputs if name != node.outputs[0]]
        added = graph.constants.get(other[0]) if other else None
        if added is not None and added.shape in [*shapes, *([(size,)] if op_type == "Gemm" else [])]:
            nodes, slot, outputs, bias = [node, add], add.slot, list(add.outputs), other[0]
    if not bias:
        dtype = numpy_dtype(graph.dtype(weight) or "float32")
        bias = graph.add_constant(f"{node.outputs[0]}.zero_bias", np.zeros(size, dtype=dtype))
    constant = graph.constants.get(bias)
    if constant is not None and constant.shape in shapes:
        spread = np.ascontiguousarray(np.broadcast_to(constant.reshape(-1), (size,)))
        bias = graph.add_constant(f"{bias}.vector", spread)
    elif graph.shape(bias) != (size,):
        return
    _put(graph, nodes, slot, op_type, [node.inputs[0], weight, bias], outputs, attributes)


def _put(
    graph: WorkingGraph,
    old: list[WorkingNode],
    slot: int,
    op_type: str,
    inputs: list[str],
    outputs: list[str],
    attributes: dict[str, Any],
) -> None:
    """Replace several nodes by one."""
    origins = frozenset().union(*(node.origins for node in old))
    node = WorkingNode(op_type, list(inputs), list(outputs), attributes, origins)
    graph.replace(old, [(slot, node)])


def _keeps_all(graph: WorkingGraph, node: WorkingNode) -> bool:
    """Return whether a ``Slice``, a ``Pad`` or a ``Reshape`` gives what it has."""
    shape = graph.shape(node.inputs[0]) if node.is_op("Slice", "Pad", "Reshape") else None
    if shape is None or shape != graph.shape(node.outputs[0]):
        return False
    if node.is_op("Reshape"):  # the number of elements stays, so one size follows from the others
        return shape.count(None) <= 1 and 0 not in shape
    if None in shape:
        return False
    given = graph.constants.get(node.inputs[1]) if node.is_op("Pad") and len(node.inputs) > 1 else None
    if node.is_op("Pad"):
        return given is not None and not given.any()
    steps = graph.constants.get(node.inputs[4]) if len(node.inputs) > 4 else None
    return len(node.inputs) in (3, 4) or (steps is not None and bool((steps > 0).all()))


def _only(graph: WorkingGraph, node: WorkingNode) -> bool:
    return graph.only_consumer(node.outputs[0]) is not None


def _any_read(graph: WorkingGraph, names: list[str]) -> bool:
    return any(name in graph.outputs or graph.consumers(name) for name in names)
