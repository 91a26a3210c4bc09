"""Compute ONNX's operators that read or write elements by index in torch, like ``torch_layers``.

An index below 0 counts from the end of its axis.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.graph.torch_layers import TorchOperator
from lenet_trt.runtimes.graph.torch_node import Node, integers

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = node.get("axis", 0) % x.dim()
    flat = _from_zero(indices.reshape(-1), x.shape[axis])
    return x.index_select(axis, flat).reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def gather_elements(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = node.get("axis", 0)
    return torch.gather(x, axis, _from_zero(indices, x.shape[axis]))


def gather_nd(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    if node.get("batch_dims", 0):
        raise LenetTrtError("batch_dims is not supported")
    return x[indices.long().unbind(-1)]


def scatter_elements(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis = node.get("axis", 0)
    places, reduction = _from_zero(indices, x.shape[axis]), node.get("reduction", "none")
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, _REDUCTIONS[reduction])


def scatter_nd(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    reduction = node.get("reduction", "none")
    if reduction not in ("none", "add"):
        raise LenetTrtError(f"the reduction {reduction} is not supported: none and add are")
    return x.index_put(indices.long().unbind(-1), updates, accumulate=reduction == "add")


def top_elements(node: Node, x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    (count,) = integers(k)
    values, indices = torch.topk(
        x, count, dim=node.get("axis", -1), largest=bool(node.get("largest", 1)), sorted=bool(node.get("sorted", 1))
    )
    return values, indices


def position(find: Callable[..., Tensor]) -> TorchOperator:
    """Wrap ``argmax`` and ``argmin``: the first of equal elements counts."""

    def apply(node: Node, x: Tensor) -> Tensor:
        if node.get("select_last_index", 0):
            raise LenetTrtError("select_last_index is not supported")
        return find(x, dim=node.get("axis", 0), keepdim=bool(node.get("keepdims", 1)))

    return apply


def _from_zero(indices: Tensor, size: int) -> Tensor:
    wide = indices.long()
    return torch.where(wide < 0, wide + size, wide)


INDICES: dict[str, TorchOperator] = {
    "ArgMax": position(torch.argmax),
    "ArgMin": position(torch.argmin),
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TopK": top_elements,
}
