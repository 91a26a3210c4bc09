"""Make tables of the page: a caption, headings with their scope, and numbers by which the page's script can sort."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lenet_trt.draw.elements import Markup, element


@dataclass(frozen=True)
class Cell:
    """Hold what a cell shows, and the number by which it is sorted (None: by its text)."""

    shown: object
    number: float | None = None


@dataclass(frozen=True)
class GridColumn:
    """Define a column; a ``number`` column is set to the right, the ``head`` column names the row."""

    title: str
    number: bool = False
    head: bool = False
    name: bool = False


def grid(
    caption: object,
    columns: Sequence[GridColumn],
    rows: Iterable[Sequence[Cell]],
    *,
    total: Sequence[Cell] | None = None,
    sorted_by: int | None = None,
    sortable: bool = True,
    ident: str | None = None,
    wide: bool = False,
) -> Markup:
    """Make a table that scrolls sideways by itself where the page is narrow.

    ``sorted_by``: the column by which the rows are already sorted, largest first. ``total`` stays the last row.
    ``wide``: the column of names is wide.
    """
    heads = [
        element(
            "th",
            column.title,
            scope="col",
            class_=_class(column),
            aria_sort="descending" if place == sorted_by else None,
        )
        for place, column in enumerate(columns)
    ]
    body = [element("tr", [_cell(*pair) for pair in zip(columns, row, strict=True)]) for row in rows]
    if total is not None:
        body.append(element("tr", [_cell(*pair) for pair in zip(columns, total, strict=True)], class_="sum"))
    names = " ".join(name for name, on in (("sortable", sortable), ("wide", wide)) if on)
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", heads)),
        element("tbody", body),
        class_=names or None,
        id=ident,
    )
    # A part that scrolls must be reachable with the keyboard, so it needs a label.
    return element("div", table, class_="scroll", tabindex=0, role="group", aria_label=_plain(caption))


def _cell(column: GridColumn, cell: Cell) -> Markup:
    number = None if cell.number is None else f"{cell.number:.6g}"
    if number is None and column.number:
        number = ""
    tag = "th" if column.head else "td"
    return element(tag, cell.shown, scope="row" if column.head else None, class_=_class(column), data_v=number)


def _class(column: GridColumn) -> str | None:
    return " ".join(name for name, on in (("number", column.number), ("name", column.name)) if on) or None


def _plain(caption: object) -> str:
    text = str(caption)
    return text.split(":")[0].split(".")[0] if not isinstance(caption, Markup) else "Table"
