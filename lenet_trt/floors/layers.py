"""Find the model's nodes for which a traced name stands, and their work together.

An engine's layer may hold several nodes, and its name joins their names: ``conv1 + relu1``, ``PWN(relu1)``,
``{ForeignNode[fc1...fc3]}``. Source: layer names that TensorRT 8 to 11 print at detailed verbosity.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from lenet_trt.floors.floor import Ceilings, Work, arithmetic_us, memory_us
from lenet_trt.tensorrt.layers import is_reformat_layer

if TYPE_CHECKING:
    from lenet_trt.floors.work import NodeWork

_RANGE = re.compile(r"ForeignNode\[(.+?)\.\.\.(.+?)\]")
# TensorRT adds these to names: PWN(a), and marks for layers of its compiler and of profiles after the first.
_WRAPPERS = re.compile(r"^(?:PWN|CONV|GEMM|SCALE)?\(")
_SUFFIX = re.compile(r" \[profile \d+\]$")
_BETWEEN = re.compile(r" \+ | \|\| |, |(?<=\))\+(?=\()")


def members(name: str, nodes: Sequence[NodeWork]) -> tuple[NodeWork, ...]:
    """Return the nodes for which a node or layer of the trace stands, in the model's order; none if it names none."""
    by_name = {entry.node: entry for entry in nodes}
    if name in by_name:
        return (by_name[name],)
    if is_reformat_layer(name):
        return ()
    name = _SUFFIX.sub("", name)
    order = {entry.node: position for position, entry in enumerate(nodes)}
    found: set[str] = set()
    for first, last in _RANGE.findall(name):
        ends = [[order[each] for each in _names(end, by_name)] for end in (first, last)]
        if all(ends):
            low, high = min(map(min, ends)), max(map(max, ends))
            found |= {entry.node for entry in nodes[low : high + 1]}
        else:
            found |= {nodes[at].node for end in ends for at in end}
    found.update(_names(_RANGE.sub("", name), by_name))
    return tuple(entry for entry in nodes if entry.node in found)


def _names(text: str, known: Container[str]) -> list[str]:
    """Return the known names in a text that joins several names."""
    return [name for part in _BETWEEN.split(text) if (name := _unwrapped(part, known))]


def _unwrapped(part: str, known: Container[str]) -> str:
    """Return the known name in ``PWN(PWN(name)`` or ``name))``: strip brackets until a name is left; "" for none."""
    bare = part.strip(" {}[]")
    while bare not in known:
        inside = _WRAPPERS.sub("", bare)
        if inside == bare:
            inside = bare.removesuffix(")")
        if inside == bare:
            return ""
        bare = inside
    return bare


def together(nodes: Sequence[NodeWork]) -> Work:
    """Combine the work of nodes that run as one kernel: tensors between them do not go through memory.

    The result is exact for a chain in which each node reads the whole output of the node before. Where a result is also
    needed elsewhere, it is less than the real work, so that no floor is too high.
    """

    def join(before: Work, after: Work) -> Work:
        handed_on = min(before.written_bytes, after.read_bytes)
        return Work(before.read_bytes + after.read_bytes - handed_on, after.written_bytes, before.flops + after.flops)

    return reduce(join, (entry.work for entry in nodes))


def floor_of(nodes: Sequence[NodeWork], ceilings: Ceilings) -> float:
    """Return the least time for the nodes as one kernel, without a launch: the longer of memory and arithmetic."""
    arithmetic = sum(arithmetic_us(entry.work, entry.arithmetic, ceilings) for entry in nodes)
    return max(memory_us(together(nodes), ceilings), arithmetic)
