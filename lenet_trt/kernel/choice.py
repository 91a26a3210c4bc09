"""Define a tuned choice: the variant that was the fastest on a GPU, for the sizes around those that were timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lenet_trt.kernel.attributes import AttributeValue
from lenet_trt.kernel.dims import AxisValue, Condition
from lenet_trt.schema import Count


@dataclass(frozen=True)
class TunedChoice:
    """Hold a variant that replaces the declared choice.

    It counts for calls with these types and attributes whose axis ``free`` is from ``least`` to ``most`` and whose
    other axes have the sizes in ``axes``. Where the variant cannot run a call, the choice is passed over.
    """

    types: str
    attributes: Mapping[str, AttributeValue]
    axes: Mapping[str, Count]
    free: str
    least: Count
    most: Count
    variant: str

    @property
    def condition(self) -> Condition:
        """Return the sizes for which it counts, as conditions of a declaration are."""
        free = AxisValue(self.free)
        result = (free >= self.least) & (free <= self.most)
        for name, size in self.axes.items():
            result = AxisValue(name).equals(size) & result
        return result

    def is_for(self, types: str, attributes: Mapping[str, AttributeValue]) -> bool:
        """Return whether it is for calls with these types and attributes."""
        return self.types == types and all(attributes.get(name) == value for name, value in self.attributes.items())
