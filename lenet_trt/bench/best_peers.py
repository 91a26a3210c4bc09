"""Find in a record of ``engines`` which way to build TensorRT's own layers is the best, and compare ours with it.

TensorRT at its best is the fastest engine of its own layers of the same accuracy: without TF32 in fp32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lenet_trt.bench.engine_workloads import OURS, TF32
from lenet_trt.bench.record import Record, Row, RowCase
from lenet_trt.bench.tables import Summary, duration

FIGURES = ("batch", "TensorRT at its best", "with our plugins", "times faster", "times faster than with TF32")


@dataclass(frozen=True)
class Contest:
    """Hold the timed engines of one workload and batch: ours, TensorRT's best of the same accuracy, and with TF32."""

    case: RowCase
    ours: Row | None
    best: Row | None
    tf32: Row | None

    def figures(self) -> list[str]:
        """Return what ``FIGURES`` names."""
        batch = self.case.get("batch")
        return [
            f"{batch:,}" if isinstance(batch, int) else "-",
            _time(self.best),
            _time(self.ours),
            _faster(self.best, self.ours),
            _faster(self.tf32, self.ours),
        ]


def contests(record: Record) -> Iterator[Contest]:
    """Yield the contests of a record, in its order."""
    cases = {tuple(sorted(row.case.items())): row.case for row in record.timed if "workload" in row.case}
    for case in cases.values():
        rows = [row for row in record.timed if row.case == case]
        exact = [row for row in rows if row.backend not in (OURS, TF32) and row.extra.get("right") is not False]
        found = {row.backend: row for row in rows}
        yield Contest(case, found.get(OURS), min(exact, key=_median, default=None), found.get(TF32))


def best_peers_summary(record: Record) -> Summary | None:
    """Return the table of all contests that ours takes part in; None where there is none."""
    lines = [
        [str(each.case["workload"]), *each.figures(), each.best.backend]
        for each in contests(record)
        if each.ours and each.best
    ]
    headings = ("workload", *FIGURES, "the best of TensorRT")
    return Summary("TensorRT at its best beside our plugins", headings, lines, FIGURES) if lines else None


def times_text(factor: float) -> str:
    """Write how many times faster: "3.18x", "5,150x"."""
    return f"{float(f'{factor:.3g}'):,.0f}x" if factor >= 100 else f"{factor:.3g}x"


def _median(row: Row) -> float:
    assert row.stats is not None
    return row.stats.median_us


def _time(row: Row | None) -> str:
    return "-" if row is None else duration(_median(row))


def _faster(peer: Row | None, ours: Row | None) -> str:
    return times_text(_median(peer) / _median(ours)) if peer is not None and ours is not None else "-"
