"""Keep what was measured on disk after each step, so that an interrupted run can continue."""

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
from lenet_trt.optimize.space import PluginPlan
from lenet_trt.schema import checked, read_json

SCHEMA = 1
WANTED = "what an earlier run of lenet-trt optimize measured"
_T = TypeVar("_T")


class _Kept(TypedDict):
    schema: int
    key: str
    steps: dict[str, Any]


class Journal:
    """Hold steps by name, valid for one ``identity``: everything on which the result of a step depends."""

    def __init__(self, path: Path, identity: Mapping[str, Any], *, restart: bool = False) -> None:
        self._path = path
        self._key = sha256_bytes(json.dumps(identity, sort_keys=True, default=str).encode())
        self._steps: dict[str, Any] = {}
        self.reused = 0
        self.note = None if restart else self._read()

    def _read(self) -> str | None:
        """Take over what the file has; where that is not possible, say so."""
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
        return f"continuing: {len(self._steps)} steps were done before" if self._steps else None

    @property
    def resumes(self) -> bool:
        """Say whether an earlier run left steps to continue from."""
        return bool(self._steps)

    def step(self, name: str, do: Callable[[], Any], kind: type[_T]) -> _T:
        """Return the result of a step that was done before, or do the step now and write its result to disk.

        ``do`` returns plain values, and ``kind`` is their type: a step whose stored values have another type is
        done again.
        """
        if name in self._steps:
            try:
                found = checked(self._steps[name], kind, f"{name} in {self._path}", wanted=WANTED, fix="doing it again")
                self.reused += 1
                return found
            except LenetTrtError as error:
                print(error, file=sys.stderr)
        self._steps[name] = json.loads(
            json.dumps(do())
        )  # so that the values are the same now and when they are read back
        data = {"schema": SCHEMA, "key": self._key, "steps": self._steps}
        write_atomic(self._path, json.dumps(data, separators=(",", ":")).encode())
        return checked(self._steps[name], kind, name, wanted=WANTED, fix="report it")


class Remembered:
    """Wrap a workbench so that it does nothing twice."""

    def __init__(self, bench: Workbench, journal: Journal) -> None:
        self._bench, self._journal = bench, journal

    def observe(self, plan: PluginPlan, batch: int | None) -> Observation:
        """Return the remembered result, or ask the workbench."""
        name = f"observe {batch} {plan.key}"
        found = self._journal.step(name, lambda: self._bench.observe(plan, batch).as_dict(), Observation)
        if found.why is None:
            check_ledger(found.ledger, f"the ledger of {name}", "start again with --restart")
        return found

    def check(self, plan: PluginPlan, batch: int | None) -> Accuracy:
        """Return the remembered result, or ask the workbench."""
        name = f"check {batch} {plan.key}"
        return self._journal.step(name, lambda: self._bench.check(plan, batch).as_dict(), Accuracy)

    def compare(self, plans: tuple[PluginPlan, ...], batch: int | None, *, chosen: bool = False) -> tuple[Stats, ...]:
        """Return the remembered result, or ask the workbench."""
        name = f"compare {'chosen ' * chosen}{batch} {' '.join(plan.key for plan in plans)}"
        return self._journal.step(
            name,
            lambda: [stats.as_json() for stats in self._bench.compare(plans, batch, chosen=chosen)],
            tuple[Stats, ...],
        )

    def floor_us(self, nodes: tuple[str, ...], batch: int | None) -> float:
        """Ask the workbench: this time is computed, not measured."""
        return self._bench.floor_us(nodes, batch)
