"""Models with an open batch and an open sequence, as exporters write them: by hand, and by torch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import parser

WIDTH = 8


def sequence_model() -> onnx.ModelProto:
    """A layer norm and a softmax of x [batch, sequence, 8], and a sum that is repeated over a mask's rows."""
    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        sequences (float[batch, sequence, 8] x, float[batch, sequence] mask) => (float[batch, sequence, 8] y)
        <float[8] scale = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] bias = {1, 1, 1, 1, 0, 0, 0, 0}, int64[1] last = {-1}>
        {
            norm = LayerNormalization (x, scale, bias)
            shares = Softmax (norm)
            column = Unsqueeze (mask, last)
            y = Mul (shares, column)
        }
        """
    )
    for node, name in zip(model.graph.node, ("norm", "shares", "column", "times"), strict=True):
        node.name = name
    onnx.checker.check_model(model, full_check=True)
    return model


def arrays(batch: int, sequence: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of ``sequence_model``."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((batch, sequence, WIDTH), dtype=np.float32)
    return {"x": x, "mask": random.integers(0, 2, (batch, sequence)).astype(np.float32)}


def encoder(folder: Path, dynamo: bool, length: int = 7) -> Path:
    """Export a small torch.nn.TransformerEncoder with a head, by the exporter that ``dynamo`` says."""
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
            self.encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
            self.head = torch.nn.Linear(16, 10)

        def forward(self, x: Any) -> Any:
            return torch.softmax(self.head(self.encoder(x)), -1)

    torch.manual_seed(0)
    path = folder / f"encoder-{'dynamo' if dynamo else 'torchscript'}.onnx"
    named = {0: "batch", 1: "sequence"}
    opened = (
        {"dynamic_shapes": {"x": {axis: torch.export.Dim(name) for axis, name in named.items()}}, "verbose": False}
        if dynamo
        else {"dynamic_axes": {"x": named}, "opset_version": 17}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.zeros(2, length, 16)
        names = {"input_names": ["x"], "output_names": ["y"]}
        torch.onnx.export(Network().eval(), (x,), path, dynamo=dynamo, **names, **opened)
    return path
