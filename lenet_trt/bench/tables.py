"""Write a record as an aligned table, as Markdown or as CSV, with warnings for its reader."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, fields

from lenet_trt.bench.record import Record, Row
from lenet_trt.cuda.statistics import NOISY_SPREAD, Stats
from lenet_trt.text_table import aligned, markdown_table

# A reason of more rows than these is told once.
_MOST_ALIKE = 2
# The GPU's clock may change by this share within a record before a warning says so.
_CLOCK_CHANGE = 0.05


@dataclass(frozen=True)
class Summary:
    """Hold a small table that a suite makes of its rows; headings in ``numbers`` are set to the right."""

    title: str
    headings: Sequence[str]
    lines: Sequence[Sequence[str]]
    numbers: Sequence[str] = ()

    def markdown(self) -> str:
        """Return the table in Markdown, without the title."""
        left = [index for index, heading in enumerate(self.headings) if heading not in self.numbers]
        return markdown_text(self.headings, self.lines, left)

    def text(self) -> str:
        """Return the title and the aligned table."""
        cells = [self.headings, *self.lines]
        widths = [max(len(line[index]) for line in cells) for index in range(len(self.headings))]
        right = [heading in self.numbers for heading in self.headings]
        aligned = [
            "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)).rstrip()
            for line in cells
        ]
        return "\n".join([f"{self.title}:", *aligned])


@dataclass(frozen=True)
class Column:
    """Define one column of a table: its heading, the function that makes its text, and whether it is left-aligned."""

    heading: str
    text: Callable[[Row], str]
    left: bool = False


def duration(us: float) -> str:
    """Return a time with its unit, to three or four digits: "5.02 us", "83.6 us", "1.19 ms", "11.7 s"."""
    for unit, factor in (("us", 1.0), ("ms", 1e3)):
        value = us / factor
        if value < 999.5:
            return f"{_digits(value)} {unit}"
    return f"{_digits(us / 1e6)} s"


def _digits(value: float) -> str:
    return f"{value:.2f}" if value < 99.995 else f"{value:.0f}" if value >= 999.5 else f"{value:.1f}"


def standard_columns(record: Record, name_of: Callable[[Row], str] = lambda row: row.backend) -> list[Column]:
    """Return columns of the case, the backend, the median, its interval and spread, and accuracy and error if any."""
    names = list(dict.fromkeys(name for row in record.rows for name in row.case))
    columns = [Column(name, _of_case(name), _is_text(record, name)) for name in names]
    columns.append(Column("backend", name_of, left=True))
    columns += [
        Column("median", _of(lambda s: duration(s.median_us))),
        Column("95% interval", _of(lambda s: f"{duration(s.low_us)} to {duration(s.high_us)}")),
        Column("p10 to p90", _of(lambda s: f"{duration(s.p10_us)} to {duration(s.p90_us)}")),
        Column("slowest", _of(lambda s: duration(s.max_us))),
        Column("outliers", _of(lambda s: f"{s.outliers}/{s.count}")),
    ]
    if any(row.extra.get("accuracy") is not None for row in record.rows):
        columns.append(Column("right", lambda row: _share(row.extra.get("accuracy"))))
    if any(row.extra.get("error") is not None for row in record.rows):
        columns.append(Column("error", lambda row: _scientific(row.extra.get("error"))))
    return columns


def table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Return rows under headings, aligned; a row without timings has its reason in place of the figures.

    A reason of many rows is told once, below, between what is alike and what differs in their names.
    """
    counts = Counter(row.why for row in rows if not row.stats)
    common = [why for why, count in counts.items() if why and count > _MOST_ALIKE]
    below = [_together(why, [row for row in rows if row.why == why], columns) for why in common]
    own = [row for row in rows if row.why not in common]
    return "\n".join([*([_aligned(own, columns)] if own else []), *below])


def _together(why: str, rows: Sequence[Row], columns: Sequence[Column]) -> str:
    named = 1 + max((index for index, column in enumerate(columns) if column.left), default=0)
    texts = [[column.text(row) for row in rows] for column in columns[:named]]
    shared = [cells[0] for cells in texts if len(set(cells)) == 1 and cells[0] != "-"]
    names = zip(*(cells for cells in texts if len(set(cells)) > 1), strict=True)
    return f"{' '.join(shared)}: {why}: {'; '.join(map(' '.join, names))}".removeprefix(": ")


