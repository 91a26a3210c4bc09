"""Define the attributes of a declaration: values of a layer that are compiled into the kernel.

Every kind of attribute has the same members, so that a route asks none of them for its kind:

``name``, ``doc``         as declared
``examples``              the values to check with; the first one is the default
``type_name``             the type in which ONNX nodes, engines and torch store it: "int" or "float"
``problems()``            what is wrong with the declaration
``checked(value)``        the value in the one form in which it is compared and hashed, or None where it is not allowed
``number(value)``         what an ONNX node or an engine stores for it
``value_of(number)``      the inverse, or None
``macro(value)``          what the source sees as ``ATTR_<NAME>``
``size(value)``           the integer that the attribute's name is in a ``Dim``, or None where it is no size
``text(value)``           a short text for people
``allowed``               what values it can have, for messages
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lenet_trt.errors import LenetTrtError

if TYPE_CHECKING:
    from lenet_trt.kernel.declaration import Kernel

AttributeValue: TypeAlias = int | float | str
Number: TypeAlias = int | float

_INT32 = range(-(2**31), 2**31)
_FLOAT32_MAX = float.fromhex("0x1.fffffep+127")


@dataclass(frozen=True)
class Attribute:
    """Declare a choice out of a list; the first one is the default.

    The macro ``ATTR_<NAME>`` is the integer itself, or the position of a string in ``choices``.
    """

    name: str
    choices: tuple[int | str, ...]
    doc: str

    type_name = "int"

    @property
    def examples(self) -> tuple[int | str, ...]:
        return self.choices

    @property
    def allowed(self) -> str:
        return ", ".join(map(str, self.choices))

    def problems(self) -> Iterator[str]:
        if not self.choices:
            yield f"attribute {self.name} has no choices"

    def checked(self, value: AttributeValue) -> AttributeValue | None:
        return next((choice for choice in self.choices if choice == value), None)

    def number(self, value: AttributeValue) -> int:
        return value if isinstance(value, int) else self.choices.index(str(value))

    def value_of(self, number: Number) -> AttributeValue | None:
        return next((choice for choice in self.choices if self.number(choice) == number), None)

    def macro(self, value: AttributeValue) -> str:
        return str(self.number(value))

    def size(self, value: AttributeValue) -> int | None:
        return value if all(isinstance(choice, int) for choice in self.choices) and isinstance(value, int) else None

    def text(self, value: AttributeValue) -> str:
        return str(value)


@dataclass(frozen=True)
class IntegerAttribute:
    """Declare an integer from ``least`` to ``most``, as the k of TopK; shapes, launches and conditions may name it.

    ``examples`` are values to check with; the first one is the default.
    """

    name: str
    least: int
    most: int
    examples: tuple[int, ...]
    doc: str

    type_name = "int"

    @property
    def allowed(self) -> str:
        return f"an integer from {self.least} to {self.most}"

    def problems(self) -> Iterator[str]:
        if self.least not in _INT32 or self.most not in _INT32:
            yield f"attribute {self.name} has the range {self.least} to {self.most}, more than 32 bits"
        yield from _example_problems(self)

    def checked(self, value: AttributeValue) -> int | None:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return int(value) if whole and self.least <= int(value) <= self.most else None

    def number(self, value: AttributeValue) -> int:
        return int(value)

    def value_of(self, number: Number) -> int | None:
        return self.checked(number)

    def macro(self, value: AttributeValue) -> str:
        return str(value)

    def size(self, value: AttributeValue) -> int | None:
        return int(value)

    def text(self, value: AttributeValue) -> str:
        return str(value)


@dataclass(frozen=True)
class FloatAttribute:
    """Declare a finite float32 from ``least`` to ``most``, as the epsilon of a normalisation.

    ``examples`` are values to check with; the first one is the default. A value is rounded to float32, as ONNX stores
    it; the macro is that number exactly, as a hexadecimal literal.
    """

    name: str
    examples: tuple[float, ...]
    doc: str
    least: float = -_FLOAT32_MAX
    most: float = _FLOAT32_MAX

    type_name = "float"

    @property
    def allowed(self) -> str:
        return f"a finite number from {self.least:.9g} to {self.most:.9g}"

    def problems(self) -> Iterator[str]:
        yield from _example_problems(self)

    def checked(self, value: AttributeValue) -> float | None:
        least, most = _float32(self.least), _float32(self.most)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or least is None or most is None:
            return None
        rounded = _float32(value)
        return rounded if rounded is not None and least <= rounded <= most else None

    def number(self, value: AttributeValue) -> float:
        return float(value)

    def value_of(self, number: Number) -> float | None:
        return self.checked(number)

    def macro(self, value: AttributeValue) -> str:
        return f"{float(value).hex()}f"

    def size(self, value: AttributeValue) -> None:
        return None

    def text(self, value: AttributeValue) -> str:
        """Return the shortest decimal number that is this one in float32."""
        texts = (f"{float(value):.{digits}g}" for digits in range(1, 10))
        return next(text for text in texts if _float32(float(text)) == value)


AnyAttribute: TypeAlias = Attribute | IntegerAttribute | FloatAttribute


def chosen_values(kernel: Kernel, given: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    """Return the value of every attribute in declared order; those that are not given have their default.

    Raises:
        LenetTrtError: the kernel has no such attribute, or the attribute cannot have that value.
    """
    declared = {attribute.name: attribute for attribute in kernel.attributes}
    unknown = given.keys() - declared.keys()
    if unknown:
        known = ", ".join(declared) or "none"
        raise LenetTrtError(f"{kernel.name} has no attribute {', '.join(sorted(unknown))}; it has {known}")
    values: dict[str, AttributeValue] = {}
    for name, attribute in declared.items():
        asked = given.get(name, attribute.examples[0])
        value = attribute.checked(asked)
        if value is None:
            raise LenetTrtError(f"{kernel.name}: {name} is {asked!r}; it can be {attribute.allowed}")
        values[name] = value
    return values


def stored_values(kernel: Kernel, numbers: Mapping[str, Number | None]) -> dict[str, AttributeValue]:
    """Return the values that the numbers of a plugin node, or of an engine, stand for; without those that are missing.

    Raises:
        LenetTrtError: a number stands for no value of its attribute.
    """
    values: dict[str, AttributeValue] = {}
    for attribute in kernel.attributes:
        number = numbers.get(attribute.name)
        if number is None:
            continue
        value = attribute.value_of(number)
        if value is None:
            raise LenetTrtError(
                f"{kernel.name}: the attribute {attribute.name} is {number}, which is none of its values "
                f"({attribute.allowed}): fuse the model again"
            )
        values[attribute.name] = value
    return values


def attribute_sizes(kernel: Kernel, values: Mapping[str, AttributeValue]) -> dict[str, int]:
    """Return the attributes that a ``Dim`` may name, with their sizes."""
    sizes = {attribute.name: attribute.size(values[attribute.name]) for attribute in kernel.attributes}
    return {name: size for name, size in sizes.items() if size is not None}


def _example_problems(attribute: IntegerAttribute | FloatAttribute) -> Iterator[str]:
    if not attribute.examples:
        yield f"attribute {attribute.name} has no examples"
    for value in attribute.examples:
        if attribute.checked(value) is None:
            yield f"attribute {attribute.name} has the example {value}; it can be {attribute.allowed}"


def _float32(value: float) -> float | None:
    """Round to float32; None for what is not finite there. Zero has no sign, since equal values are one kernel."""
    try:
        rounded = float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return None
    return rounded + 0.0 if abs(rounded) <= _FLOAT32_MAX else None
