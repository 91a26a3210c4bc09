"""The suite ``cold``: real cold starts of ONNX Runtime on the CPU, what rows without a GPU say, tables and pictures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lenet_trt.bench import cold
from lenet_trt.bench.cold import NAMES, STARTS, Start, started
from lenet_trt.bench.cold_child import PHASES
from lenet_trt.bench.cold_tables import OURS, OURS_EARLY, OURS_GRAPH, STEPS, TORCH, charts, columns, remedies, summaries
from lenet_trt.bench.record import Record, Row, as_json, parse
from lenet_trt.bench.suite import Recording, SuiteOptions
from lenet_trt.bench.tables import table
from lenet_trt.cli import main
from lenet_trt.cuda.gpus import gpus
from lenet_trt.draw.charts import render
from lenet_trt.errors import LenetTrtError

needs_no_gpu = pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU, on which more rows are measured")


@needs_no_gpu
def test_the_suite_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "cold", "--quick", "--batch", "3", "-o", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    record = parse((tmp_path / "cold.json").read_text(), "cold.json")
    assert {(row.backend, row.case["loading"], row.case["caches"]) for row in record.rows} == {
        (NAMES[start.backend], start.loading, start.caches) for start in STARTS if start.quick
    }
    (row,) = record.timed
    assert (row.backend, row.case["batch"]) == ("ONNX Runtime CPU", 3)
    assert row.stats is not None
    assert row.stats.count == 3
    assert row.extra["error"] < 1e-5
    phases = row.extra["phases"]
    assert list(phases) == ["python", "import", "load", "first"]
    assert all(phase["min_us"] > 0 for phase in phases.values())
    # Every moment from the start of the process to the answer is in a phase.
    lows, highs = (sum(phase[key] for phase in phases.values()) for key in ("min_us", "max_us"))
    assert lows * 0.999 <= row.stats.min_us <= row.stats.max_us <= highs * 1.001
    assert row.extra["steady_us"] < row.extra["ready_us"] < row.extra["preloaded_us"] < row.stats.median_us
    for other in record.rows:
        assert other is row or "it needs a CUDA GPU: no NVIDIA driver" in str(other.why)
    assert "What each remedy saves:" in said
    assert "ONNX Runtime CPU  preload (imports and context before the request)" in said
    assert {path.name for path in tmp_path.iterdir()} == {"cold.json", "cold.csv", "cold.svg"}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> cold.Given:
    return cold.write_given(tmp_path_factory.mktemp("cold"), 2)


def test_an_answer_that_is_wrong_is_no_timing(given: cold.Given) -> None:
    start = Start("ort-cpu", loading="", caches="")
    answer = started(start, given)
    assert set(answer["phases_ns"]) <= set(PHASES)
    wrong = replace(given, wanted=given.wanted + 1)
    with pytest.raises(LenetTrtError, match="its answer is wrong: relative error"):
        started(start, wrong)


@needs_no_gpu
def test_a_process_that_fails_says_why(given: cold.Given) -> None:
    for backend in ("ours", "ours-graph", "ours-early"):
        with pytest.raises(LenetTrtError, match=r"there is no NVIDIA driver on this machine \(libcuda"):
            started(Start(backend), given)
    given.model("tensorrt").write_bytes(b"no engine")
    with pytest.raises(LenetTrtError):
        started(Start("tensorrt"), given)


def test_an_interruption_leaves_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def interrupted(start: Start, given: cold.Given) -> Mapping[str, Any]:
        calls.append(start)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return started(start, given)

    monkeypatch.setattr(cold, "STARTS", (Start("ort-cpu", "", "", quick=True),))
    monkeypatch.setattr(cold, "started", interrupted)
    record = cold.measure(SuiteOptions(quick=True))
    assert record.interrupted
    (row,) = record.rows
    assert row.stats is not None
    assert row.stats.count == 2  # the first process does not count


def test_a_configuration_that_fails_is_left_out_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    failing, good = Start("ours", quick=True), Start("ort-cpu", "", "", quick=True)
    monkeypatch.setattr(cold, "STARTS", (failing, good))
    monkeypatch.setattr(cold, "start_obstacle", lambda backend, given, options: None)

    def maybe(start: Start, given: cold.Given) -> Mapping[str, Any]:
        if start is failing:
            raise LenetTrtError("it does not start")
        return started(start, given)

    monkeypatch.setattr(cold, "started", maybe)
    record = cold.measure(SuiteOptions(quick=True))
    assert [(row.backend, row.why, row.stats is None) for row in record.rows] == [
        (OURS, "it does not start", True),
        ("ONNX Runtime CPU", None, False),
    ]


# Rows as a GPU gives them, made up: only what is made of them is looked at.


def samples(seed: int, **phases_ms: float) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    noisy = lambda ms: float(ms * 1e6 * random.normal(1, 0.01))  # noqa: E731
    return [
        {
            "phases_ns": {name: noisy(phases_ms[name]) for name in PHASES if name in phases_ms},
            "second_ns": noisy(0.05),
            "steady_ns": noisy(0.02 if "prepare" in phases_ms else 0.03),
            "facts": {"loading": "lazy", "context_bytes": 500 << 20, "used_bytes": 520 << 20},
            "error": 1e-7,
        }
        for _ in range(10)
    ]


@pytest.fixture
def record() -> Record:
    found = Recording("cold", SuiteOptions(command="lenet-trt bench cold"))
    base = {"python": 20, "import": 250, "driver": 60, "context": 150, "load": 5, "compile": 1, "module": 2}
    ours = {**base, "weights": 1, "first": 0.1}
    torch = {"python": 20, "import": 2500, "driver": 60, "context": 150, "libraries": 80, "weights": 3, "first": 90}
    torch["load"] = 10
    starts = [
        (Start("ours"), samples(1, **ours)),
        (Start("ours", caches="empty"), samples(2, **{**ours, "compile": 900})),
        (Start("ours", loading="eager"), samples(3, **ours)),
        (Start("ours-graph"), samples(4, **ours, prepare=0.5)),
        (Start("ours-early"), samples(7, **{**ours, "driver": 0.1, "context": 10})),
        (Start("torch"), samples(5, **torch)),
        (Start("torch", loading="eager"), samples(6, **{**torch, "libraries": 1500, "first": 20})),
    ]
    for _, entries in starts[-2:]:
        for entry in entries:
            entry["facts"] = {**entry["facts"], "first_by_layer_ns": {"conv1": 80_000_000, "relu1": 300_000}}
    for start, entries in starts:
        cold._add(found, start, 1, entries, None)
    cold._add(found, Start("tensorrt"), 1, [], "TensorRT-RTX does not take this GPU")
    return found.finish()


def test_remedies_say_what_they_save_and_what_makes_no_difference(record: Record) -> None:
    found = {(remedy.remedy.partition(" (")[0], remedy.backend): remedy for remedy in remedies(record.rows)}
    kept = found["keep compiled kernels on disk", OURS]
    assert kept.sure
    assert kept.saves_us == pytest.approx(899_000, rel=0.05)
    assert not found["load lazily", OURS].sure
    early = found["make the context while importing", OURS]
    assert early.sure
    assert early.saves_us == pytest.approx(200_000, rel=0.1)
    assert found["load lazily", OURS].saved() == "no difference beyond the noise"
    assert found["load lazily", TORCH].saves_us == pytest.approx(1_350_000, rel=0.1)
    preload = found["preload", TORCH]
    assert preload.sure
    assert preload.with_it.median_us == pytest.approx(103_000, rel=0.05)  # network, weights and first run are left
    later = found["CUDA graph, later answers", OURS]
    assert later.saves_us == pytest.approx(10, rel=0.2)
    assert json.loads(json.dumps(kept.as_json()))["sure"] is True
    few = [replace(each, count=2, samples_us=each.samples_us[:2]) for each in (kept.without, kept.with_it)]
    assert not replace(kept, without=few[0], with_it=few[1]).sure


def test_the_tables(record: Record) -> None:
    text = table(record.rows, columns(record))
    assert "TensorRT-RTX does not take this GPU" in text
    assert text.count("520 MiB") == 7
    saved, layers = summaries(record)
    assert len(saved.lines) == len(remedies(record.rows))
    (compiled,) = [line for line in saved.lines if line[1] == "keep compiled kernels on disk"]
    assert compiled[0] == OURS
    assert compiled[4].startswith("saves ")
    assert layers.lines == [[TORCH, "conv1", "80.00 ms"], [TORCH, "relu1", "300.0 us"]]
    assert {name for names in STEPS.values() for name in names} == set(PHASES), "a phase is in no picture"


def test_the_pictures(record: Record) -> None:
    first, second = charts(parse(as_json(record), "a record"))
    assert first.horizontal
    names = [OURS, f"{OURS}, caches empty", f"{OURS}, eager loading", OURS_GRAPH, OURS_EARLY]
    names += [TORCH, f"{TORCH}, eager loading"]
    assert all(list(series.x) == names for series in first.series)
    total = sum(dict(zip(series.x, series.y, strict=True))[OURS] or 0 for series in first.series)
    row = record.find(OURS, loading="lazy", caches="filled")
    assert row is not None
    assert row.stats is not None
    assert total == pytest.approx(row.stats.median_us / 1e6, rel=0.02)
    for line in second.series:
        values = [value for value in line.y if value is not None]
        assert values[0] > values[1] > values[2]
    svg = render([first, second], "svg")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert (
        charts(replace(record, rows=[Row("ours", {"batch": 1, "loading": "lazy", "caches": "filled"}, None, "no")]))
        == []
    )
