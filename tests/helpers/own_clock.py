"""A clock that only the test moves, for tests of what is done with times: a busy machine cannot change them."""

from __future__ import annotations

from types import ModuleType

import pytest

_READING_NS = 1000  # so that nothing takes no time at all


class OwnClock:
    """Stands in for the module ``time``: sleeping moves it, and so does reading it, by a microsecond."""

    def __init__(self) -> None:
        self._now_ns = 0

    def perf_counter_ns(self) -> int:
        self._now_ns += _READING_NS
        return self._now_ns

    def perf_counter(self) -> float:
        return self.perf_counter_ns() / 1e9

    def sleep(self, seconds: float) -> None:
        self._now_ns += round(seconds * 1e9)


def own_clock(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> OwnClock:
    """Give modules that measure a clock of the test's own."""
    clock = OwnClock()
    for module in modules:
        monkeypatch.setattr(module, "time", clock)
    return clock
