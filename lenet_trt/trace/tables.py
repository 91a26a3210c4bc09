"""Make tables of a timeline, for GPU activities, API calls and nodes: share, time, calls, mean, extremes, name."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lenet_trt.text_table import aligned, markdown_table
from lenet_trt.trace.kernel_names import short_name
from lenet_trt.trace.timeline import Activity, ApiCall, Timeline

NO_NODE = "(no node)"
_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "us"))
_HEADER = ("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")


@dataclass(frozen=True)
class TimeRow:
    """Hold the total time of one kernel, call or node; ``name`` is short, ``full_name`` is the traced name."""

    name: str
    full_name: str
    percent: float
    total_us: float
    calls: int
    average_us: float
    minimum_us: float
    maximum_us: float


@dataclass(frozen=True)
class TimeTable:
    """Hold rows, the longest total time first."""

    title: str
    rows: tuple[TimeRow, ...]

    @property
    def total_us(self) -> float:
        """Return the time of all rows."""
        return sum(row.total_us for row in self.rows)


@dataclass(frozen=True)
class TimeTables:
    """Hold the tables of a timeline; in ``nodes``, average, minimum and maximum are per inference, not per kernel."""

    iterations: int
    left_out: int
    gpu: TimeTable
    api: TimeTable
    nodes: TimeTable

    def all(self) -> tuple[TimeTable, ...]:
        """Return the tables that have rows, in the order in which they are shown."""
        return tuple(table for table in (self.gpu, self.api, self.nodes) if table.rows)


def tables(timeline: Timeline, *, everything: bool = False) -> TimeTables:
    """Add up a timeline: what belongs to inferences; with ``everything``, also what was traced before and between."""
    activities = [entry for entry in timeline.activities if everything or entry.iteration is not None]
    calls = list(timeline.api_calls) if everything else _in_iterations(timeline)
    left_out = len(timeline.activities) - len(activities) + len(timeline.api_calls) - len(calls)
    named = any(entry.node is not None for entry in activities)
    # Tools that time only layers, such as ONNX Runtime on a CPU, record no GPU activity.
    layers = bool(activities) and all(entry.kind == "layer" for entry in activities)
    return TimeTables(
        len(timeline.iterations),
        left_out,
        _table("Layers" if layers else "GPU activities", ((entry.name, entry.us) for entry in activities), short_name),
        _table("API calls", ((call.name, call.us) for call in calls), str),
        _nodes(activities) if named else TimeTable("Nodes", ()),
    )


def tables_json(found: TimeTables) -> dict[str, Any]:
    """Return the tables as plain values, for JSON."""
    return {
        "iterations": found.iterations,
        "left_out": found.left_out,
        **{
            key: {"total_us": table.total_us, "rows": [asdict(row) for row in table.rows]}
            for key, table in (("gpu_activities", found.gpu), ("api_calls", found.api), ("nodes", found.nodes))
        },
    }


def tables_text(found: TimeTables, most_rows: int | None = None) -> str:
    """Return the tables as text, as NVIDIA's profilers print them."""
    lines = []
    width = max((len(table.title) for table in found.all()), default=0) + 1
    for table in found.all():
        cells = [_HEADER, *map(_cells, table.rows[:most_rows])]
        names = len(_HEADER) - 1
        for index, row in enumerate(aligned(cells, left=(names,))):
            label = f"{table.title}:" if index == 1 else "" if index else "Type"
            lines.append(f"{label:>{width}}  {row}")
        lines += [f"{'':>{width}}  ({more} more)" for more in [len(table.rows) - len(cells) + 1] if more]
        lines.append("")
    return "\n".join([*lines, *_footer(found)]) + "\n"


def tables_markdown(found: TimeTables, most_rows: int | None = None) -> str:
    """Return the tables as Markdown."""
    lines = []
    for table in found.all():
        rows = [[_escaped(cell) for cell in _cells(row)] for row in table.rows[:most_rows]]
        lines += [f"**{table.title}**", "", *markdown_table(_HEADER, rows, right=range(len(_HEADER) - 1)), ""]
    return "\n".join([*lines, *_footer(found)]) + "\n"


def _footer(found: TimeTables) -> list[str]:
    lines = [f"{found.iterations} inference{'s' * (found.iterations != 1)}."]
    if found.nodes.rows:
        lines[0] += " For nodes, average, minimum and maximum are per inference."
    if found.left_out:
        lines[0] += f" {found.left_out} events outside of inferences are left out."
    return lines


def _in_iterations(timeline: Timeline) -> list[ApiCall]:
    spans = sorted(timeline.iterations, key=lambda entry: entry.start_us)
    starts = [entry.start_us for entry in spans]
    found = []
    for call in timeline.api_calls:
        index = bisect_right(starts, call.start_us) - 1
        if index >= 0 and call.start_us < spans[index].end_us:
            found.append(call)
    return found


def _table(title: str, timed: Iterable[tuple[str, float]], shown: Callable[[str], str]) -> TimeTable:
    groups: dict[str, list[float]] = {}
    for name, us in timed:
        groups.setdefault(name, []).append(us)
    return _ranked(title, [(shown(name), name, times, len(times)) for name, times in groups.items()])


def _nodes(activities: Iterable[Activity]) -> TimeTable:
    groups: dict[str, dict[int | None, float]] = {}
    counts: Counter[str] = Counter()
    for entry in activities:
        node = entry.node if entry.node is not None else NO_NODE
        of_iterations = groups.setdefault(node, {})
        of_iterations[entry.iteration] = of_iterations.get(entry.iteration, 0.0) + entry.us
        counts[node] += 1
    return _ranked("Nodes", [(node, node, list(times.values()), counts[node]) for node, times in groups.items()])


def _ranked(title: str, groups: Sequence[tuple[str, str, list[float], int]]) -> TimeTable:
    whole = sum(sum(times) for _, _, times, _ in groups)
    shown = Counter(short for short, _, _, _ in groups)
    rows = [
        TimeRow(
            # Two kernels with the same short name are shown with their full names.
            name if shown[short] > 1 else short,
            name,
            100 * sum(times) / whole if whole else 0.0,
            sum(times),
            calls,
            sum(times) / len(times),
            min(times),
            max(times),
        )
        for short, name, times, calls in groups
    ]
    return TimeTable(title, tuple(sorted(rows, key=lambda row: (-row.total_us, row.name))))


def _cells(row: TimeRow) -> tuple[str, ...]:
    times = (row.average_us, row.minimum_us, row.maximum_us)
    return (f"{row.percent:.2f}%", _time(row.total_us), str(row.calls), *map(_time, times), _plain(row.name))


def _time(us: float) -> str:
    for size, unit in _UNITS:
        if abs(us) >= size:
            return f"{us / size:.3f} {unit}"
    return f"{us * 1e3:.0f} ns"


def _plain(name: str) -> str:
    """Return the name as one line without control characters: it comes from a model or a trace and may hold any."""
    return "".join(mark if mark.isprintable() else f"\\x{ord(mark):02x}" for mark in " ".join(name.split()))


def _escaped(cell: str) -> str:
    flat = cell
    for mark in ("\\", "|", "`", "*", "_", "<", ">", "["):
        flat = flat.replace(mark, f"\\{mark}" if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return flat
