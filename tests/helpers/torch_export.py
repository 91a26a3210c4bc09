"""Export a torch module with an open batch, by the exporter of an opset's time."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

import onnx


def exported_module(network: Any, x: Any, opset: int) -> onnx.ModelProto:
    """Export by TorchScript's exporter up to opset 17, by dynamo's from 18 on; the first axis of ``x`` is the batch."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if opset >= 18:
            sizes = {"dynamic_shapes": ({0: torch.export.Dim("n")},)}
            return torch.onnx.export(
                network, (x,), dynamo=True, opset_version=opset, verbose=False, **sizes
            ).model_proto
        file = io.BytesIO()
        torch.onnx.export(
            network, (x,), file, dynamo=False, opset_version=opset, input_names=["x"], dynamic_axes={"x": {0: "n"}}
        )
        return onnx.load_from_string(file.getvalue())


def side_by_side(networks: Sequence[Any]) -> Any:
    """Make one module of several, each of which gets its input: an export takes long, however small it is."""
    import torch

    class SideBySide(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.networks = torch.nn.ModuleList(networks)

        def forward(self, x: Any) -> Any:
            return tuple(network(x) for network in self.networks)

    return SideBySide().eval()
