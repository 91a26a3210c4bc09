"""List the calls that ``tune`` times: for each declared example a ladder of calls that differ in one axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.attributes import AttributeValue
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.examples import bounds
from lenet_trt.kernel.tensors import Types

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


def free_axis(kernel: Kernel) -> str | None:
    """Return the first axis whose size may differ in each call, such as the batch."""
    return next((axis.name for axis in kernel.axes if not axis.static), None)


def ladders(kernel: Kernel, sm: int, calls: Iterable[Bound] | None = None) -> list[Ladder]:
    """Return the ladders around calls of a kernel on which there is something to choose, the largest calls first.

    ``calls``: those of a model, which are rungs themselves (None: the declared examples). The types take turns, so that
    a run that is cut short has timed all of them.
    """
    free = free_axis(kernel)
    if free is None:
        return []
    found: dict[tuple[object, ...], list[Bound]] = {}
    for bound in bounds(kernel) if calls is None else calls:
        key = (bound.types.name, bound.specialized.attributes, *((n, s) for n, s in bound.axes.items() if n != free))
        found.setdefault(key, []).append(bound)
    queues: dict[str, list[list[Bound]]] = {}
    for alike in sorted(found.values(), key=lambda each: -each[0].flops):
        queues.setdefault(alike[0].types.name, []).append(alike)
    order = [alike for turn in zip_longest(*queues.values()) for alike in turn if alike is not None]
    made = (_ladder(free, alike[0], alike if calls is not None else (), sm) for alike in order)
    return [ladder for ladder in made if ladder is not None]


def ladders_in_turns(all_ladders: Sequence[Sequence[Ladder]]) -> Iterator[Ladder]:
    """Yield the first ladder of each kernel, then the second of each, and so on."""
    for index in range(max(map(len, all_ladders), default=0)):
        yield from (each[index] for each in all_ladders if index < len(each))


def _ladder(free: str, example: Bound, own: Sequence[Bound], sm: int) -> Ladder | None:
    """Return the ladder around an example, or None where at most one variant can run its calls.

    The calls ``own`` are on it, however large they are.
    """
    sizes = {bound.axes[free] for bound in own}
    rungs = []
    for size in sorted(sizes | {STEP**exponent for exponent in range(_MOST_RUNGS)}):
        try:
            bound = example.kernel.bind_axes({**example.axes, free: size}, example.types, example.attributes)
            bound.check_size()
        except LenetTrtError:  # a size that the kernel says it is not for
            continue
        if size not in sizes and (bound.dram_bytes > MOST_BYTES or bound.flops > MOST_FLOPS):
            continue
        if not bound.empty and len(bound.runnable(sm)) > 1:
            rungs.append(bound)
    return Ladder(free, tuple(rungs)) if rungs else None
