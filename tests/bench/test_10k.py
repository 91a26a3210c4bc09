"""The suite 10k without a GPU: real MNIST on the CPU, and a reason for everything else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.bench import ten_thousand
from lenet_trt.bench.backends import measure
from lenet_trt.bench.backends.listed import backend, backends
from lenet_trt.bench.backends.protocol import Backend, LabelledBatch, mnist
from lenet_trt.bench.backends.with_onnx import OrtCpuSession
from lenet_trt.bench.record import Record, as_json, parse
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.bench.tables import duration
from lenet_trt.cli import main
from lenet_trt.cuda.gpus import Gpus
from lenet_trt.draw.charts import render
from lenet_trt.errors import LenetTrtError

EVERY = backends()
CPU = [each for each in EVERY if each.place == "CPU"]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers of a machine without one, wherever the tests run."""
    monkeypatch.setattr(measure, "gpus", lambda: Gpus((), None, "there is none for this test"))


@pytest.fixture(scope="module")
def record() -> Record:
    return ten_thousand.measure_10k(SuiteOptions(quick=True), [backend("ONNX Runtime CPU")], 10_000)


def test_all_are_right(record: Record) -> None:
    (row,) = record.timed
    assert row.case == {"images": "host memory"}
    assert (row.extra["right"], row.extra["count"], row.extra["same_class"]) == (9934, 10_000, 10_000)
    assert row.extra["error"] < 1e-6
    assert row.stats is not None
    assert row.extra["images_per_s"] == pytest.approx(10_000 / row.stats.median_us * 1e6, rel=1e-3)


def test_it_survives_the_file_and_is_drawn(record: Record) -> None:
    again = parse(as_json(record), "a test")
    assert as_json(again) == as_json(record)
    picture = render(ten_thousand.charts(record), "svg").decode()
    assert all(duration(row.stats.median_us) in picture for row in record.timed)
    for said in ("ONNX Runtime CPU", "10,000 MNIST images"):
        assert said in picture


def test_a_backend_that_cannot_run_is_a_row() -> None:
    found = ten_thousand.measure_10k(SuiteOptions(quick=True), [each for each in EVERY if each not in CPU], 100)
    assert not found.timed
    assert [row.backend for row in found.rows] == [each.name for each in EVERY if each not in CPU]
    assert {row.why for row in found.rows} == {"needs a CUDA GPU: there is none for this test"}


@pytest.mark.parametrize("chosen", CPU, ids=lambda each: each.name)
def test_cpu_backends_are_right_at_any_batch(chosen: Backend) -> None:
    if chosen.name.startswith("torch"):
        pytest.importorskip("torch", reason="torch is not installed")
    session = chosen.open()
    for count in (1, 7, 1000):
        images = mnist(count)
        ready = session.prepare(images)
        ready()
        limit = 0.02 * np.abs(images.exact).max() if chosen.precision == "int8" else 2e-5
        np.testing.assert_allclose(ready.logits(), images.exact, rtol=0, atol=limit)
    session.close()


def test_threads_are_given_back() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    before = torch.get_num_threads()
    session = backend("torch CPU, 1 thread").open()
    session.prepare(mnist(1))()
    assert torch.get_num_threads() == 1
    session.close()
    assert torch.get_num_threads() == before


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = ten_thousand.measure_10k(SuiteOptions(quick=True), CPU, 100)
    why = {row.backend: row.why for row in found.rows}
    assert why["ONNX Runtime CPU"] is None
    for name in ("torch CPU", "torch CPU, 1 thread"):
        assert why[name] is not None
        assert why[name].startswith("torch is not installed (")
        assert why[name].endswith("pip install torch")


def test_images_start_again_where_there_are_no_more() -> None:
    many = mnist(10_003)
    assert len(many) == 10_003
    assert np.array_equal(many.host[10_000:], many.host[:3])
    assert np.array_equal(many.exact[10_000:], many.exact[:3])


class Wrong(OrtCpuSession):
    """Gives the answers in another order."""

    def prepare(self, images: LabelledBatch):
        ready = super().prepare(images)
        right = ready.logits
        ready.logits = lambda: right()[:, ::-1]
        return ready


class Broken(OrtCpuSession):
    def prepare(self, images: LabelledBatch):
        raise LenetTrtError("the batch is too large for this test")


def test_wrong_answers_and_failures_are_not_timed() -> None:
    chosen = [Backend("wrong", "", "CPU", Wrong), Backend("broken", "", "CPU", Broken), backend("ONNX Runtime CPU")]
    found = ten_thousand.measure_10k(SuiteOptions(quick=True), chosen, 50)
    assert [row.backend for row in found.timed] == ["ONNX Runtime CPU"]
    assert str(found.find("wrong").why).startswith("gives wrong logits: relative error")
    assert found.find("broken").why == "the batch is too large for this test"


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ten_thousand, "backends", lambda _: (backend("ONNX Runtime CPU"), backend("lenet5 kernel")))
    assert main(["bench", "10k", "--quick", "-o", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "9934/10000" in out
    assert "lenet5 kernel" in out
    assert "needs a CUDA GPU: there is none for this test" in out
    written = json.loads((tmp_path / "10k.json").read_text())
    assert written["rows"][0]["extra"]["right"] == 9934
    assert (tmp_path / "10k.svg").read_text().startswith("<?xml")
    assert (tmp_path / "10k.csv").read_text().count("\n") == 1 + len(written["rows"])
