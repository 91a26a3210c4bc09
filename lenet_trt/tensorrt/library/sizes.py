"""Which sizes of a plugin node are known when it is encoded, and where the others are read when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lenet_trt.kernel.bind import Specialized
from lenet_trt.kernel.dims import AxisValue, Condition, Dim
from lenet_trt.kernel.shapes import UNKNOWN, Shape


@dataclass(frozen=True)
class OpenAxis:
    """An axis whose size an input has: which input, and which of its dimensions."""

    name: str
    input: int
    dimension: int


@dataclass(frozen=True)
class KnownSizes:
    """The known sizes by name (axes and element sizes), and the axes that are open."""

    known: Mapping[str, int]
    open_axes: Mapping[str, OpenAxis]

    def substituted(self, dim: Dim) -> Dim:
        """The expression with the known sizes put in."""
        return dim.substitute(self.known)

    def decided(self, condition: Condition | None) -> bool | None:
        """Whether the condition holds, as far as the known sizes tell; None where that depends on open ones."""
        return True if condition is None else condition.decided(self.known)

    def simplified(self, condition: Condition | None) -> Condition | None:
        """The condition with the known sizes put in, without the comparisons that then hold."""
        result: Condition | None = None
        parts = () if condition is None else condition.substitute(self.known).comparisons
        for part in reversed([part for part in parts if part.decided({}) is not True]):
            result = part if result is None else part & result
        return result


def sizes_of(specialized: Specialized, input_shapes: Sequence[Shape]) -> KnownSizes:
    """Read off the shapes of the inputs (-1: unknown) which axes are known and where the others are."""
    known = dict(specialized.known_sizes)
    places: dict[str, OpenAxis] = {}
    for index, (tensor, shape) in enumerate(zip(specialized.kernel.inputs, input_shapes, strict=True)):
        for dimension, (declared, size) in enumerate(zip(tensor.shape, shape, strict=True)):
            if isinstance(declared, AxisValue):
                places.setdefault(declared.name, OpenAxis(declared.name, index, dimension))
                if size != UNKNOWN:
                    known[declared.name] = size
    return KnownSizes(known, {name: place for name, place in places.items() if name not in known})
