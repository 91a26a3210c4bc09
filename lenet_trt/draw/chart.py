"""A chart as data: series of values, axes and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Style: TypeAlias = Literal["line", "points", "dashed", "bars"]


@dataclass(frozen=True)
class Series:
    """What belongs together in a chart: ``y[i]`` at ``x[i]``; None in ``y`` is a gap.

    ``emphasis`` draws it stronger: it is what the picture is about. Bars: ``x`` are names; series of the same
    ``group`` are stacked, others stand side by side; ``texts`` stand at the bars' ends, or beside the points. ``low``
    and ``high`` are an interval around each y.
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
    """One panel. ``notes`` stand below it. ``horizontal``: bars grow to the right, their names at the left.

    ``limit``: a name and a value on the axis of the measured, drawn across the bars. ``x_base``: of what the x axis
    shows powers, where it is logarithmic (batches are powers of two). ``named_at_ends``: lines have their names at
    their right ends instead of in the legend.
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
