"""Shorten C++ names of kernels for people: demangled, without return type, arguments and long template arguments."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from lenet_trt.trace.demangle import demangled

# The width of a name's column in text tables.
TABLE_WIDTH = 72
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|_GLOBAL__N__[0-9a-zA-Z_]*::")
_LAMBDA = re.compile(r"\{lambda\([^{}]*\)#\d+\}(?:::operator\(\)(?:\([^()]*\))?(?: const)?)?")
_CLONE = re.compile(r"\s*(?:\[clone [^\]]*\]|\.(?:kernel|constprop|isra|part)\.\d+)$")
_CAST = re.compile(r"^\((?:unsigned )?(?:int|bool|long|short|char|\w+::\w+)\)")
_MOST_ARGUMENT = 12
_BOOL = re.compile(r"^\(bool\)([01])$")
# Names that torch puts around the function that a kernel applies to each element.
_WRAPPERS = ("gpu_kernel_impl", "gpu_kernel_impl_nocast", "BinaryFunctor", "BUnaryFunctor", "AUnaryFunctor")
_CONTAINERS = ("array", "tuple", "pair")


def short_name(name: str, width: int | None = None) -> str:
    """Shorten a name so that it fits into a table: ``at::native::elementwise_kernel<128, 4, ...>``.

    Short template arguments stay, such as numbers and simple types. Of the first long one its own name stays, which
    often says what the kernel computes; three dots replace the rest. A name that is no C++ declaration stays as it is.
    With ``width``, a longer result is cut.
    """
    text = _for_people(name)
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


@lru_cache(maxsize=8192)
def _for_people(name: str) -> str:
    plain = _CLONE.sub("", demangled(name)).strip()
    if plain.startswith("["):  # nvprof's names of copies
        return plain
    plain = _LAMBDA.sub("lambda", _ANONYMOUS.sub("", plain))
    declared = _without_arguments(plain)
    parts = _template(declared)
    if parts is None:
        return declared or name
    before, arguments, after = parts
    return f"{_without_return_type(before)}<{', '.join(_shortened(arguments))}>{after}"


def _shortened(arguments: list[str]) -> list[str]:
    kept = []
    for number, argument in enumerate(arguments):
        argument = _BOOL.sub(lambda found: "true" if found[1] == "1" else "false", argument)
        argument = _CAST.sub("", argument)
        if len(argument) <= _MOST_ARGUMENT and "<" not in argument:
            kept.append(argument)
            continue
        kept.append(_own_name(argument) or "...")
        if number + 1 < len(arguments) and kept[-1] != "...":
            kept.append("...")
        break
    return kept


def _own_name(argument: str) -> str:
    """Return the name of a long argument without its namespace; of a wrapper, the name of what it wraps."""
    argument = argument.removeprefix("void ")
    name, mark, inner = re.split(r"([(<\[{ ]|$)", argument, maxsplit=1)
    name = name.rpartition("::")[2]
    if name in _WRAPPERS and mark == "<":
        return _own_name(inner)
    return "" if name in _CONTAINERS else name


def _without_arguments(text: str) -> str:
    """Cut off the list of parameters: the last bracket that opens outside all others, if the name ends with it."""
    text = re.sub(r"\) const$", ")", text)
    if not text.endswith(")"):
        return _without_return_type(text)
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        if text[at] == ")":
            depth += 1
        elif text[at] == "(":
            depth -= 1
            if depth == 0:
                # "layer (x)" or "Conv(a)" are names that somebody gave; C++ has its type, or a template, before.
                name = text[:at]
                cplusplus = "::" in name or name.endswith(">") or name.startswith("void ") or text[at:] == "()"
                return _without_return_type(name) if cplusplus or _is_parameters(text[at:]) else text
    return text


def _is_parameters(text: str) -> bool:
    """Say whether a bracket holds types: pointers or usual types."""
    return bool(re.search(r"[*&]|\b(?:int|float|double|long|unsigned|char|bool|__half|half)\b", text))


def _without_return_type(text: str) -> str:
    """Return what follows the last space outside of angle brackets: ``name`` of ``void name``."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        if text[at] in ">)":
            depth += 1
        elif text[at] in "<(":
            depth -= 1
        elif text[at] == " " and depth == 0:
            before = text[:at]
            is_type = before in ("void", "static void") or before.endswith("::type")
            return text[at + 1 :] if is_type else text
    return text


def _template(text: str) -> tuple[str, list[str], str] | None:
    """Return the name, the arguments of its last template, and the rest; None where there is no template."""
    if not text.endswith(">") or "<" not in text:
        return None
    depth = 0
    commas: list[int] = []
    for at in range(len(text) - 1, -1, -1):
        mark = text[at]
        if mark in ">)]}" and not (mark == ">" and text[at - 1] in "-="):
            depth += 1
        elif mark in "<([{":
            depth -= 1
            if depth == 0:
                edges = [at, *reversed(commas), len(text) - 1]
                arguments = [text[a + 1 : b].strip() for a, b in pairwise(edges)]
                return text[:at], arguments, ""
        elif mark == "," and depth == 1:
            commas.append(at)
    return None
