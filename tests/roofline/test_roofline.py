"""The roofline verb: the write-up's arithmetic, what bounds each node, times taken, pictures, and refusals."""

from __future__ import annotations

import contextlib
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from lenet_trt.cli import main
from lenet_trt.cuda import gpus as gpu
from lenet_trt.draw.charts import render
from lenet_trt.errors import LenetTrtError
from lenet_trt.export.geometry import flops_per_image
from lenet_trt.floors import ceilings
from lenet_trt.floors.ceilings import datasheet
from lenet_trt.floors.work import ModelWork, network_of
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.read import load_lenet5
from lenet_trt.roofline.stage import Roofline, roofline
from lenet_trt.roofline.text import chart, roofline_lines
from lenet_trt.trace.timeline import Activity, Iteration, Timeline, save

FOUR = datasheet("RTX 4090")
H200 = datasheet("H200")


@pytest.fixture(scope="module")
def lenet5() -> onnx.ModelProto:
    return load_lenet5()[0]


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("matmul") / "matmul.onnx"
    assert main(["export", "matmul", "-o", str(path)]) == 0
    return path


def timeline_of(network: ModelWork, factor: float, names: dict[str, str] | None = None) -> Timeline:
    """A trace in which each node takes ``factor`` times what an H200 needs; ``names`` rename or join layers."""
    activities, iterations, at = [], [], 0.0
    for index in range(4):
        begin = at
        for point in roofline(network, H200).points:
            if point.needed_us:
                end = at + factor * point.needed_us
                layer = (names or {}).get(point.work.node, point.work.node)
                activities.append(Activity("kernel", f"k_{layer}", at, end, iteration=index, node=layer))
                at = end + 0.5
        iterations.append(Iteration(index, begin, at))
        at += 5
    return Timeline(
        "a test",
        sizes={"n": 64},
        environment={"gpu": "H200"},
        iterations=tuple(iterations),
        activities=tuple(activities),
    )


