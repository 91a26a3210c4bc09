"""Define symbolic sizes: integer expressions over named axes, written once and lowered where they are needed.

A kernel's shapes and launch geometry are such expressions. ``Dim.fold`` walks one through an
``Algebra``: the symbolic ones of a TensorRT version, code for the plugin library, or ranges of numbers.
So a route to TensorRT supplies the seven operations and repeats no arithmetic.
"""

from __future__ import annotations

import operator as py
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Literal, TypeAlias, TypeVar

from lenet_trt.errors import LenetTrtError

Value = TypeVar("Value")
DimLike: TypeAlias = "Dim | int"
Operator: TypeAlias = Literal["add", "subtract", "multiply", "floor_divide", "ceil_divide", "minimum", "maximum"]
Relation: TypeAlias = Literal["<=", "<", "==", "multiple of"]

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "floor_divide": "//"}
_PRECEDENCE = {"add": 1, "subtract": 1, "multiply": 2, "floor_divide": 2}
_CALLS = {"ceil_divide": "ceil_div", "minimum": "minimum", "maximum": "maximum"}


@dataclass(frozen=True)
class Algebra(Generic[Value]):
    """Define the numbers, the axes and the operations to which ``Dim.fold`` lowers an expression.

    Divisions always get a dividend >= 0 and a divisor > 0.
    """

    constant: Callable[[int], Value]
    axis: Callable[[str], Value]
    operations: Mapping[Operator, Callable[[Value, Value], Value]]


