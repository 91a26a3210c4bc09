"""List the calls that ``tune`` times: for each declared example a ladder of calls that differ in one axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.attributes import AttributeValue
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.tensors import Types
from lenet_trt.kernel.variants import Variant
from lenet_trt.kernel.examples import bounds

STEP = 4
# A larger call says nothing new: the GPU is full, and tuning would take long.
MOST_BYTES = 1 << 27
MOST_FLOPS = 1 << 37
_MOST_RUNGS = 16


@dataclass(frozen=True, eq=False)
class Ladder:
    """Hold calls of a kernel that differ in the axis ``free`` alone, from small to large."""

    free: str
    rungs: tuple[Bound, ...]

    @property
    def kernel(self) -> Kernel:
        return self.rungs[0].kernel

    @property
    def types(self) -> Types:
        return self.rungs[0].types

    @cached_property
    def fixed(self) -> Mapping[str, int]:
        """Return the sizes of the other axes."""
        return {name: size for name, size in self.rungs[0].axes.items() if name != self.free}

    @cached_property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """Return the attributes on which a choice may depend: a real number changes no sizes and no instructions."""
        values = self.rungs[0].attributes
        return {a.name: values[a.name] for a in self.kernel.attributes if a.type_name != "float"}

    def call(self, size: int) -> Bound:
        """Return the call with that size of the free axis."""
        return self.kernel.bind_axes({**self.fixed, self.free: size}, self.types, self.rungs[0].attributes)

    def __str__(self) -> str:
        sizes = [f"{name}={size}" for name, size in self.fixed.items()]
        return " ".join((self.types.name, *sizes, *(f"{name}={value}" for name, value in self.attributes.items())))


def runnable(bound: Bound, sm: int) -> tuple[Variant, ...]:
    """Return the variants that can run the call on that architecture."""
    return tuple(v for v in bound.kernel.variants_for(sm, bound.types) if bound.fits(v))


def free_axis(kernel: Kernel) -> str | None:
    """Return the first axis whose size may differ in each call, such as the batch."""
    return next((axis.name for axis in kernel.axes if not axis.static), None)


def ladders(kernel: Kernel, sm: int) -> list[Ladder]:
    """Return the ladders of a kernel's examples on which there is something to choose, the largest examples first.

    The types take turns, so that a run that is cut short has timed all of them.
    """
    free = free_axis(kernel)
    if free is None:
        return []
    found: dict[tuple[object, ...], Bound] = {}
    for bound in bounds(kernel):
        key = (bound.types.name, bound.specialized.attributes, *((n, s) for n, s in bound.axes.items() if n != free))
        found.setdefault(key, bound)
    queues: dict[str, list[Bound]] = {}
    for bound in sorted(found.values(), key=lambda each: -each.flops):
        queues.setdefault(bound.types.name, []).append(bound)
    order = [
        queue[i]
        for i in range(max(map(len, queues.values()), default=0))
        for queue in queues.values()
        if i < len(queue)
    ]
    made = (_ladder(free, bound, sm) for bound in order)
    return [ladder for ladder in made if ladder is not None]


def ladders_in_turns(all_ladders: Sequence[Sequence[Ladder]]) -> Iterator[Ladder]:
    """Yield the first ladder of each kernel, then the second of each, and so on."""
    for index in range(max(map(len, all_ladders), default=0)):
        yield from (each[index] for each in all_ladders if index < len(each))


def _ladder(free: str, example: Bound, sm: int) -> Ladder | None:
    """Return the ladder around an example, or None where at most one variant can run its calls."""
    rungs = []
    for exponent in range(_MOST_RUNGS):
        try:
            bound = example.kernel.bind_axes({**example.axes, free: STEP**exponent}, example.types, example.attributes)
            bound.check_size()
        except LenetTrtError:  # a size that the kernel says it is not for
            continue
        if bound.dram_bytes > MOST_BYTES or bound.flops > MOST_FLOPS:
            break
        if not bound.empty and len(runnable(bound, sm)) > 1:
            rungs.append(bound)
    return Ladder(free, tuple(rungs)) if rungs else None
