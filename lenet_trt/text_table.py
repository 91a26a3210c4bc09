"""Write tables as text: with columns of equal width for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (), notes: Sequence[str] = ()) -> list[str]:
    """Write rows with columns of equal width; those in ``left`` begin at the left, the others end at the right.

    A row may have fewer cells than others; ``notes``, one a row, stand after the row's last cell.
    """
    count = max(map(len, rows), default=0)
    widths = [max(len(row[column]) for row in rows if column < len(row)) for column in range(count)]
    padded = [[_padded(cell, widths[at], at in left) for at, cell in enumerate(row)] for row in rows]
    return ["  ".join([*row, note]).rstrip() for row, note in zip(padded, notes or [""] * len(rows), strict=True)]


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Write a table as lines of Markdown; columns in ``right`` end at the right. Cells are taken as they are."""
    marks = ["---:" if column in right else "---" for column in range(len(heads))]
    return [f"| {' | '.join(row)} |" for row in (heads, marks, *rows)]


def _padded(cell: str, width: int, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)