class Dim:
    """Represent an integer expression over axes: ``+ - * //``, ``ceil_div``, ``minimum`` and ``maximum``.

    Comparisons by ``<= < >= >`` give a ``Condition``; ``==`` compares the expressions themselves.
    """

    @property
    def axes(self) -> frozenset[str]:
        """Return the names of the axes on which the value depends."""
        raise NotImplementedError

    def fold(self, algebra: Algebra[Value]) -> Value:
        """Lower the expression to the value that ``algebra`` makes of it, from the leaves up."""
        raise NotImplementedError

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Return the value of the expression for these axis values.

        Raises:
            LenetTrtError: an axis has no value, a dividend is negative or a divisor not positive.
        """
        try:
            return self._value(values)
        except KeyError as error:
            known = ", ".join(sorted(values)) or "none"
            raise LenetTrtError(f"cannot evaluate {self}: axis {error.args[0]} has no value (known: {known})") from None
        except LenetTrtError as error:
            raise LenetTrtError(f"cannot evaluate {self}: {error}") from None

    def largest(self, most: Mapping[str, int]) -> int:
        """Return a number that the value never exceeds while each axis is from 0 to its size in ``most``.

        Raises:
            LenetTrtError: an axis has no size there.
        """
        try:
            _, result = self.fold(Algebra(lambda value: (value, value), lambda name: (0, most[name]), _RANGES))
        except KeyError as error:
            raise LenetTrtError(f"cannot bound {self}: axis {error.args[0]} has no largest size") from None
        return result

    def substitute(self, values: Mapping[str, int]) -> Dim:
        """Return the expression with the axes in ``values`` replaced by their numbers."""
        raise NotImplementedError

    def _value(self, values: Mapping[str, int]) -> int:
        """Evaluate without words for what is wrong: a call of a kernel evaluates hundreds of expressions."""
        raise NotImplementedError

    def multiple_of(self, divisor: DimLike) -> Condition:
        """Return the condition that the value is a multiple of ``divisor``."""
        return Condition("multiple of", self, as_dim(divisor))

    def equals(self, other: DimLike) -> Condition:
        """Return the condition that both have the same value."""
        return Condition("==", self, as_dim(other))

    def __add__(self, other: DimLike) -> Dim:
        return _binary("add", self, other)

    def __radd__(self, other: int) -> Dim:
        return _binary("add", other, self)

    def __sub__(self, other: DimLike) -> Dim:
        return _binary("subtract", self, other)

    def __rsub__(self, other: int) -> Dim:
        return _binary("subtract", other, self)

    def __mul__(self, other: DimLike) -> Dim:
        return _binary("multiply", self, other)

    def __rmul__(self, other: int) -> Dim:
        return _binary("multiply", other, self)

    def __floordiv__(self, other: DimLike) -> Dim:
        return _binary("floor_divide", self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return _binary("floor_divide", other, self)

    def __le__(self, other: DimLike) -> Condition:
        return Condition("<=", self, as_dim(other))

    def __lt__(self, other: DimLike) -> Condition:
        return Condition("<", self, as_dim(other))

    def __ge__(self, other: DimLike) -> Condition:
        return Condition("<=", as_dim(other), self)

    def __gt__(self, other: DimLike) -> Condition:
        return Condition("<", as_dim(other), self)


@dataclass(frozen=True)
class Constant(Dim):
    """Represent a number."""

    value: int

    @property
    def axes(self) -> frozenset[str]:
        return frozenset()

    def fold(self, algebra: Algebra[Value]) -> Value:
        return algebra.constant(self.value)

    def substitute(self, values: Mapping[str, int]) -> Dim:
        return self

    def _value(self, values: Mapping[str, int]) -> int:
        return self.value

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class AxisValue(Dim):
    """Represent the size of a named axis."""

    name: str

    @property
    def axes(self) -> frozenset[str]:
        return frozenset({self.name})

    def fold(self, algebra: Algebra[Value]) -> Value:
        return algebra.axis(self.name)

    def substitute(self, values: Mapping[str, int]) -> Dim:
        return Constant(values[self.name]) if self.name in values else self

    def _value(self, values: Mapping[str, int]) -> int:
        return values[self.name]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Binary(Dim):
    """Represent two expressions joined by an operator."""

    operator: Operator
    left: Dim
    right: Dim

    @cached_property
    def axes(self) -> frozenset[str]:
        return self.left.axes | self.right.axes

    def fold(self, algebra: Algebra[Value]) -> Value:
        operation = algebra.operations[self.operator]
        return operation(self.left.fold(algebra), self.right.fold(algebra))

    def substitute(self, values: Mapping[str, int]) -> Dim:
        left, right = self.left.substitute(values), self.right.substitute(values)
        return self if left is self.left and right is self.right else _binary(self.operator, left, right)

    def _value(self, values: Mapping[str, int]) -> int:
        return _INTEGERS[self.operator](self.left._value(values), self.right._value(values))

    def __str__(self) -> str:
        if self.operator in _CALLS:
            return f"{_CALLS[self.operator]}({self.left}, {self.right})"
        own = _PRECEDENCE[self.operator]
        left = f"({self.left})" if _precedence(self.left) < own else str(self.left)
        right = f"({self.right})" if _precedence(self.right) <= own else str(self.right)
        return f"{left} {_INFIX[self.operator]} {right}"


@dataclass(frozen=True)
class Condition:
    """Represent a comparison of two expressions, or several that must all hold (joined by ``&``)."""

    relation: Relation
    left: Dim
    right: Dim
    also: Condition | None = None

    @cached_property
    def axes(self) -> frozenset[str]:
        """Return the names of the axes that decide it."""
        own = self.left.axes | self.right.axes
        return own if self.also is None else own | self.also.axes

    @cached_property
    def comparisons(self) -> tuple[Condition, ...]:
        """Return each comparison as a condition of its own, in order."""
        return (self,) if self.also is None else (replace(self, also=None), *self.also.comparisons)

    def evaluate(self, values: Mapping[str, int]) -> bool:
        """Return whether it holds for these axis values."""
        holds = _RELATIONS[self.relation](self.left.evaluate(values), self.right.evaluate(values))
        return holds and (self.also is None or self.also.evaluate(values))

    def substitute(self, values: Mapping[str, int]) -> Condition:
        """Return the same condition with some axes known."""
        left, right = self.left.substitute(values), self.right.substitute(values)
        return replace(self, left=left, right=right, also=None if self.also is None else self.also.substitute(values))

    def decided(self, values: Mapping[str, int]) -> bool | None:
        """Return whether it holds, as far as these values tell; None where that depends on other axes."""
        parts = self.substitute(values).comparisons
        known = [part for part in parts if isinstance(part.left, Constant) and isinstance(part.right, Constant)]
        if not all(part.evaluate({}) for part in known):
            return False
        return True if len(known) == len(parts) else None

    def __and__(self, other: Condition) -> Condition:
        return replace(self, also=other if self.also is None else self.also & other)

    def __bool__(self) -> bool:
        raise TypeError(f"`{self}` has no value yet: join conditions by &, and use evaluate()")

    def __str__(self) -> str:
        relation = "is a multiple of" if self.relation == "multiple of" else self.relation
        own = f"{self.left} {relation} {self.right}"
        return own if self.also is None else f"{own} & {self.also}"


def axes(names: str) -> tuple[Dim, ...]:
    """Make one ``Dim`` for each name: ``n, c = axes("n c")``."""
    return tuple(AxisValue(name) for name in names.split())


def size_of(type_variable: str) -> Dim:
    """Return the size in bytes of one element of a type variable, for launches and conditions of variants."""
    return AxisValue(f"sizeof_{type_variable}")


# How many multiprocessors the GPU has: for grids of blocks that stay and take one piece of work after another.
MULTIPROCESSORS: Dim = AxisValue("multiprocessors")
# The GPU's architecture, 90 for sm_90: for claims that hold where they were measured.
ARCHITECTURE: Dim = AxisValue("architecture")
# The number of axes that the kernel's first input has in the model, before a pattern folds it.
MODEL_AXES: Dim = AxisValue("model_axes")


def as_dim(value: DimLike) -> Dim:
    """Wrap a plain integer; a ``Dim`` is returned as it is."""
    if isinstance(value, Dim):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a size is an int or a Dim, not {value!r}")
    return Constant(value)


def product(values: Iterable[DimLike]) -> Dim:
    """Multiply the sizes; the product of no sizes is 1."""
    result: Dim | None = None
    for value in values:
        result = as_dim(value) if result is None else result * value
    return Constant(1) if result is None else result


def ceil_div(a: DimLike, b: DimLike) -> Dim:
    """Divide and round up."""
    return _binary("ceil_divide", a, b)


def remainder(a: DimLike, b: DimLike) -> Dim:
    """Return what a division leaves over: of sizes, which are not negative."""
    a = as_dim(a)
    return a - a // b * b


def minimum(a: DimLike, b: DimLike) -> Dim:
    """Return the smaller of two sizes."""
    return _binary("minimum", a, b)


def maximum(a: DimLike, b: DimLike) -> Dim:
    """Return the larger of two sizes."""
    return _binary("maximum", a, b)


def _binary(operator: Operator, a: DimLike, b: DimLike) -> Dim:
    left, right = as_dim(a), as_dim(b)
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant(_INTEGERS[operator](left.value, right.value))
    return Binary(operator, left, right)


def _precedence(dim: Dim) -> int:
    """Return the precedence of the expression's text; names, numbers and calls have the highest."""
    return _PRECEDENCE.get(dim.operator, 3) if isinstance(dim, Binary) else 3


