"""Tell from a kernel's PTX whether it may be launched before the kernel in front of it has ended.

Such a kernel waits for that one before it touches what that one may have written. Weights are written by no kernel, and
may be read before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

_COMMENT = re.compile(r"//[^\n]*")
# A label, an instruction, or a directive; braces around a few of them are passed over.
_STATEMENT = re.compile(
    r"[\s{}]*(?:(?P<label>[$\w]+):(?!:)|(?P<predicate>@!?[%\w]+\s+)?(?P<name>[a-z][\w.:]*)(?P<operands>[^;]*);|\.[^;\n]*[;\n])"
)
_WORD = re.compile(r"[%$A-Za-z_][%$\w]*")
_PARAMETER = re.compile(r"\w+_param_\d+")
_TOUCHES_MEMORY = re.compile(
    r"(?:ldu?|st|atom|red|multimem|cp|prefetchu?|discard|applypriority|tex|tld4|su(?:ld|st|red)|call)\b"
    r"(?!\.(?:param|shared|tensormap)\b)(?!\.async\.(?:commit|wait|mbarrier))"
)
_READS_MEMORY = re.compile(r"ld\b|cp\.async\.(?:c[ag]\.shared\.global|bulk\.shared(?:::\w+)?\.global)\b")
_ENDS = re.compile(r"(?:ret|exit|trap|brx)\b")


class _Instruction(NamedTuple):
    predicated: bool
    name: str
    operands: str


def waits_before_memory(ptx: str, constants: Collection[str] = ()) -> bool:
    """Return whether a function always waits for the kernel before it, and touches no memory before that.

    ``ptx``: the body of the function. Its parameters and the block's own shared memory do not count. ``constants``: the
    names of parameters that point to weights; memory at addresses that come from these, and from no other pointer, may
    be read at any time.
    """
    parsed = _parsed(_COMMENT.sub("", ptx))
    if parsed is None:
        return False
    instructions, labels = parsed
    pointers = _pointers(instructions)
    todo, seen = [0], set[int]()
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        if at == len(instructions):
            return False  # a thread ends that has not waited
        predicated, name, operands = instructions[at]
        if name == "griddepcontrol.wait" and not predicated:
            continue
        if _ENDS.match(name):
            return False
        if _TOUCHES_MEMORY.match(name):
            used = set[str]().union(*(pointers[word] for word in _WORD.findall(operands)))
            if not (_READS_MEMORY.match(name) and used and used <= set(constants)):
                return False
        is_branch = name.split(".")[0] == "bra"
        if is_branch:
            # Several pieces of inline assembly may have labels of one name: each of them counts.
            todo += labels.get(operands.strip(), [len(instructions)])
        if predicated or not is_branch:
            todo.append(at + 1)
    return True


def _parsed(ptx: str) -> tuple[list[_Instruction], dict[str, list[int]]] | None:
    """Return the instructions, and for each label the numbers of those behind it; None for text that is neither."""
    instructions: list[_Instruction] = []
    labels = defaultdict[str, list[int]](list)
    at, end = 0, len(ptx.rstrip("{} \t\n"))
    while at < end:
        found = _STATEMENT.match(ptx, at)
        if found is None:
            return None
        at = found.end()
        if found["label"]:
            labels[found["label"]].append(len(instructions))
        elif found["name"]:
            instructions.append(_Instruction(bool(found["predicate"]), found["name"], found["operands"]))
    return instructions, labels


def _pointers(instructions: list[_Instruction]) -> dict[str, set[str]]:
    """Return for each register the parameters of 64 bits that its value may come from, in whatever order code runs."""
    pointers = defaultdict[str, set[str]](set)
    moves: list[tuple[list[str], list[str]]] = []
    for _, name, operands in instructions:
        if operands.lstrip().startswith("["):
            continue  # it stores
        first, _, others = operands.partition("}" if operands.lstrip().startswith("{") else ",")
        results, sources = _WORD.findall(first), _WORD.findall(others)
        if not (name.startswith("ld.param") and "64" not in name):
            for source in filter(_PARAMETER.fullmatch, sources):
                pointers[source] = {source}
        moves.append((results, sources))
    changed = True
    while changed:
        changed = False
        for results, sources in moves:
            found = set[str]().union(*(pointers[source] for source in sources))
            for result in results:
                if not found <= pointers[result]:
                    pointers[result] |= found
                    changed = True
    return pointers
