"""Which of a model's nodes a traced name stands for, and what they have to do together.

An engine's layer may hold several nodes and is named after them: ``conv1 + relu1``, ``PWN(relu1)``,
``{ForeignNode[fc1...fc3]}``. Source: layer names that TensorRT 8 to 11 print at detailed verbosity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from lenet_trt.floors.floor import Ceilings, Work, arithmetic_us, memory_us

if TYPE_CHECKING:
    from lenet_trt.floors.work import NodeWork

_RANGE = re.compile(r"ForeignNode\[(.+?)\.\.\.(.+?)\]")
_WRAPPED = re.compile(r"^(?:PWN|CONV|GEMM|SCALE)?\((.*)\)$")


def members(name: str, nodes: Sequence[NodeWork]) -> tuple[NodeWork, ...]:
    """The nodes that a node or layer of the trace stands for, in the model's order; none where it names none."""
    by_name = {entry.node: entry for entry in nodes}
    if name in by_name:
        return (by_name[name],)
    if name.startswith("Reformatting CopyNode"):
        return ()
    order = {entry.node: position for position, entry in enumerate(nodes)}
    found: set[str] = set()
    for first, last in _RANGE.findall(name):
        if first in order and last in order:
            low, high = sorted((order[first], order[last]))
            found |= {entry.node for entry in nodes[low : high + 1]}
    rest = _RANGE.sub("", name)
    for part in re.split(r" \+ |, |(?<=\))\+(?=\()", rest):
        bare = part.strip(" {}[]")
        while bare not in by_name and (inside := _WRAPPED.match(bare)):
            bare = inside[1].strip()
        if bare in by_name:
            found.add(bare)
    return tuple(entry for entry in nodes if entry.node in found)


def together(nodes: Sequence[NodeWork]) -> Work:
    """The work of nodes that run as one: what one hands to the next never goes through memory.

    Exact for a chain in which each node reads the whole output of the one before; less than the truth (so that no
    floor is too high) where a result is also needed elsewhere.
    """

    def join(before: Work, after: Work) -> Work:
        handed_on = min(before.written_bytes, after.read_bytes)
        return Work(before.read_bytes + after.read_bytes - handed_on, after.written_bytes, before.flops + after.flops)

    return reduce(join, (entry.work for entry in nodes))


def floor_of(nodes: Sequence[NodeWork], ceilings: Ceilings) -> float:
    """The least time for the nodes as one kernel, without a launch: the longer of memory and arithmetic."""
    arithmetic = sum(arithmetic_us(entry.work, entry.arithmetic, ceilings) for entry in nodes)
    return max(memory_us(together(nodes), ceilings), arithmetic)
