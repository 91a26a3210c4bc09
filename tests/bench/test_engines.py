"""The suite ``engines``, with a script in trtexec's place that runs the plain model by ONNX Runtime.

What a real trtexec and a real plugin library do is measured on a GPU; here is shown that the right engines are built
with the right flags and shapes, compared with float64 and timed in turns.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from lenet_trt.bench import engines
from lenet_trt.bench.engine_workloads import ITERATIONS, OURS, SLOW_ITERATIONS, THEIRS
from lenet_trt.bench.record import Record
from lenet_trt.bench.resume import joined
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.errors import UsageError
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.onnx_model.precision import half_inputs_and_outputs
from trtexec_script import GPU, script_for_trtexec, write_library


@pytest.fixture
def trtexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(engines, "first_gpu", lambda: GPU)
    return script_for_trtexec(tmp_path, monkeypatch)


def options(program: Path, **changes: object) -> SuiteOptions:
    values: dict[str, object] = {"quick": True, "trtexec": str(program), "library": program.with_name("plugins.so")}
    return SuiteOptions(**{**values, **changes})  # type: ignore[arg-type]


def calls(program: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(f"{program}.calls").read_text().splitlines()]


def test_engines_are_built_compared_and_timed(trtexec: Path) -> None:
    record = engines.measure(options(trtexec, batches=(1, 32)))
    assert record.details["trtexec"] == "trtexec 8.6.0"
    times = {(row.backend, row.case["batch"]): row.stats.median_us for row in record.timed if row.stats}
    assert times[OURS, 1] == times[OURS, 32] == 5
    assert times[THEIRS, 1] == times[f"{THEIRS}, TF32", 32] == times[f"{THEIRS}, level 5", 1] == 20
    assert all(0 < row.extra["error"] < 1e-6 for row in record.timed)
    assert all(0 < row.extra["max_error"] < 1e-6 for row in record.timed)
    assert all(row.extra["layers"] == ["conv1 + relu1: sm80_xmma", "a reformat"] for row in record.timed)
    faster = next(column for column in engines.columns(record) if column.heading == "it / ours")
    assert {faster.text(row) for row in record.rows} == {"4", "-"}
    assert len(engines.charts(record)) == 1

    built = [call for call in calls(trtexec) if "saveEngine" in call]
    assert all("buildOnly" in call for call in built)
    ours = [call for call in built if "staticPlugins" in call]
    assert len(ours) == 1, "one engine of ours serves all batches"
    assert ours[0]["maxShapes"] == "images:10000x1x28x28"
    assert {call["optShapes"] for call in built} == {"images:1x1x28x28", "images:32x1x28x28"}
    assert [call for call in built if "noTF32" not in call], "TensorRT may use TF32 in one of its rows"
    timed = [call for call in calls(trtexec) if "exportTimes" in call]
    assert all({"useCudaGraph", "useSpinWait", "noDataTransfers"} <= set(call) for call in timed)
    assert not [call for call in built if "avgTiming" in call]
    assert {call["iterations"] for call in timed} == {str(ITERATIONS)}


def test_layers_that_take_long_are_built_and_timed_in_fewer_turns(
    trtexec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workload,) = engines.engine_workloads(SuiteOptions(batches=(1,)))
    monkeypatch.setattr(engines, "engine_workloads", lambda _: [replace(workload, slow=True)])
    engines.measure(options(trtexec))
    assert all(call["avgTiming"] == "1" for call in calls(trtexec) if "saveEngine" in call)
    timed = [(call["iterations"], "staticPlugins" in call) for call in calls(trtexec) if "exportTimes" in call]
    assert set(timed) == {(str(SLOW_ITERATIONS), False), (str(ITERATIONS), True)}


def test_a_build_that_fails_is_a_row_with_its_reason(trtexec: Path) -> None:
    record = engines.measure(options(trtexec, batches=(1,), trtexec_flags=("--fails",)))
    assert not record.timed
    assert all("the builder refuses" in str(row.why) for row in record.rows)


def test_a_build_without_the_real_cublas_says_what_to_do(trtexec: Path) -> None:
    record = engines.measure(options(trtexec, batches=(1,), trtexec_flags=("--noCublas",)))
    (ours,) = (row for row in record.rows if row.backend == OURS)
    assert "--trtexec-flags tacticSources=-CUDNN,-CUBLAS,-CUBLAS_LT" in str(ours.why)


def test_a_library_of_another_major_is_the_reason_of_our_rows_alone(trtexec: Path) -> None:
    write_library(trtexec.with_name("plugins.so"), "10.3")
    record = engines.measure(options(trtexec, batches=(1,)))
    assert {row.backend for row in record.timed} == {THEIRS, f"{THEIRS}, TF32", f"{THEIRS}, level 5"}
    (ours,) = (row for row in record.rows if row.backend == OURS)
    assert "is a plugin library for TensorRT 10.3, and trtexec 8.6.0 is used" in str(ours.why)


def test_what_is_missing_is_said(trtexec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = engines.measure(options(trtexec, library=trtexec.with_name("none.so")))
    assert "lenet-trt library" in str(record.rows[0].why)
    monkeypatch.setattr(engines, "first_gpu", lambda: None)
    assert "there is none here" in str(engines.measure(options(trtexec)).rows[0].why)


@pytest.mark.parametrize(
    "kernel", ["topk", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lstm", "add_layer_norm"))]
)
def test_all_outputs_of_a_kernel_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    monkeypatch.setattr(engines, "first_gpu", lambda: GPU)
    program = script_for_trtexec(tmp_path, monkeypatch, f"kernel {kernel} fp32")
    record = engines.measure(options(program))
    assert {row.backend for row in record.timed} == {OURS, THEIRS}
    assert all(row.extra["right"] and row.extra["max_error"] < 1e-5 for row in record.timed)

    text = program.read_text()
    program.write_text(text.replace('"values": y.ravel()', '"values": (y * 1.5).ravel()'))
    assert not any(row.extra["right"] for row in engines.measure(options(program)).timed)
    last = "reversed(list(zip(session.get_outputs(), session.run(None, inputs))))"
    program.write_text(text.replace(last, f"list({last})[1:]"))
    assert all("are missing" in str(row.why) for row in engines.measure(options(program)).rows)


def test_a_half_precision_model_has_no_casts_at_its_border() -> None:
    model = half_inputs_and_outputs(onnx.load(SHIPPED))
    assert "Cast" not in {node.op_type for node in model.graph.node}
    kinds = {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    assert kinds == {onnx.TensorProto.FLOAT16}
    from onnx.reference import ReferenceEvaluator

    x = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
    exact = ReferenceEvaluator(onnx.load(SHIPPED)).run(None, {"images": x})[0]
    half = ReferenceEvaluator(model).run(None, {"images": x.astype(np.float16)})[0]
    assert np.linalg.norm(half - exact) < 1e-2 * np.linalg.norm(exact)


def of_a_gpu(record: Record) -> Record:
    return replace(record, environment={**record.environment, "gpu": GPU.name})


def test_runs_of_several_machines_are_joined_without_measuring_again(trtexec: Path) -> None:
    parts = [of_a_gpu(engines.measure(options(trtexec, batches=(batch,)))) for batch in (1, 32)]
    before = len(calls(trtexec))
    whole = engines.measure(options(trtexec, batches=(1, 32), resume=joined(parts)))
    assert len(calls(trtexec)) == before
    assert {row.key for row in whole.rows} == {row.key for part in parts for row in part.rows}
    assert whole.seconds >= round(sum(part.seconds for part in parts), 1)


def test_a_row_without_a_time_is_measured_again(trtexec: Path) -> None:
    failed = of_a_gpu(engines.measure(options(trtexec, batches=(1,), trtexec_flags=("--fails",))))
    missing = {row.key for row in failed.rows if row.stats is None}
    assert missing
    again = engines.measure(options(trtexec, batches=(1,), resume=joined([failed])))
    assert missing <= {row.key for row in again.timed}
    assert len(again.rows) == len(failed.rows)


@pytest.mark.parametrize(
    "what", ["GPU", *(pytest.param(w, marks=pytest.mark.slow) for w in ("commit", "plugin library"))]
)
def test_records_that_do_not_belong_together_are_refused(trtexec: Path, what: str) -> None:
    one = of_a_gpu(engines.measure(options(trtexec, batches=(1,))))
    other = {
        "GPU": replace(one, environment={"gpu": "another"}),
        "commit": replace(one, commit="0" * 40),
        "plugin library": replace(one, details={**one.details, "library_sha256": "0" * 64}),
    }[what]
    with pytest.raises(UsageError, match=rf"the records are of {what} .* must not mix them"):
        joined([one, other])
    if what != "commit":  # a later commit may go on
        with pytest.raises(UsageError, match=f"the record's {what} is"):
            engines.measure(options(trtexec, resume=other))
