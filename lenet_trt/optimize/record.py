"""The record of a run (optimize.json): what is in it, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from lenet_trt.cuda.statistics import Stats
from lenet_trt.errors import LenetTrtError
from lenet_trt.optimize.space import Piece
from lenet_trt.schema import Count, Duration, Real, Us, checked, json_value
from lenet_trt.trace.ledger import Inflation, Terms

SCHEMA = 1
WANTED = "the optimize.json of lenet-trt optimize"
FIX = "optimize again"


class OptimizeEnvironment(TypedDict, total=False):
    """What is shown of the machine; a record says more of it."""

    gpu: str | None
    driver: str | None
    lenet_trt: str
    packages: dict[str, str]


class Made(TypedDict, total=False):
    """When, and at which commit."""

    time: str
    commit: str | None


class ModelEntry(TypedDict):
    """A model that was chosen."""

    path: str
    batches: list[Count | None]
    plan: list[Piece]


class RefusalEntry(TypedDict):
    """A place where a kernel could not be used."""

    kernel: str
    replaced: list[str]
    reason: str


class RowEntry(TypedDict):
    """What is shown of a ledger's row."""

    node: str | None
    terms: Terms
    kernels: list[str]


class LedgerEntry(TypedDict):
    """What is shown of a ledger."""

    end_to_end_us: Us
    total: Terms
    rows: list[RowEntry]
    inflation: Inflation | None
    terms: dict[str, str]
    notes: list[str]


class FindingEntry(TypedDict):
    """What is shown of a finding."""

    title: str
    recoverable_us: Us
    evidence: list[str]


class SeenEntry(TypedDict):
    """A plan's model that was traced, or ``why`` not."""

    plan: list[Piece]
    end_to_end_us: Us
    ledger: dict[str, Any]
    findings: list[FindingEntry]
    source: str
    why: str | None
    timeline: str | None


class AccuracyEntry(TypedDict):
    """How exact a candidate was."""

    reference: str
    error: Real
    plain_error: Real | None
    correct: Count | None
    plain_correct: Count | None
    labelled: Count | None
    problem: str | None


class TrialEntry(TypedDict):
    """A candidate that was tried."""

    candidate: list[Piece]
    before: list[Piece]
    after: list[Piece]
    promise_us: Us
    noise_us: Us
    kept: bool
    reason: str
    accuracy: AccuracyEntry | None
    old: Stats | None
    new: Stats | None
    old_again: Stats | None
    new_again: Stats | None
    elsewhere_us: Us | None


class PassedOver(TypedDict):
    """A candidate that promised too little."""

    candidate: list[Piece]
    promise_us: Us


class OutcomeEntry(TypedDict):
    """What the loop came to at one batch size."""

    batch: Count | None
    plan: list[Piece]
    noise_us: Us
    trials: list[TrialEntry]
    passed_over: list[PassedOver]
    observed: list[SeenEntry]


class ChosenEntry(TypedDict):
    """The plan of a batch size, and how long each plan takes there."""

    batch: Count | None
    plan: list[Piece]
    times_faster: Real
    times: list[dict[str, Any]]


class CrossingEntry(TypedDict):
    """Between which batch sizes two plans change places."""

    small: list[Piece]
    large: list[Piece]
    between: tuple[Count, Count]
    at: Duration | None


class OptimizeRecord(TypedDict):
    """All of it."""

    schema: Literal[1]
    model: str
    command: str
    where: str
    how: str
    environment: OptimizeEnvironment
    models: list[ModelEntry]
    batches: list[OutcomeEntry]
    chosen: list[ChosenEntry]
    crossings: list[CrossingEntry]


class _Optional(TypedDict, total=False):
    made: Made | None
    refusals: list[RefusalEntry]


def read_record(path: Path) -> Mapping[str, Any]:
    """Read a record, every field that the code uses checked.

    Raises:
        LenetTrtError: the file cannot be read, or is not what ``optimize`` writes.
    """
    data = json_value(path, wanted=WANTED, fix=FIX)
    for kind in (OptimizeRecord, _Optional):
        checked(data, kind, str(path), wanted=WANTED, fix=FIX)
    for outcome in data["batches"]:
        for seen in outcome["observed"]:
            if seen["why"] is None:
                check_ledger(seen["ledger"], f"a ledger in {path}", FIX)
    for entry in data["chosen"]:
        plans = [times.get("plan") for times in entry["times"]]
        if [] not in plans or entry["plan"] not in plans:
            raise LenetTrtError(f"{path} is not {WANTED}: a plan that was chosen has no times: {FIX}")
        for times in entry["times"]:
            checked(times, Stats, f"the times in {path}", wanted=WANTED, fix=FIX)
    return dict(data)


def check_ledger(ledger: Mapping[str, Any], name: str, fix: str) -> None:
    """Refuse a ledger that lacks what is shown of it.

    Raises:
        LenetTrtError: it does; ``name`` and ``fix`` are of its file.
    """
    checked(ledger, LedgerEntry, name, wanted=WANTED, fix=fix)
    found = [ledger["total"], *(row["terms"] for row in ledger["rows"])]
    for term in Terms.__dataclass_fields__:
        if term not in ledger["terms"] or any(term not in terms for terms in found):
            raise LenetTrtError(f"{name} is not of {WANTED}: it has no {term}: {fix}")
