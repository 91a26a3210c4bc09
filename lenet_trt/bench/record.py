"""Define the record of a run of a suite: plain data with one schema for all suites, kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from lenet_trt.cuda.statistics import Stats as Stats
from lenet_trt.errors import LenetTrtError
from lenet_trt.schema import Count, Duration, Real, Whole, checked, json_text, parsed

FORMAT = "lenet-trt bench"
SCHEMA = 2
WANTED = "a record, as lenet-trt bench -o writes it"
FIX = "measure again"
# Single timings are kept where all rows together have at most this many: more would make the file large.
KEPT_SAMPLES = 20_000

RowCase: TypeAlias = Mapping[str, Whole | str]


@dataclass(frozen=True)
class Row:
    """Hold the timings of one ``backend`` at one ``case`` (such as {"batch": 32}), or ``why`` it has none.

    ``extra``: further figures, plain JSON values. Tables show ``accuracy`` (share of right answers, 0 to 1) and
    ``error`` (relative) where rows have them.

    Raises:
        LenetTrtError: the row has neither timings nor a reason.
    """

    backend: str
    case: RowCase
    stats: Stats | None = None
    why: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.stats is None and not self.why:
            raise LenetTrtError(f"{self.backend} {dict(self.case)} has neither timings nor a reason why not")

    @property
    def where(self) -> str:
        """Describe the case in words: "batch 32, lazy"."""
        said = [f"{name} {value}" if isinstance(value, int) else value for name, value in self.case.items()]
        return ", ".join(said)

    @property
    def key(self) -> str:
        """Return what identifies a row in two records: backend and case."""
        return " ".join([self.backend, *(f"{name}={value}" for name, value in sorted(self.case.items()))])


class Environment(TypedDict, total=False):
    """Type the facts of the machine that the code reads; a record has more."""

    gpu: str | None
    cpu: str
    cpus: Count
    sm: Count
    multiprocessors: Count
    l2_bytes: Count
    driver: str | None
    driver_cuda: str | None
    nvrtc: str | None
    python: str
    packages: dict[str, str]


class RecordedPlan(TypedDict, total=False):
    """Type the facts of the timing plan that the code reads."""

    rounds: Count
    burst: Count


class Clock(TypedDict, total=False):
    """Type a sample of the GPU's clocks."""

    sm_mhz: Duration


class Details(TypedDict, total=False):
    """Type the details that every suite may have."""

    stopped: str
    shared: str


class Extra(TypedDict, total=False):
    """Type the further figures of a row that the code reads, for all suites."""

    accuracy: Real | None
    error: Real | None
    variant: str
    step: bool
    ours: bool
    precision: str
    place: str


class _RowFacts(TypedDict, total=False):
    extra: Extra


class Facts(TypedDict):
    """Type the parts of a record that are plain mappings, as far as the code reads them."""

    environment: Environment
    plan: RecordedPlan
    clocks: list[Clock]
    details: Details
    rows: list[_RowFacts]


@dataclass(frozen=True)
class Record:
    """Hold what a suite measured, and on which machine.

    ``plan``: how often things were timed. ``clocks``: the GPU's clocks, sampled between the timings. ``details``:
    facts of this suite alone (ceilings, hashes); ``notes``: sentences for the reader.
    """

    suite: str
    command: str
    date: str
    commit: str | None
    environment: Mapping[str, Any]
    plan: Mapping[str, Any]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    clocks: tuple[Mapping[str, Any], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    seconds: Duration = 0.0
    interrupted: bool = False

    @property
    def timed(self) -> list[Row]:
        """Return the rows that have timings."""
        return [row for row in self.rows if row.stats is not None]

    @property
    def gpu(self) -> str | None:
        """Return the GPU's name, or None where there was none."""
        return self.environment.get("gpu")

    def find(self, backend: str, **case: int | str) -> Row | None:
        """Return the row of this backend whose case has these values, or None."""
        found = (r for r in self.rows if r.backend == backend and all(r.case.get(k) == v for k, v in case.items()))
        return next(found, None)


def as_json(record: Record) -> str:
    """Return the record as JSON, one line for each row, so that two records can be compared line by line."""
    few = sum(row.stats.count for row in record.timed if row.stats) <= KEPT_SAMPLES
    head = {
        "format": FORMAT,
        "schema": SCHEMA,
        "suite": record.suite,
        "command": record.command,
        "date": record.date,
        "commit": record.commit,
        "seconds": record.seconds,
        "interrupted": record.interrupted,
        "environment": dict(record.environment),
        "plan": dict(record.plan),
        "clocks": [dict(sample) for sample in record.clocks],
        "notes": list(record.notes),
        "details": dict(record.details),
    }
    lines = [f" {json.dumps(name)}: {_dumps(value)},\n" for name, value in head.items()]
    rows = ",\n".join("  " + _dumps(_row_json(row, few)) for row in record.rows)
    return "{\n" + "".join(lines) + ' "rows": [' + (f"\n{rows}\n " if rows else "") + "]\n}\n"


def load_record(path: Path) -> Record:
    """Read a record.

    Raises:
        LenetTrtError: the file is not there, is damaged, or has another schema.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LenetTrtError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return parse(text, str(path))


def parse(text: str, name: str) -> Record:
    """Read the text that ``as_json`` made; ``name`` names the text in errors.

    Raises:
        LenetTrtError: the text is damaged, or has another schema.
    """
    data = parsed(text, name, wanted=WANTED, fix=FIX)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise LenetTrtError(f"{name} is not {WANTED}: {FIX}")
    if data.get("schema") != SCHEMA:
        raise LenetTrtError(f"{name} has schema {data.get('schema')!r:.60}; this version reads {SCHEMA}: {FIX}")
    if missing := [entry.name for entry in fields(Record) if entry.name not in data]:
        raise LenetTrtError(f"{name} is not {WANTED}: it has no {', '.join(missing)}: {FIX}")
    found = checked(data, Record, name, wanted=WANTED, fix=FIX)
    checked(data, Facts, name, wanted=WANTED, fix=FIX)
    return found


def _row_json(row: Row, samples: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"backend": row.backend, "case": dict(row.case)}
    if row.stats is not None:
        found["stats"] = (row.stats if samples else row.stats.without_samples()).as_json()
    if row.why is not None:
        found["why"] = row.why
    if row.extra:
        found["extra"] = dict(row.extra)
    return found


def _dumps(value: Any) -> str:
    """Return JSON on one line; infinity and NaN, which JSON does not have, are refused."""
    return json_text(value, indent=None, ensure_ascii=False)