def _floor_divide(a: int, b: int) -> int:
    # Python rounds down and TensorRT's expressions need not: refused wherever that would show.
    if a < 0 or b <= 0:
        raise LenetTrtError(f"{a} is divided by {b}; sizes are >= 0 and divisors > 0")
    return a // b


def _ceil_divide(a: int, b: int) -> int:
    return _floor_divide(a, b) + (1 if a % b else 0)


_INTEGERS: dict[Operator, Callable[[int, int], int]] = {
    "add": py.add,
    "subtract": py.sub,
    "multiply": py.mul,
    "floor_divide": _floor_divide,
    "ceil_divide": _ceil_divide,
    "minimum": min,
    "maximum": max,
}


def _range_product(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _range_quotient(divide: Callable[[int, int], int]) -> Callable[[tuple[int, int], tuple[int, int]], tuple[int, int]]:
    # A dividend is never below 0 and a divisor never below 1: where one would be, there is no value.
    return lambda a, b: (divide(max(a[0], 0), max(b[1], 1)), divide(max(a[1], 0), max(b[0], 1)))


_RANGES: dict[Operator, Callable[[tuple[int, int], tuple[int, int]], tuple[int, int]]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": _range_product,
    "floor_divide": _range_quotient(_floor_divide),
    "ceil_divide": _range_quotient(_ceil_divide),
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
_RELATIONS: dict[Relation, Callable[[int, int], bool]] = {
    "<=": py.le,
    "<": py.lt,
    "==": py.eq,
    "multiple of": lambda a, b: a % b == 0,
}
