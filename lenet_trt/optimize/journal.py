"""What was measured already, on disk after each step: an interrupted run goes on where it was."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from lenet_trt.cuda.statistics import Stats
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_bytes, write_atomic
from lenet_trt.optimize.loop import Workbench
from lenet_trt.optimize.record import check_ledger
from lenet_trt.optimize.records import Accuracy, Observation
from lenet_trt.optimize.space import Plan
from lenet_trt.schema import checked, read_json

SCHEMA = 1
WANTED = "what an earlier run of lenet-trt optimize measured"
_T = TypeVar("_T")


class _Kept(TypedDict):
    schema: int
    key: str
    steps: dict[str, Any]


class Journal:
    """Steps by name, valid for one ``identity``: everything that decides what a step would find."""

    def __init__(self, path: Path, identity: Mapping[str, Any], *, restart: bool = False) -> None:
        self._path = path
        self._key = sha256_bytes(json.dumps(identity, sort_keys=True, default=str).encode())
        self._steps: dict[str, Any] = {}
        self.reused = 0
        self.note = None if restart else self._read()

    def _read(self) -> str | None:
        """Take over what the file has; says so when that is not possible."""
        if not self._path.exists():
            return None
        try:
            data = read_json(self._path, _Kept, wanted=WANTED, fix="starting again")
        except LenetTrtError as error:
            return str(error)
        if data["schema"] != SCHEMA:
            return f"{self._path} is of another version: starting again"
        if data["key"] != self._key:
            return "the model, the kernels, the machine or the options have changed since: starting again"
        self._steps = data["steps"]
        return f"going on: {len(self._steps)} steps were done before" if self._steps else None

    @property
    def resumes(self) -> bool:
        """Whether there is anything to go on from."""
        return bool(self._steps)

    def step(self, name: str, do: Callable[[], Any], kind: type[_T]) -> _T:
        """What the step gave when it was done, or what it gives now, on disk before this returns.

        ``do`` gives plain values, and ``kind`` is what they are: those on disk that do not fit are made again.
        """
        if name in self._steps:
            try:
                found = checked(self._steps[name], kind, f"{name} in {self._path}", wanted=WANTED, fix="doing it again")
                self.reused += 1
                return found
            except LenetTrtError as error:
                print(error, file=sys.stderr)
        self._steps[name] = json.loads(json.dumps(do()))  # the same values now and when they are read back
        data = {"schema": SCHEMA, "key": self._key, "steps": self._steps}
        write_atomic(self._path, json.dumps(data, separators=(",", ":")).encode())
        return checked(self._steps[name], kind, name, wanted=WANTED, fix="report it")


class Remembered:
    """A workbench that does nothing twice."""

    def __init__(self, bench: Workbench, journal: Journal) -> None:
        self._bench, self._journal = bench, journal

    def observe(self, plan: Plan, batch: int | None) -> Observation:
        """As the workbench does."""
        name = f"observe {batch} {plan.key}"
        found = self._journal.step(name, lambda: self._bench.observe(plan, batch).as_dict(), Observation)
        if found.why is None:
            check_ledger(found.ledger, f"the ledger of {name}", "start again with --restart")
        return found

    def check(self, plan: Plan, batch: int | None) -> Accuracy:
        """As the workbench does."""
        name = f"check {batch} {plan.key}"
        return self._journal.step(name, lambda: self._bench.check(plan, batch).as_dict(), Accuracy)

    def compare(self, plans: tuple[Plan, ...], batch: int | None) -> tuple[Stats, ...]:
        """As the workbench does."""
        name = f"compare {batch} {' '.join(plan.key for plan in plans)}"
        return self._journal.step(
            name, lambda: [stats.as_json() for stats in self._bench.compare(plans, batch)], tuple[Stats, ...]
        )

    def floor_us(self, nodes: tuple[str, ...], batch: int | None) -> float:
        """As the workbench does: worked out, not measured."""
        return self._bench.floor_us(nodes, batch)
