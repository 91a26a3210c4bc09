"""Tell from a kernel's PTX whether it may be launched before the kernel in front of it has ended.

Such a kernel waits for that one before it touches what that one may have written. Weights are written by no kernel, and
may be loaded, prefetched and copied in bulk before.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_NO_CODE = re.compile(r"//.*|^\s*\.(?:loc|file)\b.*", re.MULTILINE)
_LABEL = re.compile(r"(?:^|[;{}])\s*([$\w]+):(?!:)", re.MULTILINE)
# What may stand before an instruction, and the instruction: its predicate, its name, its operands.
_INSTRUCTION = re.compile(r"(?:[\s{}]|[$\w]+:(?!:))*(@\S+\s+)?([\w.:]*)\s*(.*)", re.DOTALL)
_WORD = re.compile(r"[%\w]+")
_LEAVES = re.compile(r"(?:ret|exit|trap|brx|call)\b")
_TOUCHES_MEMORY = re.compile(
    r"(?:ldu?|st|atom|red|multimem|cp|prefetchu?|discard|applypriority|tex|tld4|su(?:ld|st|red))\b"
    r"(?!\.(?:param|shared|tensormap)\b)"
)
_BULK_COPY = re.compile(r"cp\.async\.bulk\.shared::\w+\.global\.mbarrier\b")
_SOURCE = re.compile(r"\[[^]]*\],\s*\[(%\w+)\]")
_LOAD = re.compile(r"(?:ld|prefetch)\.global\b")
_ADDRESS = re.compile(r"\[(%\w+)(?:\+-?\d+)?\]")


def waits_before_memory(ptx: str, weights: Collection[str] = ()) -> bool:
    """Return whether a function always waits for the kernel before it, and touches no memory before that.

    ``ptx``: its body. Its parameters and the block's own shared memory do not count, nor does what is read at addresses
    that come from ``weights``, names of parameters, and from no other pointer. Every thread comes to the wait: what
    stands in front of it branches to nowhere else.
    """
    before, wait, _ = _NO_CODE.sub("", ptx).partition("griddepcontrol.wait;")
    labels = set(_LABEL.findall(before))
    read, moves = set[str](), []
    for statement in before.split(";"):
        predicate, name, operands = _INSTRUCTION.fullmatch(statement).groups()  # type: ignore[union-attr]  # always fits
        if not name and predicate:
            return False  # it waits where the predicate says so
        if _LEAVES.match(name) or (name.split(".")[0] == "bra" and operands.strip() not in labels):
            return False
        if (_BULK_COPY.match(name) and (source := _SOURCE.match(operands))) or (
            _LOAD.match(name) and (source := _ADDRESS.search(operands))
        ):
            read.add(source[1])
        elif _TOUCHES_MEMORY.match(name):
            return False
        elif not name.startswith("ld.param") or "64" in name:  # smaller ones are no pointers
            results, _, sources = operands.partition("}" if operands.startswith("{") else ",")
            moves.append((set(_WORD.findall(results)), set(_WORD.findall(sources))))
    return bool(wait) and all(_pointers(address, moves) <= set(weights) for address in read)


def _pointers(register: str, moves: list[tuple[set[str], set[str]]]) -> set[str]:
    """Return the parameters that a register's value may come from, in whatever order code runs.

    A register that comes from none stands for itself: nobody knows where it points.
    """
    found, todo = set[str](), {register}
    while todo:
        found |= todo
        todo = set[str]().union(*(sources for results, sources in moves if results & todo)) - found
    return {word for word in found if re.search(r"_param_\d+$", word)} or {register}
