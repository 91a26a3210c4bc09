"""Timing on a real GPU: what takes twice as long is seen to, and the host's time counts only where it should."""

from __future__ import annotations

import time

import pytest

from lenet_trt.cuda.environment import clocks, environment
from lenet_trt.cuda.timing import Timed, TimingPlan, time_in_turns

torch = pytest.importorskip("torch")
CYCLES = 200_000


def _spin(cycles: int) -> None:
    torch.cuda._sleep(cycles)


def test_twice_the_work_takes_twice_as_long() -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        result = time_in_turns(
            {"once": Timed([lambda: _spin(CYCLES)]), "twice": Timed([lambda: _spin(2 * CYCLES)])},
            stream.cuda_stream,
            lambda us: _spin(int(us * 2000)),
            TimingPlan(rounds=5),
        )
    assert result["once"].count == TimingPlan(rounds=5).timings
    assert result["twice"].median_us / result["once"].median_us == pytest.approx(2, rel=0.05)


def test_the_hosts_time_counts_only_without_hold() -> None:
    host_s = 0.002

    def slow_host() -> None:
        time.sleep(host_s)
        _spin(CYCLES // 100)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        result = time_in_turns(
            {"held": Timed([slow_host]), "not held": Timed([slow_host], hold=False)},
            stream.cuda_stream,
            lambda us: _spin(int(us * 2000)),
            TimingPlan(rounds=2, burst=4),
        )
    assert result["not held"].median_us > host_s * 1e6
    assert result["held"].median_us < host_s * 1e6 / 10


def test_the_environment_names_the_gpu_and_its_clock() -> None:
    here = environment()
    assert here["gpu"] == torch.cuda.get_device_name().strip("\0 ")
    assert here["multiprocessors"] == torch.cuda.get_device_properties(0).multi_processor_count
    assert clocks().sm_mhz > 0
