"""Keep the timings of earlier records: a run goes on where another ended, or joins what several runs measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from lenet_trt.bench.record import Record, Row, RowCase
from lenet_trt.bench.suite import Recording
from lenet_trt.errors import UsageError


def joined(records: Sequence[Record]) -> Record | None:
    """Return records of one suite as one; None where there are none. Of a row in several records, a timed one counts.

    Raises:
        UsageError: they are of several suites, GPUs, programs, libraries or commits.
    """
    if not records:
        return None
    first = records[0]
    if mixed := mixture(records, commits=True):
        raise UsageError(
            f"--resume: the records are of {mixed}, and one table must not mix them: give records that belong together"
        )
    rows: dict[object, Row] = {}
    for row in (row for record in records for row in record.rows):
        if row.key not in rows or (row.stats is not None and rows[row.key].stats is None):
            rows[row.key] = row
    clocks = tuple(sample for record in records for sample in record.clocks)
    seconds = round(sum(record.seconds for record in records), 1)
    details = {name: value for record in reversed(records) for name, value in record.details.items()}
    return replace(first, rows=tuple(rows.values()), clocks=clocks, seconds=seconds, details=details)


def mixture(records: Sequence[Record], *, commits: bool = False) -> str | None:
    """Return what two of these records do not have in common, such as "GPU A and B"; None where one table can have all.

    ``commits``: they have to be of one commit, too. Without it, records of several commits have several libraries.
    """
    for one, other in combinations(records, 2):
        commit = [("commit", one.commit, other.commit)] if commits else []
        for what, wanted, seen in (*_facts(one, other, library=commits or one.commit == other.commit), *commit):
            if seen != wanted:
                return f"{what} {wanted} and {seen}"
    return None


def check_resumed(old: Record | None, found: Recording, suite: str, gpu: str) -> None:
    """Refuse to go on with a record of another GPU or another TensorRT: one table must not mix them.

    ``found.details`` has the program and the library of this run.

    Raises:
        UsageError: says what differs.
    """
    if old is None:
        return
    now = replace(old, suite=suite, environment={**old.environment, "gpu": gpu}, details=found.details)
    for what, seen, wanted in _facts(old, now):
        if seen != wanted:
            raise UsageError(f"--resume: the record's {what} is {seen}, and here it is {wanted}: measure all again")


def kept(old: Record | None, case: RowCase, *backends: str) -> list[Row]:
    """Return the rows of these backends, timed in turns, in the record that is resumed; none where one has no time."""
    rows = [] if old is None else [row for name in backends if (row := old.find(name, **case)) is not None]
    return rows if all(row.stats is not None for row in rows) else []


def _facts(record: Record, other: Record, *, library: bool = True) -> list[tuple[str, object, object]]:
    """Return what two records must have in common: its name, and the value in each.

    The program and the library count where both records name one: a run without trtexec has times of others alone.
    """
    found: list[tuple[str, object, object]] = [("suite", record.suite, other.suite), ("GPU", record.gpu, other.gpu)]
    for what, key in (("trtexec", "trtexec"), *([("plugin library", "library_sha256")] if library else [])):
        if record.details.get(key) and other.details.get(key):
            found.append((what, record.details[key], other.details[key]))
    return found
