"""Compare two records of one suite: find what changed by more than the noise of either."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lenet_trt.bench.record import Record, Row, Stats
from lenet_trt.bench.tables import duration
from lenet_trt.cuda.statistics import differ
from lenet_trt.errors import UsageError

# Two runs of the same code differ by this share, for reasons that a single run cannot show.
LEAST_CHANGE = 0.02


@dataclass(frozen=True)
class RowChange:
    """Hold a row whose median changed."""

    key: str
    old: Stats
    new: Stats

    @property
    def ratio(self) -> float:
        """Return the new time divided by the old time."""
        return self.new.median_us / self.old.median_us

    @property
    def text(self) -> str:
        """Describe the change in words."""
        said = f"{self.ratio:.2f}x the time" if self.ratio >= 1 else f"{1 / self.ratio:.2f}x faster"
        return f"{self.key}: {duration(self.old.median_us)} -> {duration(self.new.median_us)} ({said})"


@dataclass(frozen=True)
class Comparison:
    """Hold the changed rows, largest change first, the number of unchanged rows, and rows timed in one record only."""

    changed: tuple[RowChange, ...]
    unchanged: int
    gone: tuple[str, ...]
    added: tuple[str, ...]
    warnings: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return lines for people."""
        lines = [change.text for change in self.changed]
        lines.append(f"{len(self.changed)} changed by more than the noise, {self.unchanged} did not")
        lines += [f"no longer timed: {', '.join(self.gone)}"] if self.gone else []
        lines += [f"timed for the first time: {', '.join(self.added)}"] if self.added else []
        return lines


def compare(old: Record, new: Record) -> Comparison:
    """Compare two records of one suite on one kind of GPU.

    Raises:
        UsageError: the suites or the GPUs (or, without one, the processors) differ.
    """
    if old.suite != new.suite:
        raise UsageError(f"--compare: that is a record of {old.suite}, and {new.suite} was measured")
    device = "gpu" if old.gpu or new.gpu else "cpu"
    if old.environment.get(device) != new.environment.get(device):
        raise UsageError(
            f"--compare: the old record is from {_device(old)}, the new one from {_device(new)}; "
            "times of two machines do not compare the code: give a record of this machine"
        )
    before, after = _timed(old), _timed(new)
    both = [key for key in after if key in before]
    changes = [RowChange(key, before[key], after[key]) for key in both if _changed(before[key], after[key])]
    changes.sort(key=lambda change: max(change.ratio, 1 / change.ratio), reverse=True)
    return Comparison(
        changed=tuple(changes),
        unchanged=len(both) - len(changes),
        gone=tuple(key for key in before if key not in after),
        added=tuple(key for key in after if key not in before),
        warnings=tuple(_differences(old, new)),
    )


def _changed(old: Stats, new: Stats) -> bool:
    if not old.median_us or not new.median_us:
        return False
    return differ(old, new) and abs(new.median_us - old.median_us) > LEAST_CHANGE * old.median_us


def _timed(record: Record) -> dict[str, Stats]:
    return {row.key: stats for row, stats in _with_stats(record)}


def _with_stats(record: Record) -> Iterator[tuple[Row, Stats]]:
    for row in record.rows:
        if row.stats is not None:
            yield row, row.stats


def _device(record: Record) -> str:
    return str(record.gpu or record.environment.get("cpu"))


def _differences(old: Record, new: Record) -> Iterator[str]:
    """Yield what else differs between the two records."""
    for name in ("driver", "nvrtc", "python", "cpus"):
        before, after = old.environment.get(name), new.environment.get(name)
        if before != after:
            yield f"{name} was {before} and is {after}"
    before, after = (dict(record.environment.get("packages", {})) for record in (old, new))
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield f"{name} was {before.get(name, 'not there')} and is {after.get(name, 'not there')}"
    for record, which in ((old, "old"), (new, "new")):
        if record.interrupted:
            yield f"the {which} run was interrupted"
