"""The suite ``engines``, with a script in trtexec's place that runs the plain model by ONNX Runtime.

What a real trtexec and a real plugin library do is measured on a GPU; here is shown that the right engines are built
with the right flags and shapes, compared with float64 and timed in turns.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from lenet_trt.bench import engines
from lenet_trt.bench.engines import OURS, THEIRS, EngineWorkload
from lenet_trt.bench.suite import Options
from lenet_trt.cuda.gpus import Gpu
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.onnx_model.precision import half_inputs_and_outputs

_TRTEXEC = """#!PYTHON
import json, pathlib, sys
import numpy as np, onnxruntime
options = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
print("&&&& RUNNING TensorRT.trtexec [TensorRT v8600] # trtexec")
if "help" in options:
    print("--loadEngine --iterations --duration --exportProfile --exportLayerInfo --exportTimes --buildOnly "
          "--useCudaGraph --useSpinWait --noDataTransfers --staticPlugins --noTF32")
    sys.exit()
with open(__file__ + ".calls", "a") as calls:
    calls.write(json.dumps(options) + "\\n")
if "saveEngine" in options:
    if "fails" in options:
        sys.exit("[E] the builder refuses")
    pathlib.Path(options["saveEngine"]).write_bytes(pathlib.Path(options["onnx"]).read_bytes())
    sys.exit(139)  # as trtexec 8.6 ends, the engine saved
if "exportTimes" in options:
    us = 5.0 if "staticPlugins" in options else 20.0
    entries = [{"computeMs": us / 1e3}] * int(options["iterations"])
    pathlib.Path(options["exportTimes"]).write_text(json.dumps(entries))
else:
    name, _, file = options["loadInputs"].partition(":")
    shape = [int(size) for size in options["shapes"].partition(":")[2].split("x")]
    x = np.fromfile(file, np.float32).reshape(shape)
    y = onnxruntime.InferenceSession("PLAIN").run(None, {name: x})[0]
    answer = [{"name": "y", "dimensions": "x".join(map(str, y.shape)), "values": y.ravel().tolist()}]
    pathlib.Path(options["exportOutput"]).write_text(json.dumps(answer))
"""


@pytest.fixture
def trtexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "trtexec"
    program.write_text(_TRTEXEC.replace("PYTHON", sys.executable).replace("PLAIN", str(SHIPPED)))
    program.chmod(0o755)
    write_library(tmp_path / "plugins.so", "8.6")
    monkeypatch.setattr(engines, "first_gpu", lambda: Gpu(0, "a GPU", 90, 1 << 30))
    # Kernels are not compiled here: what is embedded is tested elsewhere, and the script runs the plain model.
    plain = engines._workloads

    def workloads(options: Options, target: str) -> list[EngineWorkload]:
        assert target == "sm_90"
        found = next(iter(plain(options, target)))
        object.__setattr__(found, "embedded", lambda: found.plain)
        return [found]

    monkeypatch.setattr(engines, "_workloads", workloads)
    return program


def write_library(path: Path, version: str) -> None:
    """What is read of a plugin library before it is loaded."""
    path.write_bytes(b"\x7fELF lenet_trt plugin library for TensorRT " + version.encode() + b"\0")


def options(program: Path, **changes: object) -> Options:
    values: dict[str, object] = {"quick": True, "trtexec": str(program), "library": program.with_name("plugins.so")}
    return Options(**{**values, **changes})  # type: ignore[arg-type]


def calls(program: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(f"{program}.calls").read_text().splitlines()]


def test_engines_are_built_compared_and_timed(trtexec: Path) -> None:
    record = engines.measure(options(trtexec, batches=(1, 32)))
    assert record.details["trtexec"] == "trtexec 8.6.0"
    times = {(row.backend, row.case["batch"]): row.stats.median_us for row in record.timed if row.stats}
    assert times[OURS, 1] == times[OURS, 32] == 5
    assert times[THEIRS, 1] == times[f"{THEIRS}, TF32", 32] == times[f"{THEIRS}, level 5", 1] == 20
    assert all(row.extra["error"] < 1e-6 for row in record.timed)
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


def test_a_build_that_fails_is_a_row_with_its_reason(trtexec: Path) -> None:
    record = engines.measure(options(trtexec, batches=(1,), trtexec_flags=("--fails",)))
    assert not record.timed
    assert all("the builder refuses" in str(row.why) for row in record.rows)


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
