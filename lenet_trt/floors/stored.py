"""The types that the tensors of a quantized model have in memory, where its Q/DQ are joined with their neighbours.

A layer that reads what DequantizeLinear gives reads the numbers before it, of 8 bits. What is read by QuantizeLinear
alone is written in 8 bits at once, also before pooling and ReLU, which compute the same on either side. Then the Q/DQ
nodes themselves have nothing to do. So a floor is that of the best engine, as everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from onnx import NodeProto

from lenet_trt.onnx_model.quantization import DEQUANTIZE, MOVED_ACROSS, QUANTIZE
from lenet_trt.onnx_model.shapes import Known


def stored_types(model: Known) -> dict[str, int]:
    """Return ONNX's number of the type in memory for each tensor that has another one than the model says."""
    found = {name: kind for name, kind in model.dequantized.items() if name not in model.outputs}
    readers: Mapping[str, list[NodeProto]] = defaultdict(list)
    for node in model.nodes:
        for name in node.input:
            readers[name].append(node)
    for node in reversed(model.nodes):
        for name in node.output:
            kinds = {_type_for(reader, name, model, found) for reader in readers[name]}
            if name not in model.outputs and len(kinds) == 1 and (kind := kinds.pop()) is not None:
                found.setdefault(name, kind)
    return found


def _type_for(reader: NodeProto, name: str, model: Known, found: Mapping[str, int]) -> int | None:
    """Return the 8-bit type in which a node could read a tensor of float; None where it needs the float."""
    if reader.input[0] != name:
        return None
    output = reader.output[0]
    if reader.op_type == QUANTIZE and output in model.tensors:
        return model.tensors[output].elem_type
    return found.get(output) if reader.op_type in MOVED_ACROSS and output not in model.dequantized else None


def is_joined(node: NodeProto, stored: Mapping[str, int]) -> bool:
    """Return whether a Q/DQ node has nothing left to do: its neighbours read and write the 8 bits."""
    if node.op_type == DEQUANTIZE:
        return node.output[0] in stored
    return node.op_type == QUANTIZE and node.input[0] in stored
