"""Every field of every file from outside, replaced or deleted: a LenetTrtError or a success, and nothing else."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import bench_data
import traced
from lenet_trt.bench.compare import compare
from lenet_trt.bench.record import Row, as_json, load_record
from lenet_trt.bench.tables import record_warnings, standard_columns, to_csv
from lenet_trt.bench.tables import table as bench_table
from lenet_trt.build.evaluate import Evaluation
from lenet_trt.errors import LenetTrtError
from lenet_trt.floors.ceilings import ceilings_in
from lenet_trt.optimize.journal import Journal, Remembered
from lenet_trt.optimize.markdown import optimize_report
from lenet_trt.optimize.record import read_optimize_record
from lenet_trt.optimize.space import PluginPlan
from lenet_trt.profile.replay import read_parts
from lenet_trt.profile.request import TraceRequest, raise_failure, read_request
from lenet_trt.report.document import document
from lenet_trt.report.optimized import optimized_section
from lenet_trt.report.page import page
from lenet_trt.report.stage import content_of
from lenet_trt.schema import json_text, read_json
from lenet_trt.tensorrt.sidecar import FileRecord, Sidecar, read_sidecar
from lenet_trt.tensorrt.summary import engine_rows, label_table, next_commands
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.timeline import Timeline, load_timeline
from optimize_clock import Clock, lenet5_space
from trtexec_files import CASK_10, profile, times

DOCS = Path(__file__).parents[1] / "docs"
VALUES: tuple[Any, ...] = (None, True, -1, 0, 7, 1.5, 1e308, 10**30, "text", "", [], {}, [[1]], {"a": 1})


def mutations(data: Any) -> Iterator[tuple[str, str]]:
    """The JSON with each field replaced by each value, and each key deleted; of a list the first and last."""
    for where in list(_places(data)):
        holder: Any = data
        for key in where[:-1]:
            holder = holder[key]
        key = where[-1]
        old = holder[key]
        for value in VALUES:
            if type(old) is not type(value) or old != value:
                holder[key] = value
                yield f"{where} = {value!r}", json.dumps(data)
        del holder[key]
        yield f"without {where}", json.dumps(data)
        if isinstance(holder, list):
            holder.insert(key, old)
        else:
            holder[key] = old


def _places(data: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = list(data) if isinstance(data, dict) else sorted({0, len(data) - 1}) if isinstance(data, list) else []
    for key in keys:
        if isinstance(data, list) and not data:
            return
        yield (*above, key)
        yield from _places(data[key], (*above, key))


def survives(data: Any, path: Path, use: Callable[[Path], object]) -> int:
    """Use the file as it is, and with every mutation; the number of those that were refused."""
    path.write_text(json.dumps(data))
    use(path)
    refused = 0
    for what, changed in mutations(data):
        path.write_text(changed)
        try:
            use(path)
        except LenetTrtError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    return refused


def timeline_json(**more: Any) -> dict[str, Any]:
    kernels = [traced.kernel(1, 4, "conv"), traced.copy(4, 5, "HtoD"), traced.call(0, 1)]
    made = traced.repeated(8.0, kernels, 2, environment={"gpu": "NVIDIA H200", "sm": 90, "driver": "580", "cpu": "c"})
    return json.loads(json.dumps({"schema": 1, **asdict(made), "unprofiled_us": 7.0, "sizes": {"n": 2}, **more}))


def use_timeline(path: Path) -> None:
    content = content_of(load_timeline(path), ceilings=traced.CEILINGS)
    document(content)
    json.dumps(content.as_dict())


def test_timeline(tmp_path: Path) -> None:
    assert survives(timeline_json(), tmp_path / "t.json", use_timeline) > 300


def test_timeline_on_the_page(tmp_path: Path) -> None:
    data = timeline_json()
    small = {**data, "activities": data["activities"][:1], "api_calls": [], "ranges": [], "iterations": []}
    survives(small, tmp_path / "t.json", lambda path: page(content_of(load_timeline(path), ceilings=traced.CEILINGS)))


def test_ceilings(tmp_path: Path) -> None:
    data = json.loads((DOCS / "lost-time" / "roofline.json").read_text())["ceilings"]
    data["details"] = {"origins": {"read": "a"}, "notes": ["b"], "document": "c"}
    timeline = load_timeline(_written(timeline_json(), tmp_path / "t.json"))

    def use(path: Path) -> None:
        found = ceilings_in(path)
        document(content_of(timeline, ceilings=found))
        for arithmetic in ("split", "int8", "fp16"):
            assert found.rate(arithmetic) > 0

    assert survives({"ceilings": data}, tmp_path / "c.json", use) > 50


def test_record_of_optimize(tmp_path: Path) -> None:
    data = json.loads((DOCS / "lost-time" / "optimize.json").read_text())
    for outcome in data["batches"]:
        for seen in outcome["observed"]:
            seen["ledger"]["rows"] = seen["ledger"]["rows"][:1]
            del seen["rows"]
    data["crossings"] = [{"small": [], "large": data["chosen"][0]["plan"], "between": [1, 2], "at": 1.5}]
    data["refusals"] = [{"kernel": "k", "replaced": ["a"], "reason": "b"}]

    def use(path: Path) -> None:
        record = read_optimize_record(path)
        optimize_report(record)
        optimized_section(record)

    assert survives(data, tmp_path / "optimize.json", use) > 500


def sidecar() -> Sidecar:
    record = FileRecord("m.engine", 9, "0" * 64)
    inputs: dict[str, Any] = {
        "flavor": "rtx",
        "flavor_version": "1.7",
        "targets": ["8.6"],
        "gpu": None,
        "precision": "fp16",
    }
    inputs["options"] = {"tf32": False}
    plugin = {
        "node": "a",
        "kernel": "k",
        "types": "float32",
        "replaced": ["Conv b"],
        "route": "python",
        "source_sha256": "0",
    }
    shapes = {"min": [1, 4], "opt": [2, 4], "max": [3, 4]}
    tensors = {"x": {"io": "input", "dtype": "float32", "shape": ["n", 4], "profile": shapes}}
    tested = asdict(Evaluation(9000, 9001, 10000, 1e-5))
    return Sidecar(record, record, inputs, "a file", [plugin], tensors, tested, {"command": None})


def test_sidecar(tmp_path: Path) -> None:
    from lenet_trt.cuda.gpus import Gpu
    from lenet_trt.tensorrt.flavors import PRODUCTS
    from lenet_trt.tensorrt.vouch import gpu_obstacle

    class AnyFlavor:
        def supports(self, gpu: Gpu) -> bool:
            return True

        def portable_sms(self) -> tuple[int, ...]:
            return (86,)

    def use(path: Path) -> None:
        found = read_sidecar(path)
        label_table(engine_rows(path, found))
        next_commands(path, found)
        gpu_obstacle(found, AnyFlavor(), Gpu(0, "a GPU", 89, 1))  # type: ignore[arg-type]
        found.mismatch(path)
        assert found.inputs["flavor"] in PRODUCTS

    assert survives(asdict(sidecar()), tmp_path / "m.json", use) > 300


def test_record_of_bench(tmp_path: Path) -> None:
    for suite in ("sweep", "kernels", "cold"):
        data = json.loads((DOCS / "results" / "h200" / f"{suite}.json").read_text())
        whole = load_record(_written(data, tmp_path / "whole.json"))
        data["rows"] = [row for row in data["rows"] if row.get("stats")][:1]
        data["clocks"] = data["clocks"][:1]
        facts = {name: value for name, value in data.items() if name not in ("details", "rows")}
        facts |= {"details": {}, "rows": [{**row, "extra": {"error": 0.1}} for row in data["rows"]]}

        def use(path: Path, whole: Any = whole) -> None:
            found = load_record(path)
            with contextlib.suppress(LenetTrtError):
                compare(found, whole)
            as_json(found)

        survives(facts, tmp_path / "record.json", use)


def test_record_of_bench_as_a_table(tmp_path: Path) -> None:
    rows = [
        Row("ours", {"batch": 1}, bench_data.stats(5.0), extra={"error": 1e-6, "accuracy": 0.99}),
        Row("others", {"batch": 2, "how": "lazy"}, why="not installed"),
    ]
    made = json.loads(as_json(bench_data.record(*rows, suite="sorting")))

    def use(path: Path) -> None:
        record = load_record(path)
        columns = standard_columns(record)
        bench_table(record.rows, columns)
        to_csv(record)
        list(record_warnings(record))

    survives(made, tmp_path / "r.json", use)


def test_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What does not fit is measured again."""
    space = lenet5_space()
    clock = Clock(space, {piece.kernel: 1.0 for each in space.candidates for piece in each.pieces})
    plan = space.candidates[0]
    path = tmp_path / "state.json"

    def go(path: Path) -> int:
        journal = Journal(path, {"model": "m"})
        bench = Remembered(clock, journal)
        observed, accuracy = bench.observe(plan, 1), bench.check(plan, 1)
        times = bench.compare((PluginPlan(), plan), 1)
        assert observed.rows == clock.observe(plan, 1).rows
        assert accuracy.text
        assert len(times) == 2
        return journal.reused

    assert go(path) == 0
    data = json.loads(path.read_text())
    assert go(path) == 3
    name = next(name for name in data["steps"] if name.startswith("observe"))
    broken = copy.deepcopy(data)
    broken["steps"][name]["rows"] = "none"
    path.write_text(json.dumps(broken))
    assert go(path) == 2
    assert "rows is 'none'" in capsys.readouterr().err

    def use(path: Path) -> None:
        bench = Remembered(clock, Journal(path, {"model": "m"}))
        ", ".join(str(row.cost_us + row.floor_us) for row in bench.observe(plan, 1).rows)
        bench.check(plan, 1).text.strip()
        [stats.spread for stats in bench.compare((PluginPlan(), plan), 1)]

    survives(data, path, use)


