"""Time requests one by one, by the host's clock."""

from __future__ import annotations

import itertools
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Request: TypeAlias = Callable[[NDArray[Any]], Any]


@dataclass(frozen=True)
class RequestPlan:
    """Say how many requests are timed: ``rounds`` turns of each answerer, each of ``seconds`` and at most ``most``.

    Before each turn ``warmups`` requests are not counted.
    """

    rounds: int = 3
    seconds: float = 1.5
    most: int = 350_000
    warmups: int = 300

    @property
    def shorter(self) -> RequestPlan:
        """Return the plan for turns beside other work, where percentiles are further apart."""
        return replace(self, seconds=self.seconds / 3)

    @property
    def longer(self) -> RequestPlan:
        """Return the plan for a million requests: turns as long as ``most`` requests of 25 us."""
        return replace(self, seconds=6 * self.seconds)


QUICK = RequestPlan(rounds=2, seconds=0.1, most=2_000, warmups=50)


def waits_of(
    request: Request, images: Sequence[NDArray[Any]], plan: RequestPlan, before: Callable[[], None] | None = None
) -> NDArray[np.float64]:
    """Take one turn: make requests, and return the wait of each in microseconds; ``before`` each is not timed."""
    clock = time.perf_counter_ns
    endless = itertools.cycle(images)
    for image in itertools.islice(endless, plan.warmups):
        if before is not None:
            before()
        request(image)
    times = array("q")
    keep = times.append
    end = clock()
    deadline = end + int(plan.seconds * 1e9)
    for image in itertools.islice(endless, plan.most):
        if before is not None:
            before()
        begin = clock()
        request(image)
        end = clock()
        keep(end - begin)
        if end > deadline:
            break
    return np.frombuffer(times, np.int64) / 1e3
