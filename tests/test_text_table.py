"""Tables in text: columns line up, and Markdown has a mark for each column."""

from __future__ import annotations

from lenet_trt.text_table import aligned, markdown_table


def test_columns_line_up_at_the_side_that_they_are_set_to() -> None:
    rows = [("node", "us"), ("a", "1,234.5"), ("longer", "7")]
    assert aligned(rows, left=(0,)) == ["node         us", "a       1,234.5", "longer        7"]
    assert aligned(rows, left=(0, 1)) == ["node    us", "a       1,234.5", "longer  7"]
    assert aligned(rows)[1] == "     a  1,234.5"


def test_a_short_row_widens_only_its_own_columns() -> None:
    assert aligned([("a", "b", "c"), ("name",)], left=(0,)) == ["a     b  c", "name"]
    assert aligned([]) == []
    assert aligned([("long", "b"), ("a",)], (0,), ["", "why"]) == ["long  b", "a     why"]


def test_markdown_marks_each_column() -> None:
    assert markdown_table(("n", "us"), [("a", "1")], right=(1,)) == ["| n | us |", "| --- | ---: |", "| a | 1 |"]
    assert markdown_table(("n",), []) == ["| n |", "| --- |"]