def test_request_failure_and_replay(tmp_path: Path) -> None:
    request = TraceRequest("m.onnx", sizes={"n": 2}, shapes={"x": (1, 2)}, batch=3)
    path = tmp_path / "request.json"
    request.write(path)
    assert read_request(path) == request
    survives(json.loads(path.read_text()), path, lambda file: read_request(file).check())
    survives([{"node": "a", "counts": {"kernel": 2}}], path, lambda file: [part.total for part in read_parts(file)])
    failure = {"kind": "usage", "message": "no"}
    with contextlib.suppress(LenetTrtError):
        raise_failure(_written(failure, path))

    def fail(file: Path) -> None:
        with contextlib.suppress(LenetTrtError):
            raise_failure(file)

    survives(failure, path, fail)


INFERENCES = [{"start": 1.0 + at, "h2d": 0.1, "compute": 0.5, "d2h": 0.1, "enqueue": 0.1} for at in range(3)]
EXPORTS = {
    "profile": json.loads(profile([("conv1", 0.2), ("fc", 0.1)])),
    "layers": json.loads(CASK_10),
    "times": json.loads(times(INFERENCES)),
}


@pytest.mark.parametrize("kind", EXPORTS)
def test_exports_of_trtexec(tmp_path: Path, kind: str) -> None:
    other = _written(EXPORTS["profile"], tmp_path / "profile.json")

    def use(path: Path) -> None:
        found = timeline_from(path, other) if kind == "layers" else timeline_from(path)
        _used(found)

    survives(EXPORTS[kind], tmp_path / "e.json", use)


