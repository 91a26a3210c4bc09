"""HTML and SVG elements from Python values: text is escaped unless an element of ours made it."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable

from lenet_trt.draw.text import short, visible

_LONGEST_NODE_NAME = 110

_VOID = {"br", "meta", "link", "input", "wbr", "hr", "col", "img"}


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, /, *children: object, **attributes: object) -> Markup:
    """One element; an attribute of None or False is left out, True has no value, ``_`` in names is written ``-``.

    A leading or trailing ``_`` is dropped, so that ``class_`` and ``for_`` can be said.
    """
    said = "".join(_attribute(name.strip("_").replace("_", "-"), value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{joined(children)}</{tag}>")


def joined(children: Iterable[object]) -> Markup:
    """Children one after another: markup as it is, other values as visible, escaped text."""
    return Markup("".join(map(_child, children)))


def node_code(name: str) -> Markup:
    """A node's name as code; one that is too long for a table is shown by its ends, and whole when pointed at."""
    shown = short(name, _LONGEST_NODE_NAME)
    return element("code", shown, title=None if shown == visible(name) else visible(name))


def kernel_name(name: str, whole: str) -> Markup:
    """A kernel's short name; the whole one takes its place where the reader asks for it."""
    told = short(name, _LONGEST_NODE_NAME)
    if told == visible(whole):
        return element("span", told, class_="kernel-name")
    return joined(
        [
            element("span", told, class_="kernel-name in-short", title=visible(whole)),
            element("span", whole, class_="kernel-name in-full"),
        ]
    )


def _child(child: object) -> str:
    if child is None or child is False:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return html.escape(visible(child))
    if isinstance(child, Iterable):
        return joined(child)
    return html.escape(str(child))


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(visible(value, sys.maxsize))}"'