def test_the_matmul_needs_what_the_write_up_says(matmul: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", str(matmul), "--datasheet", "RTX 4090"]) == 0
    text = capsys.readouterr().out
    assert "GeForce RTX 4090 needs 0.25 ms (248.8 us) for 250.8 MB" in text
    row = next(line for line in text.splitlines() if line.startswith("matmul"))
    assert row.split()[:2] == ["matmul", "MatMul"]
    assert row.split()[-5:] == ["122.9", "250.8", "0.49", "memory", "248.84"]
    assert "whitepaper" in text


def test_json_has_the_same_numbers(matmul: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", str(matmul), "--datasheet", "rtx4090", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (point,) = data["points"]
    assert point["work"]["work"] == {"read_bytes": 246_988_800, "written_bytes": 3_840_000, "flops": 122_880_000}
    assert point["bound"] == "memory"
    assert data["needed_us"] == pytest.approx(250_828_800 / 1008e9 * 1e6)
    assert data["ceilings"]["source"] == "datasheet"


def test_each_node_is_held_against_the_roof_that_bounds_it(lenet5: onnx.ModelProto) -> None:
    found = roofline(network_of(lenet5, {"n": 10_000}), FOUR)
    points = {point.work.node: point for point in found.points}
    assert points["conv1"].bound == "memory"
    assert points["flatten"].bound == "-"
    assert points["relu1"].needed_us == pytest.approx(2 * 10_000 * 6 * 24 * 24 * 4 / 1008e9 * 1e6)
    assert found.needed_us == pytest.approx(sum(point.needed_us for point in found.points))
    one = found.as_one
    assert one.bound == "arithmetic"  # 563 kFLOP for 3 KB an image
    assert one.needed_us == pytest.approx(10_000 * flops_per_image() / 82.6e12 * 1e6)
    assert one.needed_us < found.needed_us / 5


def test_nodes_that_are_smaller_than_a_launch_are_counted(lenet5: onnx.ModelProto) -> None:
    measured = replace(H200, source="measured", launch_us=2.5, h2d_bytes_per_s=50e9, d2h_bytes_per_s=51e9)
    text = "\n".join(roofline_lines(roofline(network_of(lenet5, {"n": 64}), measured)))
    assert "in addition, 11 x 2.50 us for launches" in text
    assert "11 of 11 need less time than their launch" in text
    assert "to the GPU 50 GB/s, from it 51 GB/s" in text
    large = "\n".join(roofline_lines(roofline(network_of(lenet5, {"n": 10_000}), measured)))
    assert "4 of 11 need less" in large  # relu3, fc2, relu4 and fc3
    assert "launches" not in "\n".join(roofline_lines(roofline(network_of(lenet5, {"n": 64}), H200))).split("note:")[0]


def test_floats_may_be_held_to_another_arithmetic(lenet5: onnx.ModelProto) -> None:
    network = network_of(lenet5, {"n": 10_000})
    needed = {floats: roofline(network, H200, floats=floats).as_one.needed_us for floats in ("fp32", "split", "tf32")}
    work = 10_000 * flops_per_image() * 1e6
    assert needed["fp32"] == pytest.approx(work / 67e12)
    assert needed["split"] == pytest.approx(3 * work / 989.5e12)
    assert needed["tf32"] == pytest.approx(work / 494.5e12)


def test_a_trace_adds_what_was_taken(lenet5: onnx.ModelProto) -> None:
    network = network_of(lenet5, {"n": 64})
    found = roofline(network, H200, timeline=timeline_of(network, 3.0))
    assert [point.ratio for point in found.points if point.taken_us] == pytest.approx([3.0] * 11, rel=1e-3)
    assert found.taken_us == pytest.approx(3 * found.needed_us, rel=1e-3)
    assert found.end_to_end_us is not None
    assert found.end_to_end_us > found.taken_us
    text = "\n".join(roofline_lines(found))
    assert "ratio" in text
    assert "not in the trace" not in text
    assert "L2" not in text
    quick = roofline(network, H200, timeline=timeline_of(network, 0.8))
    assert "in the L2 cache: conv1, relu1" in "\n".join(roofline_lines(quick))


def test_nodes_that_ran_as_one_are_judged_as_one(lenet5: onnx.ModelProto) -> None:
    network = network_of(lenet5, {"n": 64})
    layer = "conv1 + relu1 + pool1"
    found = roofline(
        network, H200, timeline=timeline_of(network, 3.0, dict.fromkeys(("conv1", "relu1", "pool1"), layer))
    )
    point = next(point for point in found.points if point.work.node == layer)
    assert point.work.replaces == ("conv1", "relu1", "pool1")
    assert point.work.work.read_bytes == 4 * (64 * 28 * 28 + 6 * 25 + 6)
    assert point.work.work.written_bytes == 4 * 64 * 6 * 12 * 12
    assert point.ratio is not None
    assert point.ratio > 5  # the two results between went through memory for nothing
    assert len(found.points) == 10


def test_what_the_trace_lacks_is_said(lenet5: onnx.ModelProto) -> None:
    network = network_of(lenet5, {"n": 64})
    trace = timeline_of(network, 2.0)
    kept = tuple(activity for activity in trace.activities if activity.node != "fc1")
    found = roofline(network, H200, timeline=Timeline(**{**vars(trace), "activities": kept}))
    assert "not in the trace: fc1" in "\n".join(roofline_lines(found))
    assert next(point for point in found.points if point.work.node == "fc1").taken_us is None


def test_a_plugin_is_one_point(lenet5: onnx.ModelProto) -> None:
    found = roofline(network_of(fuse(lenet5, ["lenet5"]).model, {"n": 32}), H200)
    (point,) = (point for point in found.points if point.needed_us)
    assert point.work.op == "lenet5"
    assert point.needed_us == pytest.approx(found.as_one.needed_us)


def drawn(found: Roofline) -> str:
    svg = render([chart(found)], "svg").decode()
    ET.fromstring(svg)
    return svg


def test_the_picture_has_roofs_ridges_and_named_points(lenet5: onnx.ModelProto) -> None:
    network = network_of(lenet5, {"n": 64})
    plain = drawn(roofline(network, H200, model="lenet5.onnx"))
    for text in ("fp16 tensor cores 989.5 (ridge at 206)", "fp32 multiply-adds 67 (ridge at 14)", "fc2", "relu1"):
        assert text in plain
    assert "measured" not in plain
    assert "measured" in drawn(roofline(network, H200, timeline=timeline_of(network, 3.0)))
    made = chart(roofline(network, H200))
    slope, *roofs, points = made.series
    assert made.x_log
    assert made.y_log
    assert slope.y[1] == pytest.approx(989.5)
    assert sorted(roof.y[0] or 0.0 for roof in roofs) == pytest.approx([67, 989.5 / 3, 989.5])
    for x, y in zip(points.x, points.y, strict=True):
        assert y == pytest.approx(min(float(x) * 4.8, 989.5 / 3))  # on the roof that bounds it


def test_a_model_without_operations_can_be_drawn() -> None:
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[8] x) => (float[8] y) { y = Relu(x) }'
    found = roofline(network_of(onnx.parser.parse_model(text), {}), FOUR, model="relu.onnx")
    assert "without operations, so not shown: y" in drawn(found)


def test_pictures_are_written(matmul: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("roof.svg", "roof.png"):
        path = tmp_path / name
        assert main(["roofline", str(matmul), "--datasheet", "H200", "-o", str(path)]) == 0
        assert f"wrote {path}" in capsys.readouterr().out
        assert path.read_bytes()[:4] in (b"<?xm", b"\x89PNG")


def test_sizes_come_from_where_they_are_given(tmp_path: Path, lenet5: onnx.ModelProto) -> None:
    path, trace = tmp_path / "lenet5.onnx", tmp_path / "timeline.json"
    onnx.save(lenet5, path)
    save(timeline_of(network_of(lenet5, {"n": 64}), 2.0), trace)

    def sizes(*options: str) -> dict[str, int]:
        output = tmp_path / "out.json"
        with output.open("w") as file, contextlib.redirect_stdout(file):
            assert main(["roofline", str(path), "--datasheet", "H200", "--json", *options]) == 0
        return dict(json.loads(output.read_text())["sizes"])

    assert sizes() == {"n": 1}
    assert sizes("--batch", "32") == {"n": 32}
    assert sizes("--sizes", "n=33") == {"n": 33}
    assert sizes("--shapes", "images:34x1x28x28") == {"n": 34}
    assert sizes("--timeline", str(trace)) == {"n": 64}


def test_without_a_gpu_it_says_what_to_do(
    matmul: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "gpus", lambda: gpu.Gpus((), None, "no NVIDIA driver"))
    assert main(["roofline", str(matmul)]) == 1
    assert '--datasheet "RTX 4090"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--datasheet", "GTX 480"], "known are"),
        (["--datasheet", "H200", "--refresh"], "give one"),
        (["--datasheet", "H200", "-o", "roof.pdf"], ".svg or .png"),
        (["--datasheet", "H200", "--batch", "7"], "fixed"),
        (["--datasheet", "H200", "--sizes", "n"], "NAME=N"),
        (["--datasheet", "H200", "--sizes", "m=3"], "there is no axis m"),
    ],
)
def test_bad_calls_are_refused(matmul: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", str(matmul), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_trace_of_another_gpu_is_remarked_on(
    tmp_path: Path, lenet5: onnx.ModelProto, capsys: pytest.CaptureFixture[str]
) -> None:
    path, trace = tmp_path / "lenet5.onnx", tmp_path / "timeline.json"
    onnx.save(lenet5, path)
    save(timeline_of(network_of(lenet5, {"n": 64}), 2.0), trace)
    command = ["roofline", str(path), "--timeline", str(trace), "--datasheet"]
    assert main([*command, "H200"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert main([*command, "L4"]) == 0
    assert "the trace is of H200, the ceilings are of L4" in capsys.readouterr().err


def test_measured_ceilings_are_kept_as_json(tmp_path: Path) -> None:
    data = json.loads(json.dumps(ceilings.ceilings_json(FOUR)))
    assert ceilings.ceilings_from_json(data, tmp_path) == FOUR
    for damaged in ({}, {**data, "schema": 99}, {**data, "launch_us": "1"}):
        with pytest.raises(LenetTrtError, match="ceilings"):
            ceilings.ceilings_from_json(damaged, tmp_path)
