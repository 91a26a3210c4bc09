"""Build HTML and SVG elements from Python values: text is escaped unless an element of this module made it."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable

from lenet_trt.draw.text import short, visible

_LONGEST_NODE_NAME = 110

_VOID = {"br", "meta", "link", "input", "wbr", "hr", "col", "img"}


class Markup(str):
    """Mark text that is markup already."""

    __slots__ = ()


def element(tag: str, /, *children: object, **attributes: object) -> Markup:
    """Return one element; an attribute None or False is left out, True has no value, and ``_`` in a name becomes ``-``.

    A leading or trailing ``_`` is dropped, so that ``class_`` and ``for_`` can be written.
    """
    said = "".join(_attribute(name.strip("_").replace("_", "-"), value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{joined_markup(children)}</{tag}>")


def joined_markup(children: Iterable[object]) -> Markup:
    """Join children: markup stays as it is, other values become visible, escaped text."""
    return Markup("".join(map(_child, children)))


def node_code(name: str) -> Markup:
    """Show a node's name as code; a long name is shown by its ends, and whole under the pointer."""
    shown = short(name, _LONGEST_NODE_NAME)
    return element("code", shown, title=None if shown == visible(name) else visible(name))


def kernel_name(name: str, whole: str) -> Markup:
    """Show a kernel's short name; the whole name replaces it when the reader asks for it."""
    told = short(name, _LONGEST_NODE_NAME)
    if told == visible(whole):
        return element("span", told, class_="kernel-name")
    return joined_markup(
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
        return joined_markup(child)
    return html.escape(str(child))


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(visible(value, sys.maxsize))}"'
