"""Compute with sizes that are only partly known: products of numbers and named open axes, as exporters compute shapes.

An export with an open batch computes the targets of its ``Reshape`` nodes from ``Shape``: n * 4, then n * 4 / 4. The
value of such a tensor, which is of whole numbers, is a list of sizes; an element of which nothing is known is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import onnx
from onnx import helper, numpy_helper

# Tensors with more elements are not shapes.
MOST_ELEMENTS = 64


@dataclass(frozen=True)
class Size:
    """Hold a number times named open axes; without names, a number."""

    factor: int
    names: tuple[str, ...] = ()

    @classmethod
    def of_axis(cls, name: str) -> Size:
        """Read the name of an axis, as ``str`` writes it."""
        number, *names = name.split("*")
        return cls(int(number), tuple(names)) if names and number.isdecimal() else cls(1, (name,))

    def __mul__(self, other: Size) -> Size:
        """Return the product; zero has no names."""
        factor = self.factor * other.factor
        return Size(factor, tuple(sorted(self.names + other.names)) if factor else ())

    def divided(self, other: Size) -> Size | None:
        """Return the quotient where it leaves no rest for any size of the open axes, else None."""
        if other.factor == 0 or self.factor % other.factor:
            return None
        mine, theirs = Counter(self.names), Counter(other.names)
        return Size(self.factor // other.factor, tuple(sorted((mine - theirs).elements()))) if theirs <= mine else None

    @property
    def number(self) -> int | None:
        """Return the number, or None where open axes are in it."""
        return None if self.names else self.factor

    def __str__(self) -> str:
        """Return the size as the name of an axis."""
        return "*".join([str(self.factor)] * (self.factor != 1 or not self.names) + list(self.names))


# What is known of an element: a size, what a comparison gives, or nothing.
Element: TypeAlias = "Size | bool | None"
Elements: TypeAlias = "list[Element]"
ONE = Size(1)


def product_of(sizes: Iterable[Size | None]) -> Size | None:
    """Multiply sizes; None where one of them is not known."""
    result = ONE
    for size in sizes:
        if size is None:
            return None
        result = result * size
    return result


def numbers(elements: Elements) -> list[int] | None:
    """Return the elements as numbers, or None where one is not a number."""
    found = [element.number if isinstance(element, Size) else None for element in elements]
    known = [number for number in found if number is not None]
    return known if len(known) == len(found) else None


def elements_of(tensor: onnx.TensorProto) -> Elements | None:
    """Return the elements of a constant that can be a shape, or None for any other."""
    integers = tensor.data_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
    if not integers or len(tensor.dims) > 1 or sum(tensor.dims) > MOST_ELEMENTS or tensor.external_data:
        return None
    return [Size(int(value)) for value in numpy_helper.to_array(tensor).reshape(-1)]


def computed(
    node: onnx.NodeProto, values: Mapping[str, Elements], shape: Callable[[str], Sequence[Size | None] | None]
) -> Elements | None:
    """Return what a node computes of sizes, or None where it is no such node or nothing is known.

    ``values`` has the known elements of the inputs, ``shape`` tells the shape of a tensor.
    """
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    if node.op_type == "Constant" and "value" in attributes:
        return elements_of(attributes["value"])
    if node.op_type == "Constant" and "value_ints" in attributes:
        return [Size(value) for value in attributes["value_ints"]]
    if node.op_type == "Constant" and "value_int" in attributes:
        return [Size(attributes["value_int"])]
    if node.op_type in ("Shape", "Size"):
        sizes = shape(node.input[0])
        if sizes is None:
            return None
        span = slice(attributes.get("start", 0), attributes.get("end", len(sizes)))
        return [*sizes[span]] if node.op_type == "Shape" else [product_of(sizes)]
    given = [values.get(name) for name in node.input]
    if node.op_type not in _RULES or any(each is None for each in given):
        return None
    result = _RULES[node.op_type]([each for each in given if each is not None], attributes)
    return result if result is not None and len(result) <= MOST_ELEMENTS else None


def _same(given: list[Elements], _: Mapping[str, Any]) -> Elements:
    return given[0]


def _joined(given: list[Elements], _: Mapping[str, Any]) -> Elements:
    return [element for each in given for element in each]


def _taken(given: list[Elements], _: Mapping[str, Any]) -> Elements | None:
    elements, indexes = given[0], numbers(given[1])
    if indexes is None or not all(-len(elements) <= index < len(elements) for index in indexes):
        return None
    return [elements[index] for index in indexes]


def _sliced(given: list[Elements], attributes: Mapping[str, Any]) -> Elements | None:
    bounds = [numbers(each) for each in given[1:]]
    if "starts" in attributes:  # before opset 10
        bounds = [list(attributes["starts"]), list(attributes["ends"])]
    if len(bounds) < 2 or any(bound is None or len(bound) != 1 for bound in bounds):
        return None
    start, end, *rest = [bound[0] for bound in bounds if bound is not None]
    step = rest[1] if len(rest) == 2 else 1  # after the axis, which can only be the first
    return given[0][start:end:step] if step > 0 else None


def _each(
    rule: Callable[[Element, Element], Element],
) -> Callable[[list[Elements], Mapping[str, Any]], Elements | None]:
    """Return the rule of an operator that computes element by element of two inputs."""

    def every(given: list[Elements], _: Mapping[str, Any]) -> Elements | None:
        pairs = _alike(given[:2])
        return None if pairs is None else [rule(a, b) for a, b in zip(*pairs, strict=True)]

    return every


def _alike(given: list[Elements]) -> list[Elements] | None:
    """Repeat single elements until all inputs are equally long."""
    longest = max(map(len, given))
    repeated = [each * longest if len(each) == 1 else each for each in given]
    return repeated if all(len(each) == longest for each in repeated) else None


def _times(a: Element, b: Element) -> Element:
    return a * b if isinstance(a, Size) and isinstance(b, Size) else None


def _over(a: Element, b: Element) -> Element:
    """Divide as whole numbers do, where nothing is open: without the rest."""
    if not isinstance(a, Size) or not isinstance(b, Size):
        return None
    if a.number is not None and b.number is not None and a.number >= 0 and b.number > 0:
        return Size(a.number // b.number)
    return a.divided(b)


def _rest(a: Element, b: Element) -> Element:
    whole = _over(a, b)
    if not isinstance(a, Size) or not isinstance(b, Size) or not isinstance(whole, Size):
        return None
    return Size(a.factor - whole.factor * b.factor)  # nothing where a has open axes: then the division is without rest


def _sum(sign: int) -> Callable[[Element, Element], Element]:
    def added(a: Element, b: Element) -> Element:
        if not isinstance(a, Size) or not isinstance(b, Size):
            return None
        if a.names == b.names:
            factor = a.factor + sign * b.factor
            return Size(factor, a.names if factor else ())
        return a if b == Size(0) else None

    return added


def _equal(a: Element, b: Element) -> Element:
    if not isinstance(a, Size) or not isinstance(b, Size):
        return None
    if a == b:
        return True
    both_numbers = a.number is not None and b.number is not None
    return False if both_numbers or a.factor * b.factor < 0 else None  # an open axis is not negative


def _chosen(given: list[Elements], _: Mapping[str, Any]) -> Elements | None:
    alike = _alike(given)
    if alike is None:
        return None
    return [yes if which is True else no if which is False else None for which, yes, no in zip(*alike, strict=True)]


def _filled(given: list[Elements], attributes: Mapping[str, Any]) -> Elements | None:
    length = numbers(given[0])
    value = elements_of(attributes["value"]) if "value" in attributes else None  # else zeros of float
    return None if length is None or len(length) > 1 or value is None else value * (length[0] if length else 1)


def _counted(given: list[Elements], _: Mapping[str, Any]) -> Elements | None:
    bounds = numbers([element for each in given for element in each])
    if bounds is None or len(bounds) != 3 or bounds[2] == 0 or len(range(*bounds)) > MOST_ELEMENTS:
        return None
    return [Size(number) for number in range(*bounds)]


def _multiplied(given: list[Elements], _: Mapping[str, Any]) -> Elements:
    return [product_of(element if isinstance(element, Size) else None for element in given[0])]


_RULES: Mapping[str, Callable[[list[Elements], Mapping[str, Any]], Elements | None]] = {
    "Add": _each(_sum(1)),
    "Cast": _same,
    "Concat": _joined,
    "ConstantOfShape": _filled,
    "Div": _each(_over),
    "Equal": _each(_equal),
    "Gather": _taken,
    "Identity": _same,
    "Mod": _each(_rest),
    "Mul": _each(_times),
    "Range": _counted,
    "ReduceProd": _multiplied,
    "Reshape": _same,
    "Slice": _sliced,
    "Squeeze": _same,
    "Sub": _each(_sum(-1)),
    "Unsqueeze": _same,
    "Where": _chosen,
}
