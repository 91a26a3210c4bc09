"""The kernels' suites on a real GPU: every contender computes what it should, and its times make sense."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from lenet_trt.bench import ladder, peers  # noqa: E402
from lenet_trt.bench.gains import PRODUCT  # noqa: E402
from lenet_trt.bench.gains import measured_workloads as measured  # noqa: E402
from lenet_trt.bench.record import Record, as_json, parse  # noqa: E402
from lenet_trt.bench.suite import SuiteOptions, recording  # noqa: E402
from lenet_trt.bench.workload import Workload, measure_workload  # noqa: E402
from lenet_trt.bench.workloads import Extent  # noqa: E402
from lenet_trt.cuda.timing import TimingPlan  # noqa: E402  # noqa: E402
from lenet_trt.floors.floor import Ceilings  # noqa: E402
from lenet_trt.kernel.registry import part  # noqa: E402

# Figures of no GPU: floors are only carried along here.
CEILINGS = Ceilings("G", "datasheet", 4e12, 4e12, 4e12, {"fp32": 5e13, "fp16": 7e14}, 2.5)
PLAN = TimingPlan(rounds=3, burst=4, settle=3, budget_s=2)
MOST_ERROR = {"fp32": 5e-6, "fp16": 2e-3}


def _measured(chosen: Iterator[Workload]) -> Record:
    peers.set_up_torch()
    stream = torch.cuda.Stream()
    with recording("kernels", SuiteOptions()) as found:
        for workload in chosen:
            measure_workload(workload, found, CEILINGS, 50 << 20, stream, PLAN)
    return parse(as_json(found.finish()), "it")


def _without_compiler(made: Iterator[Workload]) -> Iterator[Workload]:
    for workload in made:
        quick = [each for each in workload.contenders if "compile" not in each.name]
        yield replace(workload, contenders=quick)


def test_every_contender_of_lenet5_is_right_and_ours_is_the_fastest() -> None:
    lenet5 = part("lenet5", "workloads")
    assert lenet5 is not None
    record = _measured(_without_compiler(lenet5.workloads(Extent((1, 10_000), quick=True))))
    assert len(record.details["workloads"]) == 4
    for workload in measured(record):
        for row in workload.rows:
            assert row.stats is not None, row.why
            assert row.extra["error"] <= MOST_ERROR[workload.facts["precision"]], row.key
            if workload.facts["axes"]["n"] == 10_000:
                assert row.extra["accuracy"] == pytest.approx(0.9934, abs=0.001), row.key
        product, peer = workload.product, workload.best_peer
        assert product is not None
        assert peer is not None
        assert product.stats.high_us < peer.stats.low_us
    assert record.clocks[-1]["sm_mhz"] > 300


def test_every_step_computes_the_same_and_a_failing_contender_is_a_row() -> None:
    def chosen() -> Iterator[Workload]:
        for workload in ladder._workloads(SuiteOptions(batches=(32,))):
            if "lenet5" in workload.name:
                broken = replace(workload.contenders[0], name="broken", prepare=lambda inputs: 1 / 0)
                yield replace(workload, contenders=[*workload.contenders, broken])

    record = _measured(chosen())
    (lenet5,) = measured(record)
    steps = [row for row in lenet5.rows if row.extra.get("step") and row.backend != "broken"]
    assert len(steps) == 5
    for row in [*steps, lenet5.product]:
        assert row is not None
        assert row.stats is not None, row.why
        assert row.extra["error"] <= MOST_ERROR["fp32"], row.backend
    (broken,) = [row for row in lenet5.rows if row.backend == "broken"]
    assert "ZeroDivisionError" in str(broken.why)
    first, last = lenet5.ordered()[0], lenet5.product
    assert first.case["mode"] == "eager"
    assert last is not None
    assert last.backend == PRODUCT
    assert last.stats.median_us < first.stats.median_us
