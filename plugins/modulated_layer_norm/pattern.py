"""Define the nodes that the modulated layer norms replace, as torch exports them for diffusion transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.pattern import Pattern, Views

from ..layer_norm.pattern import BODIES

Norm = Callable[..., Any]
# The orders of operands of a gated sum.
ORDERS = tuple({"gate_first": gate, "other_first": other} for gate in (True, False) for other in (False, True))


def modulated(op: Any, y: Any, factor: Any, shift: Any) -> Any:
    return op.Add(op.Mul(y, op.Add(factor, 1.0)), shift)


def of(norm: Norm) -> Norm:
    """Return a way to write a layer norm, modulated."""

    def graph(op: Any, x: Any, factor: Any, shift: Any, scale: Any, bias: Any, epsilon: Any) -> Any:
        return modulated(op, norm(op, x, scale, bias, epsilon), factor, shift)

    graph.__name__ = f"modulated_{norm.__name__}"
    return graph


def in_onnx(norm: Norm) -> Norm:
    """Return the same with factors and shifts that are parts of tensors."""

    def body(
        op: Any, x: Any, factor: Any, shift: Any, scale: Any, bias: Any, epsilon: Any, factor_part: Any, shift_part: Any
    ) -> Any:
        return of(norm)(op, x, part(op, factor, factor_part), part(op, shift, shift_part), scale, bias, epsilon)

    return body


def gated_sum(op: Any, x: Any, other: Any, gate: Any, *, gate_first: bool, other_first: bool) -> Any:
    """Write other and what a gate lets through of x, with operands in one order."""
    let_through = op.Mul(gate, x) if gate_first else op.Mul(x, gate)
    return op.Add(other, let_through) if other_first else op.Add(let_through, other)


def part(op: Any, tensor: Any, which: Any) -> Any:
    """Take a part of [n, parts, k], as [n, 1, k]."""
    return op.Gather(tensor, which, axis=1)


def tokens_of(shapes: Mapping[str, Shape], x: str, images: tuple[str, ...]) -> dict[str, Shape] | str:
    """Return x as [n, t, k], and what belongs to an image as [n, 1, k]; or why that cannot be done."""
    (*lead, _), columns = shapes[x], shapes["scale"]
    if not lead:
        return f"{x} has no images"
    batch, tokens = lead[0], lead[1:]
    for name in images:
        if shapes[name] != (batch, *[1] * len(tokens), *columns):
            return f"{name} {list(shapes[name])} is not of the images of {list(shapes[x])}"
    whole = UNKNOWN if UNKNOWN in tokens else prod(tokens)
    return {x: (batch, whole, *columns), **dict.fromkeys(images, (batch, 1, *columns))}


def views(shapes: Mapping[str, Shape]) -> Views | str:
    """Fold what lies between the images and the columns into tokens."""
    found = tokens_of(shapes, "x", ("factor", "shift"))
    if isinstance(found, str):
        return found
    return Views(inputs=found, outputs={"y": (*shapes["x"][:-1], *shapes["scale"])}, like="x")


def views_of_sum(*images: str) -> Callable[[Mapping[str, Shape]], Views | str]:
    """Return the views of a sum of x and other in front of the norm; ``images``: what belongs to an image."""

    def views_with_other(shapes: Mapping[str, Shape]) -> Views | str:
        x, other = ((*shapes[name][:-1], *shapes["scale"]) for name in ("x", "other"))
        if x != other:
            return f"the sum of {list(x)} and {list(other)} repeats one of them"
        found = tokens_of(shapes, "x", images)
        if isinstance(found, str):
            return found
        return Views(inputs={**found, "other": found["x"]}, outputs={"y": x, "sum": x}, like="x")

    return views_with_other


def patterns() -> Iterator[Pattern]:
    """Yield the pattern of each way to write a layer norm."""
    for norm, body in BODIES.items():
        yield Pattern(of(norm), views=views, body=in_onnx(body))


PATTERNS = tuple(patterns())
