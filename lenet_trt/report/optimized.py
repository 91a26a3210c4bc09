"""Show what an optimisation tried, kept and gave up, from the record that lenet-trt optimize writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lenet_trt.draw.elements import Markup, element
from lenet_trt.draw.text import us_text
from lenet_trt.optimize.markdown import optimize_headline
from lenet_trt.optimize.words import trial_text
from lenet_trt.report.grids import Cell, GridColumn, grid
from lenet_trt.report.sections import section


def optimized_section(record: Mapping[str, Any] | None) -> Markup | None:
    """Make the section on an optimisation; return None where there was none."""
    if record is None:
        return None
    lines, said = summary(record)
    tried = [_tried(outcome) for outcome in record["batches"]]
    return section(
        "optimize",
        "Optimisation",
        element("ul", [element("li", line) for line in lines]),
        tried,
        element("pre", element("code", record["command"])),
        says=said,
    )


def summary(record: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return what was chosen, a line for each batch size, and how it was measured."""
    said = f"Measured on {record['environment'].get('gpu') or record['where']}: {record['how']}."
    return optimize_headline(record), said


def _tried(outcome: Mapping[str, Any]) -> Markup | None:
    if not outcome["trials"]:
        return None
    columns = [GridColumn("Candidate", head=True, name=True), GridColumn("Promised (\u00b5s)", True)]
    columns += [
        GridColumn("Without (\u00b5s)", True),
        GridColumn("With (\u00b5s)", True),
        GridColumn("Verdict", name=True),
    ]
    rows = []
    for trial in outcome["trials"]:
        old, new = (_median(trial[side]) for side in ("old", "new"))
        verdict = ("kept: " if trial["kept"] else "not kept: ") + str(trial["reason"])
        rows.append(
            [
                Cell(trial_text(trial)),
                Cell(us_text(trial["promise_us"]), trial["promise_us"]),
                Cell(us_text(old), old),
                Cell(us_text(new), new),
                Cell(verdict),
            ]
        )
    batch = outcome["batch"]
    return grid("Tried" if batch is None else f"Tried at batch {batch}", columns, rows)


def _median(stats: Mapping[str, Any] | None) -> float | None:
    return None if stats is None else float(stats["median_us"])
