"""What was measured already, on disk after each step: an interrupted run goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lenet_trt.cuda.statistics import Stats
from lenet_trt.files import sha256_bytes, write_atomic
from lenet_trt.optimize.loop import Workbench
from lenet_trt.optimize.records import Accuracy, Observation
from lenet_trt.optimize.space import Plan

SCHEMA = 1


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
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            return f"{self._path} cannot be read ({error}): starting again"
        if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("steps"), dict):
            return f"{self._path} is of another version: starting again"
        if data.get("key") != self._key:
            return "the model, the kernels, the machine or the options have changed since: starting again"
        self._steps = data["steps"]
        return f"going on: {len(self._steps)} steps were done before" if self._steps else None

    @property
    def resumes(self) -> bool:
        """Whether there is anything to go on from."""
        return bool(self._steps)

    def step(self, name: str, do: Callable[[], Any]) -> Any:
        """What the step gave when it was done, or what it gives now (plain values), on disk before this returns."""
        if name in self._steps:
            self.reused += 1
        else:
            self._steps[name] = json.loads(json.dumps(do()))  # the same values now and when they are read back
            data = {"schema": SCHEMA, "key": self._key, "steps": self._steps}
            write_atomic(self._path, json.dumps(data, separators=(",", ":")).encode())
        return self._steps[name]


class Remembered:
    """A workbench that does nothing twice."""

    def __init__(self, bench: Workbench, journal: Journal) -> None:
        self._bench, self._journal = bench, journal

    def observe(self, plan: Plan, batch: int | None) -> Observation:
        """As the workbench does."""
        name = f"observe {batch} {plan.key}"
        return Observation.from_dict(self._journal.step(name, lambda: self._bench.observe(plan, batch).as_dict()))

    def check(self, plan: Plan, batch: int | None) -> Accuracy:
        """As the workbench does."""
        name = f"check {batch} {plan.key}"
        return Accuracy(**self._journal.step(name, lambda: self._bench.check(plan, batch).as_dict()))

    def compare(self, plans: tuple[Plan, ...], batch: int | None) -> tuple[Stats, ...]:
        """As the workbench does."""
        name = f"compare {batch} {' '.join(plan.key for plan in plans)}"
        found = self._journal.step(name, lambda: [stats.as_json() for stats in self._bench.compare(plans, batch)])
        return tuple(map(Stats.from_json, found))

    def floor_us(self, nodes: tuple[str, ...], batch: int | None) -> float:
        """As the workbench does: worked out, not measured."""
        return self._bench.floor_us(nodes, batch)
