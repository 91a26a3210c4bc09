"""Describe a chart as data: series of values, axes and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Style: TypeAlias = Literal["line", "points", "dashed", "bars"]


@dataclass(frozen=True)
class Series:
    """Hold one series of a chart: ``y[i]`` at ``x[i]``; None in ``y`` is a gap.

    ``emphasis``: draw it stronger, because the picture is about it. For bars, ``x`` are names; series of the same
    ``group`` are stacked, others stand side by side. ``texts`` stand at the bars' ends, or beside the points. ``low``
    and ``high``: an interval around each y.
    """

    label: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float | None]
    style: Style = "line"
    emphasis: bool = False
    group: str = ""
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    texts: Sequence[str] = ()


@dataclass(frozen=True)
class Chart:
    """Hold one panel. ``notes`` stand below it. ``horizontal``: bars grow to the right, their names stand at the left.

    ``limit``: a name and a value on the axis of values, drawn as a line across the bars. ``x_base``: the base of a
    logarithmic x axis (batches are powers of two). ``named_at_ends``: the names of lines stand at their right ends
    instead of in the legend.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False
    notes: Sequence[str] = field(default_factory=tuple)
    horizontal: bool = False
    limit: tuple[str, float] | None = None
    x_base: int = 2
    named_at_ends: bool = False
