"""Read JSON as C++ streams write it: with unescaped names, control characters, ``nan`` and ``inf``."""

from __future__ import annotations

import json
import re
from typing import Any

_BLANK = " \t\r\n"
_OUTSIDE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\b(?:nan|inf)\b(?:\(ind\))?', re.DOTALL)
_KEY = re.compile(r'\s*"[^"\\]{1,64}"\s*:')
_UNICODE = re.compile(r"\\u[0-9a-fA-F]{4}")


def loads(text: str) -> Any:
    """Parse JSON; where names are not escaped, find where each string must end.

    In a string that needs repair, a backslash stands for itself, except before ``u`` and four digits.

    Raises:
        ValueError: the text is not JSON, even after repair; the message is about the text as it is.
    """
    try:
        return _parsed(text)
    except json.JSONDecodeError as error:
        for repair in (_numbers, _strings):
            try:
                return _parsed(repair(text))
            except json.JSONDecodeError:
                continue
        raise error


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, strict=False)  # strict=False allows control characters in strings
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None


def _numbers(text: str) -> str:
    return _OUTSIDE.sub(lambda found: found[0] if found[0].startswith('"') else _number(found[0]), text)


def _number(word: str) -> str:
    sign = "-" if word.startswith("-") and "inf" in word else ""
    return sign + ("Infinity" if "inf" in word else "NaN")


def _strings(text: str) -> str:
    """Write every string anew; a quotation mark ends a string only where JSON can continue after it."""
    made: list[str] = []
    inside: list[str] = []  # the brackets that are open
    at = 0
    is_key = False
    while at < len(text):
        mark = text[at]
        if mark == '"':
            end = _string_end(text, at + 1, inside[-1] if inside else "", is_key)
            made.append(_quoted(text[at + 1 : end]))
            at = end + 1
            continue
        word = re.compile(r"-?(?:nan|inf)\b(?:\(ind\))?").match(text, at)
        if word:
            made.append(_number(word[0]))
            at = word.end()
            continue
        if mark in "{[":
            inside.append(mark)
        elif mark in "}]" and inside:
            inside.pop()
        if mark in "{,":
            is_key = bool(inside) and inside[-1] == "{"
        elif mark == ":":
            is_key = False
        made.append(mark)
        at += 1
    return "".join(made)


def _string_end(text: str, start: int, inside: str, is_key: bool) -> int:
    at = text.find('"', start)
    while at >= 0:
        if _ends(text, at + 1, inside, is_key):
            return at
        at = text.find('"', at + 1)
    return len(text)  # the string never ends, so the result will not parse


def _ends(text: str, after: int, inside: str, is_key: bool) -> bool:
    after = _skip(text, after)
    if after == len(text):
        return True
    mark = text[after]
    if is_key:
        return mark == ":"
    if mark in "}]":
        closes = {"{": "}", "[": "]"}.get(inside) == mark
        after = _skip(text, after + 1)
        return closes and (after == len(text) or text[after] in ",}]")
    if mark != ",":
        return False
    if inside == "{":
        return _KEY.match(text, after + 1) is not None
    after = _skip(text, after + 1)
    return after < len(text) and (text[after] in '"{[-' or text[after].isalnum())


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _quoted(raw: str) -> str:
    codes = _UNICODE.findall(raw)
    parts = _UNICODE.split(raw)
    made = [json.dumps(parts[0])[1:-1]]
    for code, part in zip(codes, parts[1:], strict=True):
        made += [code, json.dumps(part)[1:-1]]
    return '"' + "".join(made) + '"'
