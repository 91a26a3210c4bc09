"""Define the record of a run (optimize.json), and read it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from lenet_trt.cuda.statistics import Stats
from lenet_trt.errors import LenetTrtError
from lenet_trt.optimize.space import PluginPiece
from lenet_trt.schema import Count, Duration, Real, Us, checked, json_value
from lenet_trt.trace.ledger import Inflation, Terms

SCHEMA = 1
WANTED = "the optimize.json of lenet-trt optimize"
FIX = "optimize again"


class OptimizeEnvironment(TypedDict, total=False):
    """Type the facts of the machine that are shown; a record has more."""

    gpu: str | None
    driver: str | None
    lenet_trt: str
    packages: dict[str, str]


class Made(TypedDict, total=False):
    """Type when the record was made, and at which commit."""

    time: str
    commit: str | None


class ModelEntry(TypedDict):
    """Type a model that was chosen."""

    path: str
    batches: list[Count | None]
    plan: list[PluginPiece]


class RefusalEntry(TypedDict):
    """Type a place where a kernel could not be used."""

    kernel: str
    replaced: list[str]
    reason: str


class RowEntry(TypedDict):
    """Type the parts of a ledger's row that are shown."""

    node: str | None
    terms: Terms
    kernels: list[str]


class LedgerEntry(TypedDict):
    """Type the parts of a ledger that are shown."""

    end_to_end_us: Us
    total: Terms
    rows: list[RowEntry]
    inflation: Inflation | None
    terms: dict[str, str]
    notes: list[str]


class FindingEntry(TypedDict):
    """Type the parts of a finding that are shown."""

    title: str
    recoverable_us: Us
    evidence: list[str]


class SeenEntry(TypedDict):
    """Type the trace of a plan's model, or ``why`` there is none."""

    plan: list[PluginPiece]
    end_to_end_us: Us
    ledger: dict[str, Any]
    findings: list[FindingEntry]
    source: str
    why: str | None
    timeline: str | None


class AccuracyEntry(TypedDict):
    """Type the accuracy of a candidate."""

    reference: str
    error: Real | None
    plain_error: Real | None
    correct: Count | None
    plain_correct: Count | None
    labelled: Count | None
    problem: str | None


class TrialEntry(TypedDict):
    """Type a candidate that was tried."""

    candidate: list[PluginPiece]
    before: list[PluginPiece]
    after: list[PluginPiece]
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
    """Type a candidate that promised too little, or that was left when the time was over."""

    candidate: list[PluginPiece]
    promise_us: Us


class OutcomeEntry(TypedDict):
    """Type the result of the loop at one batch size."""

    batch: Count | None
    plan: list[PluginPiece]
    noise_us: Us
    trials: list[TrialEntry]
    passed_over: list[PassedOver]
    observed: list[SeenEntry]


class ChosenEntry(TypedDict):
    """Type the plan of a batch size, and the time of each plan there."""

    batch: Count | None
    plan: list[PluginPiece]
    times_faster: Real
    times: list[dict[str, Any]]


class CrossingEntry(TypedDict):
    """Type the two batch sizes between which the faster plan changes."""

    small: list[PluginPiece]
    large: list[PluginPiece]
    between: tuple[Count, Count]
    at: Duration | None


class OptimizeRecord(TypedDict):
    """Type the whole record."""

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
    sizes: dict[str, Count]


def read_optimize_record(path: Path) -> Mapping[str, Any]:
    """Read a record, and check every field that the code uses.

    Raises:
        LenetTrtError: the file cannot be read, or is no record of ``optimize``.
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
    """Refuse a ledger that lacks a part that is shown.

    Raises:
        LenetTrtError: a part is missing; the message has the file's ``name`` and the ``fix``.
    """
    checked(ledger, LedgerEntry, name, wanted=WANTED, fix=fix)
    found = [ledger["total"], *(row["terms"] for row in ledger["rows"])]
    for term in Terms.__dataclass_fields__:
        if term not in ledger["terms"] or any(term not in terms for terms in found):
            raise LenetTrtError(f"{name} is not of {WANTED}: it has no {term}: {fix}")
