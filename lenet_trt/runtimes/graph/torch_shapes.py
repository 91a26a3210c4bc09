"""Compute ONNX's elementwise operators, reductions and changes of shape in torch, like ``torch_layers``.

Sizes that a network computes (Shape, then Gather, Concat ... Reshape) stay on the host, where they are known when a
CUDA graph is captured.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import torch
from torch import Tensor
from torch.nn import functional

from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.graph.torch_layers import TorchOperator
from lenet_trt.runtimes.graph.torch_node import Node, host_numbers, integers


def reshape(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    sizes = integers(shape)
    if not node.get("allowzero", 0):
        sizes = [x.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    return x.reshape(sizes)


def flatten(node: Node, x: Tensor) -> Tensor:
    axis = node.get("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    rows = 1
    for size in x.shape[:axis]:
        rows *= size
    columns = 1
    for size in x.shape[axis:]:
        columns *= size
    return x.reshape(rows, columns)


def transpose(node: Node, x: Tensor) -> Tensor:
    return x.permute(node.get("perm", list(reversed(range(x.dim())))))


def squeeze(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    chosen = node.numbers("axes", axes)
    return x.squeeze() if chosen is None else x.squeeze(tuple(chosen))


def unsqueeze(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    chosen = node.numbers("axes", axes) or []
    rank = x.dim() + len(chosen)
    for axis in sorted(axis % rank for axis in chosen):
        x = x.unsqueeze(axis)
    return x


def concat(node: Node, *parts: Tensor) -> Tensor:
    return torch.cat(parts, dim=node.get("axis"))


def split(node: Node, x: Tensor, sizes: Tensor | None = None) -> Sequence[Tensor]:
    axis = node.get("axis", 0)
    chosen = node.numbers("split", sizes)
    if chosen is None:
        count = len(node.outputs)
        length = -(-x.shape[axis] // count)
        chosen = [length] * (count - 1) + [x.shape[axis] - length * (count - 1)]
    return torch.split(x, chosen, dim=axis)


def slice_(node: Node, x: Tensor, *bounds: Tensor | None) -> Tensor:
    given: list[Tensor | None] = [*bounds, None, None, None, None]
    starts, ends, axes, steps = given[:4]
    begin, end = node.numbers("starts", starts) or [], node.numbers("ends", ends) or []
    chosen = node.numbers("axes", axes) or list(range(len(begin)))
    stride = [1] * len(begin) if steps is None else integers(steps)
    index = [slice(None)] * x.dim()
    backwards = []
    for axis, first, last, step in zip(chosen, begin, end, stride, strict=True):
        places = range(x.shape[axis])[first:last:step]
        if step < 0:
            # torch has no such step: the places in rising order, and then turned round.
            backwards.append(axis)
            places = places[::-1]
        index[axis] = slice(places.start, places.stop, places.step)
    taken = x[tuple(index)]
    return taken.flip(backwards) if backwards else taken


def expand(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    return x.expand(torch.broadcast_shapes(x.shape, tuple(integers(shape))))


def pad(
    node: Node, x: Tensor, pads: Tensor | None = None, value: Tensor | None = None, axes: Tensor | None = None
) -> Tensor:
    amounts = node.numbers("pads", pads) or []
    chosen = list(range(x.dim())) if axes is None else [axis % x.dim() for axis in integers(axes)]
    pairs = [(0, 0)] * x.dim()
    for position, axis in enumerate(chosen):
        pairs[axis] = (amounts[position], amounts[position + len(chosen)])
    mode = node.get("mode", "constant")
    if mode == "constant":
        fill = node.get("value", 0.0) if value is None else value.item()
        return functional.pad(x, [amount for pair in reversed(pairs) for amount in pair], value=fill)
    names = {"edge": "replicate", "reflect": "reflect"}
    if mode not in names or any(map(any, pairs[:2])):
        raise LenetTrtError(f"padding of mode {mode} is not supported: only edge and reflect on spatial axes are")
    return functional.pad(x, [amount for pair in reversed(pairs[2:]) for amount in pair], mode=names[mode])


def reduction(reduce: Callable[..., Tensor]) -> TorchOperator:
    def apply(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
        chosen = node.numbers("axes", axes)
        if not chosen and node.get("noop_with_empty_axes", 0):
            return x
        return reduce(x, dim=tuple(chosen or range(x.dim())), keepdim=bool(node.get("keepdims", 1)))

    return apply


def divide(node: Node, a: Tensor, b: Tensor) -> Tensor:
    if a.is_floating_point():
        return torch.div(a, b)
    return torch.div(a, b, rounding_mode="trunc")


def mod(node: Node, a: Tensor, b: Tensor) -> Tensor:
    return torch.fmod(a, b) if node.get("fmod", 0) else torch.remainder(a, b)


def depth_to_space(node: Node, x: Tensor) -> Tensor:
    block = node.get("blocksize")
    if node.get("mode", "DCR") == "CRD":
        return functional.pixel_shuffle(x, block)
    n, channels, height, width = x.shape
    parts = x.reshape(n, block, block, channels // (block * block), height, width)
    return parts.permute(0, 3, 4, 1, 5, 2).reshape(n, -1, height * block, width * block)


def space_to_depth(node: Node, x: Tensor) -> Tensor:
    block = node.get("blocksize")
    n, channels, height, width = x.shape
    parts = x.reshape(n, channels, height // block, block, width // block, block)
    return parts.permute(0, 3, 5, 1, 2, 4).reshape(n, -1, height // block, width // block)


def range_(node: Node, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    bounds = [*host_numbers(start), *host_numbers(limit), *host_numbers(delta)]
    return torch.arange(*bounds, dtype=start.dtype)


def triangle(node: Node, x: Tensor, diagonal: Tensor | None = None) -> Tensor:
    (offset,) = [0] if diagonal is None else integers(diagonal)
    return torch.triu(x, offset) if node.get("upper", 1) else torch.tril(x, offset)


def shape(node: Node, x: Tensor) -> Tensor:
    return torch.tensor(list(x.shape)[slice(node.get("start", 0), node.get("end"))], dtype=torch.int64)


def cast(node: Node, x: Tensor) -> Tensor:
    return x.to(torch_dtype(node.get("to")))


def torch_dtype(element_type: int) -> Any:
    """Return torch's name for one of ONNX's element types.

    Raises:
        LenetTrtError: torch does not have the type.
    """
    name = onnx.helper.tensor_dtype_to_np_dtype(element_type).name
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise LenetTrtError(f"torch has no element type {name}")
    return dtype


def constant_of_shape(node: Node, sizes: Tensor) -> Tensor:
    value = node.get("value")
    value = torch.zeros(1) if value is None else value
    return torch.full(integers(sizes), value.item(), dtype=value.dtype)


def variadic(function: Callable[[Tensor, Tensor], Tensor]) -> TorchOperator:
    return lambda node, *values: functools.reduce(function, values)


def _plain(function: Callable[..., Tensor]) -> TorchOperator:
    return lambda node, *values: function(*values)


def _same(node: Node, x: Tensor, *others: Tensor) -> Tensor:
    if len(node.outputs) > 1:
        raise LenetTrtError("its second output, the mask, is not supported")
    return x


SHAPES: dict[str, TorchOperator] = {
    "Cast": cast,
    "Concat": concat,
    "ConstantOfShape": constant_of_shape,
    "DepthToSpace": depth_to_space,
    "Div": divide,
    "Dropout": _same,
    "Expand": expand,
    "Flatten": flatten,
    "Identity": _same,
    "Max": variadic(torch.maximum),
    "Mean": lambda node, *values: functools.reduce(torch.add, values) / len(values),
    "Min": variadic(torch.minimum),
    "Mod": mod,
    "Pad": pad,
    "Range": range_,
    "ReduceL2": reduction(torch.linalg.vector_norm),
    "ReduceMax": reduction(torch.amax),
    "ReduceMean": reduction(torch.mean),
    "ReduceMin": reduction(torch.amin),
    "ReduceSum": reduction(torch.sum),
    "Reshape": reshape,
    "Shape": shape,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Sum": variadic(torch.add),
    "Tile": lambda node, x, repeats: x.repeat(integers(repeats)),
    "Transpose": transpose,
    "Trilu": triangle,
    "Unsqueeze": unsqueeze,
    **{
        name: _plain(function)
        for name, function in {
            "Abs": torch.abs,
            "Add": torch.add,
            "And": torch.logical_and,
            "Ceil": torch.ceil,
            "Cos": torch.cos,
            "Equal": torch.eq,
            "Erf": torch.erf,
            "Exp": torch.exp,
            "Floor": torch.floor,
            "Greater": torch.gt,
            "GreaterOrEqual": torch.ge,
            "IsNaN": torch.isnan,
            "Less": torch.lt,
            "LessOrEqual": torch.le,
            "Log": torch.log,
            "Mul": torch.mul,
            "Neg": torch.neg,
            "Not": torch.logical_not,
            "Or": torch.logical_or,
            "Pow": torch.pow,
            "Reciprocal": torch.reciprocal,
            "Round": torch.round,
            "Sign": torch.sign,
            "Sin": torch.sin,
            "Sqrt": torch.sqrt,
            "Sub": torch.sub,
            "Where": torch.where,
        }.items()
    },
}