def _aligned(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    lines = [[column.heading for column in columns], *([column.text(row) for column in columns] for row in rows)]
    # A row without timings shows only the columns that name it, then its reason.
    left = [index for index, column in enumerate(columns) if column.left]
    named = max(left, default=0) + 1
    shown = [len(columns), *(len(columns) if row.stats else named for row in rows)]
    reasons = ["", *(row.why or "" for row in rows)]
    return "\n".join(aligned([line[:upto] for line, upto in zip(lines, shown, strict=True)], left, reasons))


def rows_markdown(rows: Sequence[Row], columns: Sequence[Column]) -> list[str]:
    """Return the lines of a Markdown table; reasons are in the last column, where there are any."""
    reasons = [Column("", lambda row: row.why or "", left=True)] if any(row.why for row in rows) else []
    chosen = [*columns, *reasons]
    cells = [[column.text(row).replace("|", "\\|") for column in chosen] for row in rows]
    right = [index for index, column in enumerate(chosen) if not column.left]
    return markdown_table([column.heading for column in chosen], cells, right)


def markdown_text(headings: Sequence[str], lines: Iterable[Sequence[str]], left: Container[int]) -> str:
    """Return a Markdown table; the columns with an index in ``left`` are set to the left, the others to the right."""
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(markdown_table(headings, cells, [at for at in range(len(headings)) if at not in left]))


def to_csv(record: Record) -> str:
    """Return a line of CSV for each row: suite, backend, case, figures, reason, and further plain values."""
    cases = list(dict.fromkeys(name for row in record.rows for name in row.case))
    figures = [field.name for field in fields(Stats) if field.name != "samples_us"]
    extras = list(
        dict.fromkeys(n for row in record.rows for n, v in row.extra.items() if not isinstance(v, (list, dict)))
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["suite", "backend", *cases, *figures, "why", *extras])
    for row in record.rows:
        stats = row.stats.without_samples() if row.stats else None
        values = [
            record.suite,
            row.backend,
            *(row.case.get(name, "") for name in cases),
            *("" if stats is None else getattr(stats, name) for name in figures),
            row.why or "",
            *("" if row.extra.get(name) is None else row.extra[name] for name in extras),
        ]
        writer.writerow([_one_line(value) if isinstance(value, str) else value for value in values])
    return text.getvalue()


def _one_line(text: str) -> str:
    """Return the text as one line without NUL: some readers of CSV split at each end of line, and 3.10 refuses NUL."""
    return " ".join(text.replace("\0", " ").split())


def record_warnings(record: Record) -> list[str]:
    """Return sentences that say why the figures are less certain than they look."""
    found = []
    if record.interrupted:
        why = f"stopped ({record.details['stopped']})" if "stopped" in record.details else "was interrupted"
        found.append(f"the run {why}: rows are missing")
    if "shared" in record.details:
        found.append(f"{record.details['shared']}: another process used it")
    noisy = [row for row in record.timed if row.stats and row.stats.noisy]
    if noisy:
        share = f"{NOISY_SPREAD:.0%}"
        found.append(
            f"the middle 80% of the timings spread by more than {share} of the median, "
            "so a comparison means little, for: "
            + _named(noisy, lambda row: f"{row.stats.spread:.0%}" if row.stats else "")
        )
    restless = [row for row in record.timed if row.stats and not row.stats.settled]
    if restless:
        found.append("times were still changing when the warm-up ended, for: " + _named(restless, lambda row: ""))
    clocks = [sample["sm_mhz"] for sample in record.clocks]
    # During the first sample the GPU may be idle.
    if len(clocks) > 2 and max(clocks[1:]) > (1 + _CLOCK_CHANGE) * min(clocks[1:]):
        found.append(f"the GPU's clock went from {min(clocks[1:]):.0f} to {max(clocks[1:]):.0f} MHz between timings")
    return found


def _named(rows: Iterable[Row], what: Callable[[Row], str], most: int = 4) -> str:
    names = [f"{row.backend} ({', '.join(filter(None, (row.where, what(row))))})" for row in rows]
    return "; ".join(names[:most]) + (f"; and {len(names) - most} more" if len(names) > most else "")


def _of(what: Callable[[Stats], str]) -> Callable[[Row], str]:
    return lambda row: what(row.stats) if row.stats else "-"


def _of_case(name: str) -> Callable[[Row], str]:
    return lambda row: str(row.case.get(name, ""))


def _is_text(record: Record, name: str) -> bool:
    return any(isinstance(row.case.get(name), str) for row in record.rows)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


def _scientific(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"
