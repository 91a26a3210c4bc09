"""Define the patterns of a declaration: subgraphs of ONNX that a kernel can replace (``fuse/match.py`` finds them)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.options import GIVE_SIZES

if TYPE_CHECKING:
    from lenet_trt.kernel.attributes import AttributeValue

# The one namespace: the domain of ONNX nodes and functions, of TensorRT's plugin creators and of torch's operators.
DOMAIN = "lenet_trt"


@dataclass(frozen=True)
class Views:
    """Hold a kernel's shapes of tensors that have other shapes in ONNX; -1 stands for the remaining size.

    ``like``: an input with the sizes of the outputs in ONNX, except the last one. Where several sizes of an output are
    not known, they are read from this input while the network runs.
    """

    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape]
    like: str | None = None


@dataclass(frozen=True, eq=False)
class Pattern:
    """Declare one subgraph, in normal form, that a kernel computes.

    ``graph`` builds it, as onnxscript's rewriter has it: ``def graph(op, x, w, b): return op.Relu(op.Gemm(x, w,
    b, transB=1))``. Its parameters are the kernel's (plain) inputs by name; attributes that are not named must
    have their default value, and operands have the order that is written; None stands for an optional input that the
    node does not have. ``attributes`` are the kernel's attributes for this subgraph. A parameter that is named like an
    attribute of the kernel takes the value that is found there: ``op.LeakyRelu(x, alpha=alpha)``,
    ``op.Conv(x, w, b, kernel_shape=[3, 3], pads=[pad, pad, pad, pad])``, or a constant of one element:
    ``op.Add(x, epsilon)``.
    Where kernels match equally many nodes, the one with the higher ``preference`` is taken.
    Where ONNX gives int64 for an output that is declared int32, as for indices, a ``Cast`` follows the kernel.
    ``views``, from the ONNX shapes of inputs and outputs by name (-1: unknown), says in which shapes the kernel has the
    tensors (outputs: which shapes ONNX has), or why it cannot; the nodes of ``graph`` must compute the same in the
    kernel's shapes. Where they do not, or where the normal form has what ONNX itself has not, ``body`` builds ONNX
    nodes that do: of the kernel's inputs, and of its attributes by name.
    ``covered_by``: a pattern whose ``body`` computes the same, and more; it stands for that of this one where a file
    has both, since all nodes of a kernel share one function.
    ``any_row_order``: the kernel takes rows as the dense layer before it gives them, so fuse exchanges the movement of
    rows, such as windows of an image, with the dense layers around it (``fuse/row_order.py``), and that of heads with
    norms and with what joins tokens (``fuse/heads_second.py``).
    """

    graph: Callable[..., Any]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    preference: int = 0
    views: Callable[[Mapping[str, Shape]], Views | str] | None = None
    body: Callable[..., Any] | None = None
    any_row_order: bool = False
    covered_by: Pattern | None = None

    @property
    def onnx_graph(self) -> Callable[..., Any]:
        """Return what builds ONNX nodes that compute the same in the kernel's shapes."""
        return self.graph if self.body is None else self.body


def rows_of(shape: Shape) -> Shape:
    """Fold all axes but the last one into rows: return [rows, length]."""
    lead, last = shape[:-1], shape[-1:]
    return (UNKNOWN if UNKNOWN in lead else prod(lead), *last)


def repeated(many: Shape, few: Shape) -> tuple[int, int, int] | str:
    """Fold ``many`` into [outer, repeat, inner], where ``few``, of another tensor, lacks the dimensions of ``repeat``.

    ``few`` has 1 in their place, or begins after them. Returns why it cannot be done where it cannot.
    """
    if len(few) > len(many):
        return f"leading dimensions {list(many)} would be repeated over {list(few)}"
    padded = (1,) * (len(many) - len(few)) + few
    if any(one not in (size, 1) for one, size in zip(padded, many, strict=True)):
        return f"leading dimensions {list(many)} and {list(few)}: both would be repeated"
    spread = [one == 1 and size != 1 for one, size in zip(padded, many, strict=True)]
    first = spread.index(True) if True in spread else len(spread)
    last = len(spread) - spread[::-1].index(True) if True in spread else len(spread)
    if not all(spread[first:last]):
        return f"the dimensions of {list(many)} over which {list(few)} is repeated are not side by side"
    parts = [UNKNOWN if UNKNOWN in part else prod(part) for part in (many[:first], many[first:last], many[last:])]
    if parts.count(UNKNOWN) > 1:
        return several_open(many)
    return parts[0], parts[1], parts[2]


def several_open(*shapes: Shape) -> str:
    """Say that more sizes are open than a kernel can take, and what to do about it."""
    return f"more than one size of {' and '.join(str(list(shape)) for shape in shapes)} is not known: {GIVE_SIZES}"
