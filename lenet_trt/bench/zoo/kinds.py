"""Sort the nodes of a model, and the layers that TensorRT made of them, into kinds whose lost time can be added up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx
from onnx import NodeProto, helper

from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.shapes import node_name
from lenet_trt.tensorrt.layers import EngineLayer

REFORMAT = "reformat"
ELEMENTWISE = "elementwise"
PLUGIN = "plugin"
# Kind -> the operators of it; a layer that holds nodes of several kinds is of the first kind in this order.
_OPERATORS = {
    "recurrent": "LSTM GRU RNN",
    "transposed convolution": "ConvTranspose",
    "matrix product": "MatMul Gemm Einsum",
    "TopK": "TopK",
    "scatter": "ScatterElements ScatterND",
    "gather": "Gather GatherElements GatherND",
    "softmax": "Softmax LogSoftmax",
    "normalization": "LayerNormalization InstanceNormalization GroupNormalization BatchNormalization",
    "resize": "Resize Upsample",
    "pooling": "MaxPool AveragePool GlobalAveragePool GlobalMaxPool",
    "reduction": "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ArgMax ArgMin "
    "CumSum",
    "data movement": "Transpose Concat Slice Split Pad Expand Tile DepthToSpace SpaceToDepth Reshape Flatten Squeeze "
    "Unsqueeze Shape ConstantOfShape Constant Range Identity",
}
_KIND_OF = {op: kind for kind, ops in _OPERATORS.items() for op in ops.split()}
_CONVOLUTIONS = ("convolution", "convolution 1x1", "grouped convolution", "depthwise convolution", "convolution 1-D")
# An elementwise node says less than a node that sums, and more than one that only moves data.
_ORDER = (
    PLUGIN,
    *_CONVOLUTIONS,
    *(kind for kind in _OPERATORS if kind != "data movement"),
    ELEMENTWISE,
    "data movement",
)
_PRODUCTS = frozenset({*_CONVOLUTIONS, "recurrent", "transposed convolution", "matrix product"})


def node_kinds(model: onnx.ModelProto) -> dict[str, str]:
    """Return the kind of each node, by its name."""
    weights = {each.name: tuple(each.dims) for each in model.graph.initializer}
    return {node_name(node): _kind(node, weights) for node in model.graph.node}


def _kind(node: NodeProto, weights: Mapping[str, Sequence[int]]) -> str:
    if node.domain == DOMAIN:
        return PLUGIN
    if node.op_type != "Conv":
        return _KIND_OF.get(node.op_type, ELEMENTWISE)
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    shape = weights.get(node.input[1], ())
    groups = int(attributes.get("group", 1))
    if groups > 1:
        return "depthwise convolution" if len(shape) > 1 and shape[1] == 1 else "grouped convolution"
    window = attributes.get("kernel_shape", shape[2:])
    if len(window) == 1:
        return "convolution 1-D"
    return "convolution 1x1" if math.prod(window) == 1 else "convolution"


def layer_kind(layer: EngineLayer | None, nodes: Sequence[str], kinds: Mapping[str, str]) -> str:
    """Return the kind of a layer that holds these nodes; of a region of Myelin, whether it has products in it."""
    held = {kinds[node] for node in nodes if node in kinds}
    if layer is not None and layer.reformats and not held:
        return REFORMAT
    if layer is not None and layer.is_region:
        if {"softmax", "matrix product"} <= held:
            return "Myelin region with attention"
        return "Myelin region with products" if held & _PRODUCTS else "Myelin region without products"
    if not held:
        return f"TensorRT's {layer.kind}" if layer is not None and layer.kind else "unknown"
    return min(held, key=_ORDER.index)
