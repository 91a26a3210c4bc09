"""The picture of a graph: every node has its place, no two overlap, and names cannot harm it."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from lenet_trt.cli import main
from lenet_trt.draw.graph_layout import layout
from lenet_trt.draw.graph_svg import graph_svg, node_times
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor
from lenet_trt.trace.timeline import Activity, Iteration, Timeline, save
from networks import LENET5, model_of
from reported import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"
ANY_GRAPH = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(params=["dot", "rows"])
def way(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Draw by Graphviz, and as on a machine without it."""
    if request.param == "rows":
        monkeypatch.setenv("PATH", str(tmp_path))
    elif shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed")
    return str(request.param)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    """Any graph, cycles and several edges between the same nodes among them."""
    count = draw(st.integers(1, 14))
    sizes = [(draw(st.floats(20, 200)), draw(st.floats(20, 80))) for _ in range(count)]
    ends = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(ends, ends), max_size=30))
    return sizes, [(a, b) for a, b in edges if a != b]


@given(graph=graphs())
@ANY_GRAPH
def test_boxes_never_overlap_and_edges_join_them(
    way: str, graph: tuple[list[tuple[float, float]], list[tuple[int, int]]]
) -> None:
    sizes, edges = graph
    placed = layout(sizes, edges)
    assert placed == layout(sizes, edges)
    slack = 2.0  # dot rounds to whole points
    for box, size in zip(placed.boxes, sizes, strict=True):
        assert (box.width, box.height) == size
        assert box.x - box.width / 2 >= -slack
        assert box.x + box.width / 2 <= placed.width + slack
        assert box.y - box.height / 2 >= -slack
        assert box.y + box.height / 2 <= placed.height + slack
    for number, one in enumerate(placed.boxes):
        for other in placed.boxes[number + 1 :]:
            apart_x = abs(one.x - other.x) - (one.width + other.width) / 2
            apart_y = abs(one.y - other.y) - (one.height + other.height) / 2
            assert max(apart_x, apart_y) > 1
    for (a, b), points in zip(edges, placed.edges, strict=True):
        start, end = placed.boxes[a], placed.boxes[b]
        assert len(points) % 3 == 1
        assert points[0] == pytest.approx((start.x, start.y + start.height / 2), abs=slack)
        assert points[-1] == pytest.approx((end.x, end.y - end.height / 2), abs=slack)


@given(graph=graphs())
@ANY_GRAPH
def test_edges_go_down(way: str, graph: tuple[list[tuple[float, float]], list[tuple[int, int]]]) -> None:
    sizes, edges = graph
    forward = [(min(edge), max(edge)) for edge in edges]
    placed = layout(sizes, forward)
    for points in placed.edges:
        assert all(lower[1] - upper[1] > -2 for upper, lower in pairwise(points[::3]))
        assert points[-1][1] > points[0][1]


def test_a_chain_goes_straight_down(way: str) -> None:
    placed = layout([(100, 40), (60, 20), (180, 60)], [(0, 1), (1, 2)])
    assert max(box.x for box in placed.boxes) - min(box.x for box in placed.boxes) < 1
    assert [box.y for box in placed.boxes] == sorted(box.y for box in placed.boxes)


def test_an_edge_past_a_row_is_seen_beside_it(way: str) -> None:
    placed = layout([(60, 20), (200, 20), (60, 20)], [(0, 1), (1, 2), (0, 2)])
    wide = placed.boxes[1]
    assert max(abs(x - wide.x) for x, _ in placed.edges[2]) > wide.width / 2


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_is_asked_where_it_is() -> None:
    # 0 -> 3, 1 -> 2: rows in the order of the nodes would cross.
    a, b, x, y = layout([(50, 20)] * 4, [(0, 3), (1, 2)]).boxes
    assert (a.x < b.x) == (y.x < x.x)


def test_a_dot_that_fails_leaves_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, edges = [(60.0, 20.0), (80.0, 20.0)], [(0, 1)]
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = layout(sizes, edges)
    program = tmp_path / "dot"
    for script in ("exit 1", "echo graph 1 2", "echo node 0 x y", "echo hello", ":"):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        assert layout(sizes, edges) == rows


