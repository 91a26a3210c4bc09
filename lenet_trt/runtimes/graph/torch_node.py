"""Read an ONNX node for the torch operators: its attributes, and the integers among its inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from lenet_trt.errors import LenetTrtError

# The inputs of an operator that are needed on the host: sizes, axes and the padding value.
HOST_INPUTS: dict[str, frozenset[int]] = {
    "ConstantOfShape": frozenset({0}),
    "Expand": frozenset({1}),
    "Pad": frozenset({1, 2, 3}),
    "Range": frozenset({0, 1, 2}),
    "ReduceL2": frozenset({1}),
    "ReduceMax": frozenset({1}),
    "ReduceMean": frozenset({1}),
    "ReduceMin": frozenset({1}),
    "ReduceSum": frozenset({1}),
    "Reshape": frozenset({1}),
    "Resize": frozenset({1, 2, 3}),
    "Slice": frozenset({1, 2, 3, 4}),
    "Split": frozenset({1}),
    "Squeeze": frozenset({1}),
    "Tile": frozenset({1}),
    "TopK": frozenset({1}),
    "Trilu": frozenset({1}),
    "Unsqueeze": frozenset({1}),
}


@dataclass(frozen=True)
class Node:
    """Hold a node of the graph; attributes are plain values, with tensors on the host."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset: int
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"node {self.name or self.outputs[0]} ({self.op})"

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute's value, or ONNX's default."""
        return self.attributes.get(name, default)

    def numbers(self, name: str, given: torch.Tensor | None) -> list[int] | None:
        """Return integers that are an input in newer operator sets and an attribute in older ones."""
        if given is not None:
            return integers(given)
        values = self.get(name)
        return None if values is None else [int(value) for value in values]


def integers(value: torch.Tensor) -> list[int]:
    """Return the integers in a tensor of the host.

    Raises:
        LenetTrtError: as ``host_numbers``.
    """
    return [int(entry) for entry in host_numbers(value)]


def host_numbers(value: torch.Tensor) -> list[Any]:
    """Return the numbers in a tensor of the host.

    Raises:
        LenetTrtError: the tensor is computed on the GPU, so a graph that depends on its values cannot be captured.
    """
    if value.is_cuda:
        raise LenetTrtError("a size or an axis is computed from data on the GPU, which a CUDA graph cannot do")
    return list(value.reshape(-1).tolist())
