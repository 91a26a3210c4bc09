"""The floor's arithmetic: which bandwidth, which rate, and that a floor never rises when less is to be done."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lenet_trt.floors.ceilings import datasheet
from lenet_trt.floors.floor import Ceilings, Work, arithmetic_us, bandwidth, bound_by, floor_us, floors, memory_us

# Round numbers: 1 us a MB copied, 0.8 us a MB read, 0.5 us a MB written, 10 us a GFLOP in fp32, 1 us in fp16.
CEILINGS = Ceilings("a GPU", "datasheet", 1.25e12, 2e12, 1e12, {"fp32": 100e12, "fp16": 1000e12}, launch_us=2.0)
AMOUNT = st.integers(0, 10**15)
WORK = st.builds(Work, AMOUNT, AMOUNT, AMOUNT)


def test_memory_is_held_against_the_bandwidth_of_its_kind() -> None:
    assert memory_us(Work(900_000_000, 100_000_000, 0), CEILINGS) == pytest.approx(800)  # mostly reads
    assert memory_us(Work(500_000_000, 500_000_000, 0), CEILINGS) == pytest.approx(1000)  # a copy
    assert memory_us(Work(100_000_000, 900_000_000, 0), CEILINGS) == pytest.approx(500)  # mostly writes


def test_arithmetic_is_held_against_the_rate_of_its_kind() -> None:
    work = Work(0, 0, 1_000_000_000)
    assert arithmetic_us(work, "fp32", CEILINGS) == pytest.approx(10)
    assert arithmetic_us(work, "split", CEILINGS) == pytest.approx(3)  # three products
    assert arithmetic_us(work, "fp16", CEILINGS) == pytest.approx(1)


def test_what_a_gpu_has_no_rate_for_runs_as_multiply_adds() -> None:
    old = replace(CEILINGS, flop_per_s={"fp32": 8e12})
    assert old.rate("bf16") == old.rate("tf32") == old.rate("split") == 8e12


def test_floats_are_split_only_where_that_is_faster() -> None:
    assert CEILINGS.rate("split") == pytest.approx(1000e12 / 3)
    assert replace(CEILINGS, flop_per_s={"fp32": 82.6e12, "fp16": 165.2e12}).rate("split") == 82.6e12


def test_products_of_bytes_run_at_the_rates_of_the_data_sheets() -> None:
    # Source: Ampere A100 (624 TOPS), GA102 (GeForce RTX 3090: 284) and Ada (GeForce RTX 4090: 660.6) documents, dense.
    for gpu, tops in {"A100 80GB SXM": 624, "GeForce RTX 3090": 284, "GeForce RTX 4090": 660.6}.items():
        assert datasheet(gpu).rate("int8") == pytest.approx(tops * 1e12, rel=0.001)


def test_the_floor_is_the_longer_time_after_the_launch() -> None:
    work = Work(5_000_000, 5_000_000, 1_000_000_000)  # 10 us to move, 10 / 3 / 1 us to compute
    assert floor_us(work, "fp16", CEILINGS, launch=False) == pytest.approx(10)
    assert floor_us(work, "fp16", CEILINGS, launch=True) == pytest.approx(12)
    heavy = Work(1_000, 1_000, 1_000_000_000)
    assert floors(heavy, "fp32", CEILINGS, launch=True) == {"fp32": pytest.approx(12), "split": pytest.approx(5)}
    assert floors(heavy, "fp16", CEILINGS, launch=False) == {"fp16": pytest.approx(1)}


def test_work_says_what_bounds_it_and_how_intense_it_is() -> None:
    assert bound_by(Work(5_000_000, 5_000_000, 999_000_000), "fp32", CEILINGS) == "memory"
    assert bound_by(Work(5_000_000, 5_000_000, 1_001_000_000), "fp32", CEILINGS) == "arithmetic"
    assert Work(3, 1, 8).intensity == 2.0
    assert Work(0, 0, 0).intensity == 0.0
    assert Work(0, 0, 1).intensity == float("inf")


def test_nothing_to_do_takes_no_time() -> None:
    assert floor_us(Work(0, 0, 0), "fp32", CEILINGS, launch=False) == 0.0


@given(WORK, WORK)
def test_work_adds_up(a: Work, b: Work) -> None:
    both = a + b
    assert both == b + a
    assert both.total_bytes == a.total_bytes + b.total_bytes
    assert arithmetic_us(both, "fp32", CEILINGS) == pytest.approx(
        arithmetic_us(a, "fp32", CEILINGS) + arithmetic_us(b, "fp32", CEILINGS)
    )


@given(WORK, st.sampled_from(["fp32", "split", "fp16", "bf16"]))
def test_no_floor_beats_the_best_bandwidth_or_the_best_rate(work: Work, arithmetic: str) -> None:
    best = max(CEILINGS.read_bytes_per_s, CEILINGS.write_bytes_per_s, CEILINGS.copy_bytes_per_s)
    assert bandwidth(work, CEILINGS) <= best
    least = max(work.total_bytes / best, work.flops / max(CEILINGS.flop_per_s.values())) * 1e6
    assert floor_us(work, arithmetic, CEILINGS, launch=False) >= least * (1 - 1e-12)