def texts(svg: str) -> list[str]:
    return [entry.text or "" for entry in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_lenet5_shows_operators_shapes_and_ends(way: str) -> None:
    svg = graph_svg(model_of(LENET5))
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.find(f"{SVG}title") is not None
    description = root.find(f"{SVG}desc")
    assert description is not None
    assert "nodes, 0 of them plugins" in (description.text or "")
    shown = texts(svg)
    for operator, count in {"Conv": 2, "MaxPool": 2, "Gemm": 3}.items():
        assert shown.count(operator) == count
    assert any("[" in text and "24" in text for text in shown)


def test_times_stand_at_their_nodes_and_a_layer_of_several_at_the_last() -> None:
    model = _named("a", "b", "c")
    activities = (
        Activity("kernel", "k", 0, 30, iteration=0, node="a"),
        Activity("kernel", "k", 30, 90, iteration=0, node="b + c"),
        Activity("kernel", "k", 100, 110, iteration=1, node="a"),
    )
    traced = Timeline("hand", iterations=(Iteration(0, 0, 95), Iteration(1, 95, 120)), activities=activities)
    times = node_times(traced)
    assert times["a"].us == 20
    assert times["b + c"].us == 30
    assert times["a"].share == 0.4
    groups = ElementTree.fromstring(graph_svg(model, traced)).iter(f"{SVG}g")
    titles = [title.text or "" for group in groups for title in group.findall(f"{SVG}title")]
    assert any("Relu a" in title and "20.0 \u00b5s, 40.0%" in title for title in titles)
    assert any("Relu c" in title and "30.0 \u00b5s, 60.0%" in title and "as b + c" in title for title in titles)
    assert not any("Relu b" in title and "\u00b5s" in title for title in titles)


def test_the_time_of_a_region_stands_at_its_last_node() -> None:
    model = _named("a", "b", "c")
    region = EngineLayer(
        "{ForeignNode[(Unnamed Layer* 1) [Shuffle]...(Unnamed Layer* 3) [ElementWise]]}",
        "Myelin",
        inputs=(LayerTensor(model.graph.node[0].output[0], (1,), "float32"),),
        outputs=(LayerTensor(model.graph.output[0].name, (1,), "float32"),),
    )
    activity = Activity("layer", region.name, 0, 30, iteration=0, node=region.node)
    traced = Timeline("hand", iterations=(Iteration(0, 0, 30),), activities=(activity,), layers=(region,))
    groups = ElementTree.fromstring(graph_svg(model, traced)).iter(f"{SVG}g")
    timed = [title.text or "" for group in groups for title in group.findall(f"{SVG}title") if "100.0%" in title.text]
    assert len(timed) == 1
    assert timed[0].startswith("Relu c")


def test_plugins_are_marked() -> None:
    model = _named("a", "b")
    model.graph.node[1].domain, model.graph.node[1].op_type = "lenet_trt", "hard_swish"
    model.opset_import.append(helper.make_opsetid("lenet_trt", 1))
    svg = graph_svg(model)
    assert 'class="plugin"' in svg
    assert "lenet_trt::hard_swish" in texts(svg)
    assert "1 of them plugins" in svg


@pytest.mark.parametrize("name", [name for name in HOSTILE if "\ud800" not in name], ids=range(len(HOSTILE) - 1))
def test_hostile_names_stay_text(way: str, name: str) -> None:
    svg = graph_svg(_named(name, name + "2"), title=name)
    root = ElementTree.fromstring(svg)  # still well-formed
    allowed = {"svg", "title", "desc", "style", "defs", "marker", "path", "rect", "g", "text"}
    assert {entry.tag.removeprefix(SVG) for entry in root.iter()} <= allowed
    assert not any(attribute.startswith("on") for entry in root.iter() for attribute in entry.attrib)
    assert not any(sign in svg for sign in "\u202e\u2066\x00\x1b\r")
    assert len(svg) < 60_000


def test_hundreds_of_nodes_are_drawn(way: str) -> None:
    nodes = []
    for block in range(150):
        before = f"s{block}"
        for branch in range(3):
            nodes.append(helper.make_node("Relu", [before], [f"t{block}_{branch}"], name=f"/{block}/{branch}"))
        nodes.append(
            helper.make_node("Sum", [f"t{block}_{branch}" for branch in range(3)] + [before], [f"s{block + 1}"])
        )
    model = _model(nodes, "s0", "s150")
    svg = graph_svg(model)
    assert texts(svg).count("Sum") == 150
    edges = [path for path in ElementTree.fromstring(svg).iter(f"{SVG}path") if path.attrib.get("class") == "edge"]
    assert len(edges) == 150 * 7 + 1


def test_what_a_loop_reads_from_around_it_leads_to_it(way: str) -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["h", "h"], ["r"])], "then", [], [helper.make_tensor_value_info("r", 1, [4])]
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["h"], ["q"])], "else", [], [helper.make_tensor_value_info("q", 1, [4])]
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="before"),
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, [4]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, [4])])
    svg = graph_svg(helper.make_model(graph))
    edges = [path for path in ElementTree.fromstring(svg).iter(f"{SVG}path") if path.attrib.get("class") == "edge"]
    assert [path.find(f"{SVG}title").text for path in edges] == ["x", "c", "h", "y"]  # type: ignore[union-attr]


def test_the_verb_writes_beside_the_model_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.onnx"
    onnx.save(_named("a", "b"), file)
    assert main(["inspect", str(file), "--svg"]) == 0
    assert capsys.readouterr().out.strip().endswith("m.svg")
    assert ElementTree.parse(tmp_path / "m.svg").getroot().tag == f"{SVG}svg"
    timeline = tmp_path / "t.json"
    save(Timeline("hand", activities=(Activity("kernel", "k", 0, 5, node="a"),)), timeline)
    assert main(["inspect", str(file), "--svg", "--timeline", str(timeline), "-o", str(tmp_path / "g.svg")]) == 0
    assert "5.00 \u00b5s" in (tmp_path / "g.svg").read_text()


def test_the_verb_refuses_what_it_cannot_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = tmp_path / "m.engine"
    engine.write_bytes(b"x")
    assert main(["inspect", str(engine), "--svg"]) == 2
    assert "give the model from which the engine was built" in capsys.readouterr().err
    file = tmp_path / "m.onnx"
    onnx.save(_named("a"), file)
    assert main(["inspect", str(file), "-o", "x.svg"]) == 2
    (tmp_path / "t.json").write_text(json.dumps({"schema": 99}))
    assert main(["inspect", str(file), "--svg", "--timeline", str(tmp_path / "t.json")]) == 1
    assert not (tmp_path / "m.svg").exists()


def _named(*names: str) -> onnx.ModelProto:
    """A chain of Relu nodes of those names."""
    nodes = [helper.make_node("Relu", [f"t{at}"], [f"t{at + 1}"], name=name) for at, name in enumerate(names)]
    return _model(nodes, "t0", f"t{len(names)}")


def _model(nodes: list[onnx.NodeProto], first: str, last: str) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in (first, last)]
    return helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]))
