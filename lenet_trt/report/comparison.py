"""Show two runs beside each other, before and after, and what an optimisation tried."""

from __future__ import annotations

from collections.abc import Sequence

from lenet_trt.draw.elements import Markup, element, node_code
from lenet_trt.draw.text import share_text, time_text, us_text
from lenet_trt.report.content import Change, Content, change_verdict
from lenet_trt.report.figures import stacked_bar
from lenet_trt.report.grids import Cell, GridColumn, grid
from lenet_trt.report.sections import section


def comparison_section(content: Content) -> Markup | None:
    """Make the section on what changed; return None where there is nothing to compare with."""
    before = content.before
    if before is None:
        return None
    old, new = before.ledger, content.run.ledger
    longest = max(old.end_to_end_us, new.end_to_end_us)
    return section(
        "comparison",
        "Before and after",
        element("p", change_verdict(content)),
        element("h3", f"Before: {before.label}, {time_text(old.end_to_end_us)}"),
        stacked_bar(old, "Before", longest),
        element("h3", f"After: {content.run.label}, {time_text(new.end_to_end_us)}"),
        stacked_bar(new, "After", longest),
        _changes("Terms before and after", "Term", content.term_changes()),
        element("h3", "By node"),
        _changes("Nodes before and after", "Node", content.node_changes(), nodes=True),
        _warning(content),
    )


def _changes(caption: str, first: str, changes: Sequence[Change], nodes: bool = False) -> Markup:
    columns = [
        GridColumn(first, head=True, name=nodes),
        GridColumn("Before (\u00b5s)", True),
        GridColumn("Now (\u00b5s)", True),
    ]
    columns += [GridColumn("Difference", True), GridColumn("Change", True)]
    rows = []
    for change in changes:
        colour = "better" if change.difference_us < 0 else "worse" if change.difference_us > 0 else None
        share = change.difference_us / change.before_us if change.before_us else None
        rows.append(
            [
                Cell(node_code(change.name) if nodes else change.name),
                Cell(us_text(change.before_us), change.before_us),
                Cell(us_text(change.now_us), change.now_us),
                Cell(
                    element("span", time_text(change.difference_us, signed=True), class_=colour), change.difference_us
                ),
                Cell(_share(share), share),
            ]
        )
    if nodes:
        return grid(caption, columns, rows)
    return grid(caption, columns, rows[:-1], total=rows[-1])


def _share(share: float | None) -> str:
    return "new" if share is None else ("+" if share > 0 else "") + share_text(share).replace("-", "\u2212")


def _warning(content: Content) -> Markup | None:
    """Warn where two runs differ in more than the model, so that their times do not compare."""
    assert content.before is not None
    old, new = content.before.timeline, content.run.timeline
    pairs = {
        "GPU": (old.environment.get("gpu"), new.environment.get("gpu")),
        "driver": (old.environment.get("driver"), new.environment.get("driver")),
        "runtime": (old.runtime, new.runtime),
        "sizes": (dict(old.sizes), dict(new.sizes)),
    }
    differ = [name for name, (then, now) in pairs.items() if then != now]
    if not differ:
        return None
    return element("p", f"The runs also differ in: {', '.join(differ)}.", class_="note")
