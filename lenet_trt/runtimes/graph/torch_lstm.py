"""Compute ONNX's LSTM by torch's, which has its gates in another order.

Source: the ONNX operator specification (onnx.ai/onnx/operators), and ``torch.nn.LSTM``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.graph.torch_node import Node

_PLAIN = ["Sigmoid", "Tanh", "Tanh"]


def lstm(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    peepholes: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return all hidden states (steps, directions, n, hidden), and the last hidden and cell states.

    Raises:
        LenetTrtError: it differs from torch's in more than the order of the gates.
    """
    if lengths is not None or peepholes is not None:
        raise LenetTrtError("sequence_lens and peepholes are not supported")
    if node.get("layout", 0) or "clip" in node.attributes or node.get("input_forget", 0):
        raise LenetTrtError("layout, clip and input_forget are not supported")
    directions, hidden = w.shape[0], r.shape[-1]
    names = node.get("activations", _PLAIN * directions)
    if names != _PLAIN * directions:
        raise LenetTrtError(f"the activations {', '.join(names)} are not supported: {', '.join(_PLAIN)} are")
    steps, n = x.shape[:2]
    backwards = node.get("direction", "forward") == "reverse"
    states = [x.new_zeros(directions, n, hidden) if state is None else state for state in (h, c)]
    weights = []
    for at in range(directions):
        weights += [_gates(w[at]), _gates(r[at])]
        if b is not None:
            weights += [_gates(half) for half in b[at].chunk(2)]
    y, last, cell = torch.lstm(
        x.flip(0) if backwards else x, states, weights, b is not None, 1, 0.0, False, directions == 2, False
    )
    all_states = y.reshape(steps, n, directions, hidden).transpose(1, 2)
    return all_states.flip(0) if backwards else all_states, last, cell


def _gates(rows: Tensor) -> Tensor:
    """Return the rows of ONNX's gates input, output, forget, cell in torch's order: input, forget, cell, output."""
    i, o, f, c = rows.chunk(4)
    return torch.cat([i, f, c, o])
