"""Write recurrent layers with all of their outputs, as patterns have them.

Source: torch's dynamo exporter lists the outputs that something reads.
"""

from __future__ import annotations

import onnx

_OUTPUTS = 3  # of an LSTM: all states, the last one, and the last cells


def with_all_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with names for all outputs of its ``LSTM`` nodes; the given model where they have some."""
    if not any(_leaves_some_out(node) for node in model.graph.node):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for index, node in enumerate(result.graph.node):
        if _leaves_some_out(node):
            listed = [*node.output, *[""] * (_OUTPUTS - len(node.output))]
            node.output[:] = [name or f"{node.op_type}_{index}_unread_{at}" for at, name in enumerate(listed)]
    return result


def _leaves_some_out(node: onnx.NodeProto) -> bool:
    return node.op_type == "LSTM" and not node.domain and (len(node.output) < _OUTPUTS or "" in node.output)
