"""Compute the work of each layer of an engine, in the types that the engine really uses.

Bytes follow from the layer's own tensors: an engine that was built from a float model may read and write half as much.
Operations are those of the layer's ONNX nodes where the model is known, otherwise what the layer's description says;
without either they count as zero, so that a floor is never too high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lenet_trt.floors.floor import Arithmetic, Work
from lenet_trt.floors.layers import members
from lenet_trt.floors.operators import SELECTING, TENSOR_ARITHMETIC, arithmetic_of
from lenet_trt.floors.regions import region_nodes
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor, bytes_of

if TYPE_CHECKING:
    from lenet_trt.floors.work import NodeWork

_INDEXES = ("int32", "int64", "bool")
# The inspector's name of a layer -> the operator of ONNX, for which findings look.
_OPERATORS = {"Convolution": "Conv", "Deconvolution": "ConvTranspose", "Gemm": "MatMul", "MatrixMultiply": "MatMul"}


def layers_with_types(layers: Sequence[EngineLayer]) -> bool:
    """Say whether any layer names the types that it reads and writes; layer names alone give no bytes."""
    return any(_counted(layer) for layer in layers)


def engine_work(layers: Sequence[EngineLayer], nodes: Sequence[NodeWork] = ()) -> list[NodeWork]:
    """Return the work of each layer, under its name in a trace; layers with one name are counted together.

    ``nodes``: the model's nodes, where the model is known. A layer whose tensors are not known is left out: a floor in
    the model's types could be twice too high.
    """
    from lenet_trt.floors.work import NodeWork

    found: dict[str, NodeWork] = {}
    counted: set[str] = set()
    regions = region_nodes(layers, nodes)
    for layer in layers:
        if layer.reformats or not _counted(layer):
            continue
        held = regions.get(layer.node) or members(layer.node, nodes)
        fresh = [entry for entry in held if entry.node not in counted]  # two layers may share the work of one node
        counted.update(entry.node for entry in fresh)
        one = NodeWork(
            layer.node,
            " + ".join(dict.fromkeys(entry.op for entry in held)) or _operator(layer),
            _work(layer, held, fresh),
            _arithmetic(layer, held),
            _shapes(layer),
            tuple(name for entry in held for name in entry.replaces),
            any(entry.estimated for entry in held) or (not held and layer.depth is None),
            sum(entry.weights for entry in fresh),
            tuple(entry.node for entry in held),
            max(held, key=lambda entry: entry.work.flops).arithmetic if held else "",
        )
        found[layer.node] = one if layer.node not in found else _joined(found[layer.node], one)
    return list(found.values())


def _counted(layer: EngineLayer) -> bool:
    tensors = (*layer.inputs, *layer.outputs)
    return bool(tensors) and all(tensor.bytes is not None for tensor in tensors)


def _work(layer: EngineLayer, held: Sequence[NodeWork], fresh: Sequence[NodeWork]) -> Work:
    written = _bytes(layer.outputs)
    amounts = [tensor.bytes or 0 for tensor in layer.inputs]
    if amounts and any(entry.op in SELECTING for entry in held):
        amounts[0] = min(amounts[0], written)
    if held:
        flops = sum(entry.work.flops for entry in fresh)
    else:
        flops = 2 * (layer.depth or 0) * sum(tensor.elements or 0 for tensor in layer.outputs)
    return Work(sum(amounts) + _weight_bytes(layer, sum(entry.weights for entry in fresh)), written, flops)


def _weight_bytes(layer: EngineLayer, elements: int) -> int:
    """Return the bytes of a layer's constants; if it lists none, of the model's constants in the layer's type."""
    if layer.weights:
        return _bytes(layer.weights)
    given = sum(tensor.elements or 0 for tensor in layer.inputs[1:])
    if not layer.inputs or given >= elements:  # the inputs may contain the constants
        return 0
    return bytes_of(elements, _computed(layer, layer.inputs))


def _arithmetic(layer: EngineLayer, held: Sequence[NodeWork]) -> Arithmetic:
    product = layer.depth is not None or any(entry.arithmetic in TENSOR_ARITHMETIC for entry in held)
    tensors = layer.inputs if product else layer.outputs
    found = arithmetic_of(_computed(layer, tensors) if tensors else "float32", product)
    return "tf32" if found == "split" and "tf32" in layer.tactic.lower() else found


def _computed(layer: EngineLayer, tensors: Sequence[LayerTensor]) -> str:
    """Return the type of the first of these tensors, or of the next that the layer has, that is no index or mask."""
    types = [tensor.dtype for tensor in (*tensors, *layer.inputs, *layer.outputs)]
    return next((dtype for dtype in types if dtype not in _INDEXES), types[0])


def _operator(layer: EngineLayer) -> str:
    return next((op for word, op in _OPERATORS.items() if layer.kind.lower().endswith(word.lower())), layer.kind)


def _shapes(layer: EngineLayer) -> str:
    def text(tensors: Sequence[LayerTensor]) -> str:
        return ", ".join(f"{'x'.join(map(str, tensor.shape or (1,)))} {tensor.dtype}" for tensor in tensors)

    return f"{text(layer.inputs)} -> {text(layer.outputs)}"


def _joined(one: NodeWork, other: NodeWork) -> NodeWork:
    weights = one.weights + other.weights
    return replace(one, work=one.work + other.work, shapes="several layers", weights=weights)


def _bytes(tensors: Sequence[LayerTensor]) -> int:
    return sum(tensor.bytes or 0 for tensor in tensors)