def _used(timeline: Timeline) -> None:
    document(content_of(timeline, ceilings=traced.CEILINGS))


def test_a_profile_of_onnx_runtime(tmp_path: Path) -> None:
    from lenet_trt.profile import ort

    run = [{"cat": "Session", "name": "model_run", "ts": 10 * at, "dur": 8} for at in range(2)]
    node = [
        {"cat": "Node", "name": "a_kernel_time", "ts": 10 * at + 1, "dur": 4, "args": {"op_name": "Conv"}}
        for at in range(2)
    ]
    import onnx

    model = ort.Named(onnx.ModelProto(), {"a": "a"})
    survives([*run, *node], tmp_path / "p.json", lambda path: _used(ort.ort_timeline(path, model, "ORT", 1)))


def test_what_fuse_recorded_in_a_model(tmp_path: Path) -> None:
    import onnx

    from lenet_trt.onnx_model.plugin_nodes import METADATA_KEY, recorded

    def use(path: Path) -> None:
        model = onnx.ModelProto()
        model.metadata_props.add(key=METADATA_KEY, value=path.read_text())
        for entry in recorded(model):
            ", ".join(entry.get("replaced", ()))

    survives([{"node": "a", "types": "float32", "replaced": ["Conv b"]}], tmp_path / "r.json", use)


def test_an_error_says_file_field_seen_and_wanted(tmp_path: Path) -> None:
    data = timeline_json()
    data["activities"][1]["start_us"] = "soon"
    path = _written(data, tmp_path / "t.json")
    said = r"t\.json is not a timeline.*: activities\[1\]\.start_us is 'soon'; Expected `float`.*: profile again"
    with pytest.raises(LenetTrtError, match=said):
        load_timeline(path)
    with pytest.raises(LenetTrtError, match="cannot be read"):
        read_json(tmp_path / "missing.json", TraceRequest, wanted="a request", fix="profile again")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(LenetTrtError, match="is not JSON"):
        load_timeline(tmp_path / "deep.json")


def _written(data: Any, path: Path) -> Path:
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [{"a": float("-inf")}]])
def test_what_json_has_not_is_not_written(value: object) -> None:
    with pytest.raises(LenetTrtError, match="cannot be kept as JSON"):
        json_text({"value": value})
