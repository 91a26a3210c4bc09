"""Define the results of the loop's steps, as values that the state file stores and gives back unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lenet_trt.cuda.statistics import Stats
from lenet_trt.optimize.space import PluginPlan
from lenet_trt.schema import Count, Real, Us


@dataclass(frozen=True)
class ObservedRow:
    """Hold a row of the ledger: the cost of the nodes on the GPU (kernels, copies, gaps), and their floor if known."""

    node: str | None
    nodes: tuple[str, ...]
    cost_us: Us
    floor_us: Us


@dataclass(frozen=True)
class Observation:
    """Hold where a plan's time goes. Without ``rows`` it could not be traced, and ``why`` has the reason.

    ``timeline``: the trace's file in the output folder, for ``lenet-trt report``.
    """

    end_to_end_us: Us
    rows: tuple[ObservedRow, ...]
    ledger: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Mapping[str, Any], ...] = ()
    source: str = ""
    why: str | None = None
    timeline: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def compared(error: float | None, reference: str) -> str:
    """Say how far outputs are from a reference."""
    return f"not comparable with {reference}" if error is None else f"error {error:.1e} against {reference}"


@dataclass(frozen=True)
class Accuracy:
    """Hold how exact a plan is: relative errors in norm against ``reference``, and right answers if there are labels.

    ``problem``: why the plan is refused; None where it is good. ``error``: None where the outputs cannot be compared,
    which is a problem.
    """

    reference: str
    error: Real | None
    plain_error: Real | None
    tolerance: Real
    correct: Count | None = None
    plain_correct: Count | None = None
    labelled: Count | None = None
    problem: str | None = None

    def __post_init__(self) -> None:
        if self.labelled and None in (self.correct, self.plain_correct):
            raise ValueError(f"the number of right answers of {self.labelled} labelled images is missing")
        if self.error is None and self.problem is None:
            raise ValueError("an error is missing, and no problem says why")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @property
    def text(self) -> str:
        """Describe the accuracy in words."""
        said = compared(self.error, self.reference)
        said += f" (the model as it is: {self.plain_error:.1e})" if self.plain_error is not None else ""
        if self.labelled:
            said += f"; {self.correct:,} of {self.labelled:,} right, before {self.plain_correct:,}"
        return said


@dataclass(frozen=True)
class Trial:
    """Hold one candidate that was tried on a plan: its promise and its result; an empty one leaves pieces out.

    ``old_again``, ``new_again``: the times of a second run, which must confirm a faster first run. ``elsewhere_us``:
    how much more the nodes cost that the candidate did not touch, where it was kept and traced (broken fusion, added
    reformats).
    """

    candidate: PluginPlan
    before: PluginPlan
    after: PluginPlan
    promise_us: float
    noise_us: float
    kept: bool
    reason: str
    accuracy: Accuracy | None = None
    old: Stats | None = None
    new: Stats | None = None
    old_again: Stats | None = None
    new_again: Stats | None = None
    elsewhere_us: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        times = {"old": self.old, "new": self.new, "old_again": self.old_again, "new_again": self.new_again}
        return {
            "candidate": self.candidate.as_list(),
            "before": self.before.as_list(),
            "after": self.after.as_list(),
            "promise_us": self.promise_us,
            "noise_us": self.noise_us,
            "kept": self.kept,
            "reason": self.reason,
            "accuracy": self.accuracy.as_dict() if self.accuracy else None,
            **{name: found.as_json() if found else None for name, found in times.items()},
            "elsewhere_us": self.elsewhere_us,
        }


@dataclass(frozen=True)
class BatchOutcome:
    """Hold the loop's result at one batch size (None: the model's shapes are fixed).

    ``passed_over``: the candidates that promised no more than the noise, or more when the time was over. ``observed``:
    the ledgers of the plain model and of each plan that was kept, in this order.
    """

    batch: int | None
    plan: PluginPlan
    noise_us: float
    trials: tuple[Trial, ...]
    passed_over: tuple[tuple[PluginPlan, float], ...]
    observed: tuple[tuple[PluginPlan, Observation], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "batch": self.batch,
            "plan": self.plan.as_list(),
            "noise_us": self.noise_us,
            "trials": [trial.as_dict() for trial in self.trials],
            "passed_over": [{"candidate": plan.as_list(), "promise_us": us} for plan, us in self.passed_over],
            "observed": [{"plan": plan.as_list(), **seen.as_dict()} for plan, seen in self.observed],
        }


@dataclass(frozen=True)
class Crossing:
    """Hold two batch sizes between which two plans take the same time; ``at`` is interpolated."""

    small: PluginPlan
    large: PluginPlan
    between: tuple[int, int]
    at: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        between: Sequence[int] = list(self.between)
        return {"small": self.small.as_list(), "large": self.large.as_list(), "between": between, "at": self.at}
