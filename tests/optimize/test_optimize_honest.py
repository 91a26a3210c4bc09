"""Optimize says what its answer is worth: no timing without a GPU, no promise beyond the inference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lenet_trt.cli import main
from lenet_trt.cuda.gpus import first_gpu
from lenet_trt.export.cases import MatMulCase, matmul_onnx
from lenet_trt.optimize.loop import optimize_at
from lenet_trt.optimize.markdown import optimize_headline
from lenet_trt.optimize.records import Observation, ObservedRow
from lenet_trt.optimize.space import PluginPlan
from optimize_clock import SLOW, Clock, lenet5_space


@pytest.mark.skipif(first_gpu() is not None, reason="there is a GPU here")
def test_without_a_gpu_optimize_refuses_and_says_what_can_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matmul_onnx(tmp_path / "m.onnx", MatMulCase(dims=(8, 4, 1, 1, 4)))
    assert main(["optimize", str(tmp_path / "m.onnx")]) == 1
    said = capsys.readouterr().err
    assert "there is none here" in said
    assert "--runtime ort-cpu" in said
    assert not (tmp_path / "m.optimized").exists()


def test_a_rehearsal_says_so_once_and_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matmul_onnx(tmp_path / "m.onnx", MatMulCase(dims=(8, 4, 1, 1, 4)))
    assert main(["optimize", str(tmp_path / "m.onnx"), "--runtime", "ort-cpu"]) == 0
    said = capsys.readouterr()
    assert (said.out + said.err).count("a rehearsal on the host") == 1
    record = json.loads((tmp_path / "m.optimized" / "optimize.json").read_text())
    lines = optimize_headline(record)
    assert lines[0].startswith("a rehearsal on the host")
    assert said.out.splitlines()[0] == lines[0]
    assert "nothing was faster" not in said.out
    assert "rehearsal" in (tmp_path / "m.optimized" / "optimize.md").read_text()


def test_a_record_of_a_gpu_is_no_rehearsal() -> None:
    stats = {"median_us": 5.0, "low_us": 4.9, "high_us": 5.1}
    record = {"chosen": [{"batch": 1, "plan": [], "times": [{"plan": [], **stats}]}], "crossings": []}
    assert optimize_headline(record) == [
        "batch 1: the model stays as it is, 5.00 us [4.90, 5.10]: nothing was faster beyond the noise"
    ]


class SlowTracer(Clock):
    """A workbench whose tracer makes everything take a hundred times as long."""

    def observe(self, plan: PluginPlan, batch: int | None) -> Observation:
        costs = self.costs(plan, batch)
        rows = tuple(ObservedRow(node, (node,), 100 * us, 0.0) for node, us in costs.items())
        return Observation(sum(row.cost_us for row in rows), rows)


@pytest.mark.parametrize("kernels", [SLOW, dict.fromkeys(SLOW, 1.0)], ids=["nothing is faster", "all are faster"])
def test_a_promise_is_never_larger_than_the_inference(kernels: dict[str, float]) -> None:
    bench = SlowTracer(lenet5_space(), kernels)
    outcome = optimize_at(1, lenet5_space(), bench)
    assert outcome.trials
    for trial in outcome.trials:
        assert 0 < trial.promise_us <= sum(bench.costs(trial.before, 1).values()) * 1.01
