"""The suite ``latency``: its percentiles, its turns, its tables, and what it says without a GPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lenet_trt.bench.latency import ledger, loads, requests
from lenet_trt.bench.latency.answerers import ANSWERERS, Answerer, OpenAnswerer, Setting
from lenet_trt.bench.latency.ledger import ECHO, PROBES, parts_of
from lenet_trt.bench.latency.percentiles import PERCENTILES, curve, described, percentile
from lenet_trt.bench.latency.requests import RequestPlan, waits_of
from lenet_trt.bench.latency.suite import measure_latency
from lenet_trt.bench.latency.tables import charts, columns, summaries
from lenet_trt.bench.record import as_json, parse
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.bench.tables import record_warnings, table
from lenet_trt.cli import main
from lenet_trt.cuda.compile import compile_variant
from lenet_trt.cuda.gpus import gpus
from lenet_trt.draw.charts import render
from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.latency.exchange import Exchange
from own_clock import own_clock

IMAGES = [np.full((1, 4), value, np.float32) for value in range(3)]


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, 9999, 10_000, 123_457])
def test_percentiles_are_waits_that_so_many_requests_do_not_exceed(count: int) -> None:
    waits = np.random.default_rng(count).lognormal(size=count)
    ordered = np.sort(waits)
    for share in PERCENTILES.values():
        found = percentile(ordered, share)
        if round(count * (1 - share), 9) < 1:
            assert found is None, "one slow request is no percentile"
            continue
        assert found in waits
        assert (waits <= found).sum() >= round(share * count, 6)
        assert (waits < found).sum() < share * count


def test_the_curve_goes_from_the_median_to_the_slowest_request() -> None:
    waits = np.sort(np.random.default_rng(1).lognormal(size=50_000))
    points = curve(waits)
    x, y = np.array(points).T
    assert (np.diff(x) > 0).all()
    assert (np.diff(y) >= 0).all()
    assert x[0] == pytest.approx(2, rel=1e-3)
    assert (x[-1], y[-1]) == (50_000, waits[-1])
    for one_in, wait in points:
        assert (waits >= wait).sum() == round(len(waits) / one_in)
    assert described(waits)["percentiles"]["50"] == pytest.approx(np.median(waits), rel=1e-3)


def test_a_turn_times_requests_and_not_what_comes_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = own_clock(monkeypatch, requests)
    seen: list[float] = []

    def request(image: np.ndarray) -> None:
        seen.append(float(image[0, 0]))
        clock.sleep(0.002)

    plan = RequestPlan(rounds=1, seconds=60, most=7, warmups=2)
    waits = waits_of(request, IMAGES, plan, lambda: clock.sleep(0.05))
    assert len(waits) == 7
    assert seen == [0, 1, 2, 0, 1, 2, 0, 1, 2], "other images each time"
    assert waits.tolist() == pytest.approx([2001] * 7), "reading the clock takes a microsecond"
    assert len(waits_of(request, IMAGES, RequestPlan(1, 0.02, 10**6, 0))) == 10, "the turn ends after its time"


def test_the_kernel_that_stays_gets_a_million_requests() -> None:
    plan = requests.RequestPlan().longer
    assert plan.rounds * plan.most >= 10**6
    assert plan.seconds > 20e-6 * plan.most, "a turn does not end before"


def right(image: np.ndarray) -> np.ndarray:
    from lenet_trt.export.weights import load_weights
    from lenet_trt.kernel.registry import kernel

    declared, weights = kernel("lenet5"), load_weights()
    return np.asarray(declared.reference(image, *(weights[t.name.replace("_", ".")] for t in declared.inputs[1:])))


def opens(request: Any) -> Any:
    return lambda setting: OpenAnswerer(request)


def refuses(setting: Setting) -> OpenAnswerer:
    raise LenetTrtError("it is not installed")


def breaks(image: np.ndarray) -> np.ndarray:
    if breaks.calls > 66:  # type: ignore[attr-defined]
        raise LenetTrtError("the GPU is lost")
    breaks.calls += 1  # type: ignore[attr-defined]
    return right(image)


breaks.calls = 0  # type: ignore[attr-defined]
FEW = RequestPlan(rounds=2, seconds=5.0, most=20, warmups=1)


@pytest.mark.slow
def test_contenders_that_fail_or_are_wrong_keep_their_reason_and_others_go_on(tmp_path: Path) -> None:
    answerers = (
        Answerer("right", "", opens(right), gpu=False, ours=True),
        Answerer("wrong", "", opens(lambda image: right(image) + 1), gpu=False),
        Answerer("not here", "", refuses, gpu=False),
        Answerer("breaks", "", opens(breaks), gpu=False),
    )
    record = measure_latency(SuiteOptions(quick=True), answerers, FEW)
    rows = {(row.backend, row.case["load"]): row for row in record.rows}
    for load in (loads.IDLE, loads.CPU) if not gpus().devices else (loads.IDLE,):
        row = rows["right", load]
        assert row.stats is not None
        assert row.stats.count == 40
        assert row.stats.low_us <= row.stats.median_us <= row.stats.high_us
        assert row.extra["percentiles"]["50"] <= row.extra["percentiles"]["90"] <= row.stats.max_us
        assert "99" not in row.extra["percentiles"], "40 requests do not tell"
    assert "gives wrong logits" in str(rows["wrong", loads.IDLE].why)
    assert rows["not here", loads.IDLE].why == "it is not installed"
    assert rows["breaks", loads.IDLE].why == "the GPU is lost"
    said = table(record.rows, columns(record))
    assert "the GPU is lost" in said
    assert as_json(parse(as_json(record), "a test")) == as_json(record)
    assert render(charts(record), "svg").startswith(b"<?xml")
    assert record_warnings(record) is not None


def test_the_load_on_the_processor_begins_and_ends() -> None:
    def busy() -> int:
        name = loads._CHILD.encode()
        found = 0
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and folder.joinpath("status").exists():
                try:
                    command = folder.joinpath("cmdline").read_bytes().split(b"\0")
                    parent = folder.joinpath("stat").read_text().rsplit(")", 1)[1].split()[1]
                except OSError:
                    continue
                found += name in command and int(parent) == os.getpid()
        return found

    with loads.other_work(loads.CPU) as before:
        assert before is None
        assert busy() == len(os.sched_getaffinity(0))
    assert busy() == 0


def test_the_parts_of_a_request_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = own_clock(monkeypatch, ledger)
    target, answer = np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32)

    def submit() -> None:
        clock.sleep(0.003)
        answer[...] = target

    parts = parts_of(Exchange([target], [answer], submit, lambda: True), IMAGES, 20)
    assert parts.submit == pytest.approx(3001)
    assert [parts.wait, parts.copy_in, parts.copy_out] == [1, 1, 1], "reading the clock takes a microsecond"


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_the_probes_compile(probe: Any) -> None:
    bound = probe.bind_axes({"n": 784}, probe.types[0])
    for sm in (75, 90):
        assert compile_variant(bound.specialized, probe.variants[0], f"sm_{sm}").image


def test_the_echo_compiles_and_takes_what_the_resident_kernel_takes() -> None:
    bound = ECHO.bind_axes({"n": 1}, ECHO.types[0])
    assert ECHO.resident is not None
    for sm in (90, 120):
        assert compile_variant(bound.specialized, ECHO.resident, f"sm_{sm}").image


def test_names_differ() -> None:
    assert len({each.name for each in ANSWERERS}) == len(ANSWERERS)


def test_the_ledger_is_a_table_that_adds_up() -> None:
    record = measure_latency(SuiteOptions(quick=True, only=("nobody",)), (), FEW)
    assert not summaries(record)
    record.details["ledger"] = {"path": [{"term": "one", "us": 2.0}, {"term": "two", "us": 6.0}]}  # type: ignore[index]
    (found,) = summaries(record)
    assert "the path" in found.title
    assert [line[1] for line in found.lines] == ["2.00 us", "6.00 us", "8.00 us"]
    assert [line[2] for line in found.lines] == ["25%", "75%", "100%"]


@pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU, which is measured")
def test_without_a_gpu_the_processor_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "latency", "--quick", "-o", str(tmp_path), "--only", "ONNX Runtime CPU, 1", "resident"]) == 0
    said = capsys.readouterr().out
    assert said.count("it needs a CUDA GPU: no NVIDIA driver") == 2
    assert "ONNX Runtime CPU, 1 thread" in said
    assert {path.name for path in tmp_path.iterdir()} == {"latency.json", "latency.csv", "latency.svg"}
