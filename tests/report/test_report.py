"""The report: what it says is what the ledger says, and no name can harm it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents import ROOT
from lenet_trt.cli import main
from lenet_trt.draw import text
from lenet_trt.floors.ceilings import ceilings_json
from lenet_trt.report.document import document
from lenet_trt.report.events import MOST_LANES, drawn_events, shown_window, typical_iteration
from lenet_trt.report.page import page
from lenet_trt.trace.ledger import TERMS
from lenet_trt.trace.timeline import Activity, ApiCall, HostRange, Iteration, Timeline, save
from reported import HOSTILE, LAYERS, content, nodes, traced
from traced import CEILINGS, call, kernel, repeated

VOID = {"meta", "link", "input", "br", "wbr", "hr", "col", "img"}


class Page(HTMLParser):
    """What a browser would see: elements, their attributes, and whether all are closed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open[-1:] == ["script"] else self.words).append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def data_of(html: str) -> dict[str, list[object]]:
    found = re.search(r'<script type="application/json" id="timeline-data">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    html = page(content(before=traced(speed=2)))
    seen = Page(html)
    assert seen.open == []
    assert not any(attributes.get("src") for _, attributes in seen.elements)
    assert {attributes["href"] for attributes in seen.of("link")} == {"data:,"}
    assert all(str(attributes["href"]).startswith("#") for attributes in seen.of("a"))
    assert not re.search(r"https?://(?!www\.w3\.org/)", html)
    assert "@import" not in html
    assert "url(" not in html


def test_the_policy_lets_this_script_and_this_style_run_and_no_other() -> None:
    import base64
    import hashlib

    html = page(content())
    seen = Page(html)
    policy = next(str(meta["content"]) for meta in seen.of("meta") if meta.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not any(name.startswith("on") or name == "style" for _, attributes in seen.elements for name in attributes)


def test_landmarks_headings_and_links_are_in_order() -> None:
    seen = Page(page(content(before=traced(speed=2))))
    assert [attributes.get("lang") for attributes in seen.of("html")] == ["en"]
    tags = [tag for tag, _ in seen.elements]
    assert (tags.count("h1"), tags.count("main"), tags.count("nav")) == (1, 1, 1)
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(now - last <= 1 for last, now in pairwise(levels))
    idents = [str(attributes["id"]) for _, attributes in seen.elements if "id" in attributes]
    assert len(idents) == len(set(idents))
    for attributes in seen.of("a"):
        assert str(attributes["href"])[1:] in idents
    for _, attributes in seen.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(name, idents[0]) in idents
    for attributes in seen.of("svg"):
        assert attributes.get("aria-hidden") == "true" or attributes.get("aria-label")
    assert all(attributes.get("scope") in ("row", "col") for attributes in seen.of("th"))
    assert seen.elements[[tag for tag, _ in seen.elements].index("body") + 1][1]["class"] == "skip"


def test_what_the_ledger_says_stands_on_the_page_and_in_markdown() -> None:
    made = content()
    words = " ".join(Page(page(made)).words)
    told = document(made)
    ledger = made.run.ledger
    assert made.floor_us is not None
    for wanted in (ledger.end_to_end_us, made.floor_us):
        assert text.time_text(wanted) in words
        assert text.time_text(wanted) in told
    for term, name in TERMS.items():
        value = getattr(ledger.total, term)
        assert (name in words) == bool(value)
        assert (f"| {name} | {text.us_text(value)} |" in told) == bool(value)
    for entry in made.run.findings:
        assert entry.title in words
        assert text.escape_markdown(entry.title) in told
    for layer in LAYERS:
        assert layer[0] in words
    assert "+2.0%" in words
    assert "+2.0%" in told


def test_json_has_the_same_numbers(tmp_path: Path) -> None:
    made = content(before=traced(speed=2))
    found = json.loads(json.dumps(made.as_dict()))
    assert found["end_to_end_us"] == made.run.ledger.end_to_end_us
    assert [entry["kind"] for entry in found["findings"]] == [entry.kind for entry in made.run.findings]
    conv2 = next(point for point in found["roofline"] if point["node"] == "/conv2/Conv")
    # 98 Mflop at 10 Tflop/s are 9.8 us, and the kernel takes 31.
    assert (conv2["needed_us"], conv2["taken_us"], conv2["bound"]) == (pytest.approx(9.8, abs=0.01), 31, "arithmetic")
    end = found["before"]["terms"][-1]
    assert end["name"] == "end to end"
    assert end["difference_us"] == end["now_us"] - end["before_us"] < 0
    assert sum(change["difference_us"] for change in found["before"]["nodes"]) == pytest.approx(end["difference_us"])


def test_without_ceilings_the_page_says_why_there_is_no_roofline() -> None:
    from lenet_trt.report.stage import run_of

    made = content()
    bare = replace(
        made, run=run_of(traced(), "x", made.nodes, None), ceilings=None, missing={"roofline": "no GPU here"}
    )
    assert "Not known: no GPU here." in Page(page(bare)).words
    assert "Not known: no GPU here." in document(bare)
    assert bare.floor_us is None


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_stay_text_everywhere(name: str) -> None:
    hostile = replace(traced(names=(name,) * 3), model=name, source=name, command=name, notes=(name,), runtime=name)
    made = content(replace(hostile, environment={name: name, "gpu": name}), names=(name,) * 3)
    made = replace(made, missing={"roofline": name}, commands=(name,))
    html = page(made)
    clean = Page(page(content(traced(names=("n",) * 3, notes=("n",)), names=("n",) * 3)))
    seen = Page(html)
    assert seen.open == []
    assert {tag for tag, _ in seen.elements} <= {tag for tag, _ in clean.elements} | {"p"}
    assert not any(attribute.startswith("on") for _, attributes in seen.elements for attribute in attributes)
    assert len(seen.of("script")) == 2
    assert "</" not in seen.scripts[0].replace("</script>", "")
    for told in (html, document(made), json.dumps(made.as_dict())):
        told.encode("utf-8")
        assert not any(sign in told for sign in "\u202e\u2066\x00\x1b")
    assert len(html) < 400_000
    names = data_of(html)["names"]
    assert text.visible(name) in names


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_break_no_table_of_markdown(name: str) -> None:
    made = content(traced(names=(name,) * 3), names=(name,) * 3)
    for table in re.findall(r"(?:^\|.*\n)+", document(made), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


@given(st.text())
def test_visible_text_is_one_line_that_can_be_written(value: str) -> None:
    shown = text.visible(value)
    shown.encode("utf-8")
    assert len(shown.splitlines()) <= 1
    assert text.visible(shown) == shown


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_embedded_json_is_the_same_json_and_ends_no_script(value: object) -> None:
    raw = json.dumps(value, ensure_ascii=False)
    safe = text.embedded_json(raw)
    assert json.loads(safe) == json.loads(raw)
    assert not set(safe) & set("<>&\u2028\u2029")


@pytest.mark.parametrize(
    ("us", "shown"),
    [(0, "0.00 \u00b5s"), (0.0123, "0.012 \u00b5s"), (57.14, "57.1 \u00b5s"), (1467.2, "1,467 \u00b5s"),
     (203_000, "203.0 ms"), (12_345_678, "12.3 s"), (-3.2, "\u22123.20 \u00b5s"), (None, "unknown")],
)  # fmt: skip
def test_times_have_three_digits_and_a_unit(us: float | None, shown: str) -> None:
    assert text.time_text(us) == shown


bars = st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 50)), min_size=1, max_size=60)


@given(bars)
def test_bars_of_a_lane_never_overlap_and_none_is_lost(spans: list[tuple[float, float]]) -> None:
    activities = tuple(Activity("kernel", "k", start, start + length) for start, length in spans)
    (row,) = drawn_events(Timeline("hand", activities=activities))["rows"]
    assert sum(map(len, row["lanes"])) == len(spans)
    for lane in row["lanes"][: MOST_LANES - 1]:
        for first, second in pairwise(lane):
            assert first[0] + first[1] <= second[0] + 0.0025


def test_rows_tell_ranges_calls_and_streams_apart() -> None:
    made = Timeline(
        "hand",
        activities=(Activity("kernel", "k", 5, 9, stream=7, correlation=3), Activity("memcpy", "c", 6, 7, stream=9)),
        api_calls=(ApiCall("cudaLaunchKernel", 1, 2, correlation=3), ApiCall("cudaStreamSynchronize", 3, 9)),
        ranges=(HostRange("outer", 0, 10), HostRange("inner", 1, 2)),
    )
    found = drawn_events(made)
    assert [(row["label"], len(row["lanes"])) for row in found["rows"]] == [
        ("Ranges (NVTX)", 2),
        ("Host: CUDA calls", 1),
        ("GPU: stream 7", 1),
        ("GPU: stream 9", 1),
    ]
    calls = found["rows"][1]["lanes"][0]
    assert [found["names"][bar[3]] for bar in calls] == ["call", "wait"]
    assert [bar[6] for bar in calls] == [3, -1]
    assert found["rows"][2]["lanes"][0][0][6] == 3


def test_a_long_trace_keeps_whole_inferences_around_the_typical_one() -> None:
    made = traced(200)
    assert shown_window(made) is None
    window = shown_window(made, most=500)
    typical = typical_iteration(made)
    assert window is not None
    assert typical is not None
    assert window[0] <= typical.start_us
    assert typical.end_us <= window[1]
    found = drawn_events(made, most=500)
    assert 400 < found["shown"] <= 500
    assert found["total"] == 200 * (8 + 9 + 7)
    assert window[0] in {one.start_us for one in made.iterations}


def test_the_typical_inference_is_the_one_nearest_the_median() -> None:
    spans = [10, 50, 12, 11, 400]
    made = Timeline("hand", iterations=tuple(Iteration(at, at * 1000, at * 1000 + us) for at, us in enumerate(spans)))
    found = typical_iteration(made)
    assert found is not None
    assert found.index == 2
    assert typical_iteration(Timeline("hand")) is None


# ---- the verb


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A timeline of LeNet-5's nodes, and the model beside it."""
    save(traced(names=("conv1", "relu1", "pool1", "conv2", "fc1", "fc2"), model=None), tmp_path / "t.json")
    return tmp_path


@pytest.fixture(scope="module")
def lenet5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("model") / "lenet5.onnx"
    assert main(["export", "lenet5", "--shipped", "-o", str(file)]) == 0
    return file


def test_the_verb_writes_a_page_and_says_where(
    made: Path, lenet5: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    assert main(["report", "t.json", "--model", str(lenet5), "--datasheet", "H200"]) == 0
    said = capsys.readouterr().out
    assert "One inference took 100.0 \u00b5s" in said
    assert "report  report.html" in said
    words = " ".join(Page((made / "report.html").read_text("utf-8")).words)
    assert "lenet5.onnx" in words
    assert "from its data sheet, not measured" in words
    assert "lenet-trt report t.json --model" in words


def test_the_output_says_what_is_written(made: Path, lenet5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["report", str(made / "t.json"), "--model", str(lenet5), "--datasheet", "H200"]
    assert main([*given, "-o", str(made / "r.md")]) == 0
    assert (made / "r.md").read_text("utf-8").startswith("# lenet5.onnx on ")
    assert main([*given, "-o", str(made / "r.json")]) == 0
    capsys.readouterr()
    assert main([*given, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["ledger"] == json.loads((made / "r.json").read_text())["ledger"]
    assert {point["node"] for point in printed["roofline"]} >= {"conv1", "conv2", "fc1"}
    assert main([*given, "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("# lenet5.onnx on ")
    assert not (made / "report.html").exists()


def test_ceilings_measured_elsewhere_are_taken(made: Path, lenet5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", str(lenet5), "--batch", "32", "--datasheet", "H200", "--json"]) == 0
    (made / "roofline.json").write_text(capsys.readouterr().out)
    (made / "ceilings.json").write_text(json.dumps(ceilings_json(CEILINGS)))
    given = ["report", str(made / "t.json"), "--model", str(lenet5), "-o", str(made / "r.json")]
    floors = []
    for name in ("roofline.json", "ceilings.json"):
        assert main([*given, "--ceilings", str(made / name)]) == 0
        floors.append(json.loads((made / "r.json").read_text())["floor_us"])
    # 4.8 TB/s of the data sheet against 1 TB/s of round figures.
    assert floors[0] < floors[1] / 3
    (made / "ceilings.json").write_text("{}")
    assert main([*given, "--ceilings", str(made / "ceilings.json")]) == 1
    assert "holds no ceilings" in capsys.readouterr().err


def test_before_and_after(made: Path, lenet5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(traced(names=("conv1", "relu1"), speed=3, model=None), made / "old.json")
    given = ["report", str(made / "t.json"), "--model", str(lenet5), "--before", str(made / "old.json")]
    given += ["--before-model", str(lenet5)]
    assert main([*given, "--datasheet", "H200", "-o", str(made / "r.html")]) == 0
    words = " ".join(Page((made / "r.html").read_text("utf-8")).words)
    assert "Before: old.json, 244.0 \u00b5s" in words
    assert "244.0 \u00b5s before, 100.0 \u00b5s now: 2.44\u00d7 as fast." in words
    assert main([*given, "--datasheet", "H200", "-o", str(made / "r.json")]) == 0
    found = json.loads((made / "r.json").read_text())
    assert found["before"]["ledger"]["total"]["floor_us"] > 0
    assert main(["report", str(made / "t.json"), "--before-model", str(lenet5)]) == 2
    assert "name that timeline with --before" in capsys.readouterr().err


def test_a_fused_node_stands_beside_those_that_it_replaced() -> None:
    from lenet_trt.report.stage import run_of

    made = content(before=traced())
    now = repeated(40, [call(1, 4), kernel(6, 36, "fused")])
    fused = replace(nodes()[0], node="fused", replaces=("/conv1/Conv", "/relu1/Relu"))
    changes = replace(made, run=run_of(now, "now", [fused]), nodes=(fused,)).node_changes()
    assert (changes[0].name, changes[0].before_us, changes[0].now_us) == (
        "fused (before: /conv1/Conv, /relu1/Relu)", 16 + 5.5, 36
    )  # fmt: skip
    assert [change.name for change in changes[1:]][-1] == "no node"
    assert "/conv2/Conv" in {change.name for change in changes}
    assert sum(change.before_us for change in changes) == pytest.approx(100)


def test_lenet5s_layers_stand_beside_the_kernel_that_replaced_them(tmp_path: Path, lenet5: Path) -> None:
    """As traced on an H200: the graph runtime, 32 images, before and after ``lenet-trt fuse``."""
    from lenet_trt.report.stage import content_of
    from lenet_trt.trace.readers import timeline_from

    fused = tmp_path / "lenet5.fused.onnx"
    assert main(["fuse", str(lenet5), "-o", str(fused)]) == 0
    before, now = (
        replace(timeline_from(ROOT / "tests" / "traces" / f"{name}.sqlite.gz"), sizes={"n": 32})
        for name in ("lenet5_inside", "fused_inside")
    )
    made = content_of(now, model=fused, before=before, before_model=lenet5)
    (whole,) = (entry for entry in made.nodes if entry.op == "lenet5")
    assert whole.replaces == (
        "conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "flatten", "fc1", "relu3", "fc2", "relu4", "fc3",
    )  # fmt: skip
    first, *others = made.node_changes()
    assert first.name == (
        "lenet5 (before: conv1, relu1, pool1, conv2, relu2, pool2, fc1, relu3, fc2, relu4, fc3)"  # flatten is a view
    )
    assert first.before_us > 5 * first.now_us > 0
    assert [change.name for change in others] == ["no node"]
    assert first.before_us + others[0].before_us == pytest.approx(made.before.ledger.end_to_end_us)


def test_an_engines_layers_stand_beside_the_plugin_that_replaced_their_nodes() -> None:
    from lenet_trt.report.stage import run_of

    def layers(*names: str) -> Timeline:
        return repeated(60, [call(1, 4), *(kernel(6 + 20 * at, 20 + 20 * at, name) for at, name in enumerate(names))])

    first, second = (replace(nodes()[0], node=name) for name in ("/conv1/Conv", "/relu1/Relu"))
    before = run_of(layers("/conv1/Conv + /relu1/Relu", "/conv2/Conv"), "before", [first, second])
    plugin = replace(first, node="stage", replaces=("/conv1/Conv", "/relu1/Relu"))
    made = replace(content(), before=before, run=run_of(layers("stage", "/conv2/Conv"), "now", [plugin]))
    changes = {change.name: change for change in replace(made, nodes=(plugin,)).node_changes()}
    assert list(changes) == ["stage (before: /conv1/Conv + /relu1/Relu)", "/conv2/Conv", "no node"]


def test_an_optimisation_stands_in_the_report() -> None:
    def stats(us: float) -> dict[str, float]:
        return {"median_us": us, "low_us": us - 1, "high_us": us + 1}

    piece = {"kernel": "batched_matvec", "nodes": ["matmul"]}
    trial = {"candidate": [piece], "promise_us": 90, "old": stats(100), "new": stats(9), "accuracy": None}
    other = {**trial, "new": None, "kept": False, "reason": "its error is <b>0.3</b>"}
    record = {
        "model": "m.onnx",
        "chosen": [{"batch": None, "plan": [piece], "times_faster": 11.1,
                    "times": [{"plan": [], **stats(100)}, {"plan": [piece], **stats(9)}]}],
        "crossings": [],
        "batches": [{"batch": None, "trials": [{**trial, "kept": True, "reason": "faster"}, other]}],
        "environment": {"gpu": "a GPU"}, "where": "here", "how": "by events", "command": "lenet-trt optimize m.onnx",
    }  # fmt: skip
    made = replace(content(), optimized=record)
    words = " ".join(Page(page(made)).words)
    assert "11.10 times faster" in document(made)
    for wanted in (
        "11.10 times faster",
        "kept: faster",
        "not kept: its error is <b>0.3</b>",
        "lenet-trt optimize m.onnx",
    ):
        assert wanted in words


def test_what_is_not_known_is_said(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(made / "t.json"), "--datasheet", "H200", "-o", str(made / "r.html")]) == 0
    said = capsys.readouterr().out
    assert "not known: the trace does not name its model: give it with --model" in said
    assert "give it with --model" in (made / "r.html").read_text("utf-8")


def test_a_trace_of_a_cpu_is_held_against_no_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layers = (Activity("layer", "MatMul", 1, 9, iteration=0, node="matmul"),)
    cpu = {"gpu": None, "cpu": "a CPU"}
    save(Timeline("x", environment=cpu, iterations=(Iteration(0, 0, 10),), activities=layers), tmp_path / "t.json")
    assert main(["report", str(tmp_path / "t.json"), "-o", str(tmp_path / "r.html")]) == 0
    assert "ceilings are of GPUs" in capsys.readouterr().out
    html = (tmp_path / "r.html").read_text("utf-8")
    assert "a traced run on a CPU" in re.sub(r"</?bdi>", "", html)
    assert [row["label"] for row in data_of(html)["rows"]] == ["Layers"]  # type: ignore[index,call-overload]


def test_open_sizes_are_asked_for_and_taken(made: Path, lenet5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(traced(names=("conv1",), model=None, sizes={}), made / "open.json")
    given = ["report", str(made / "open.json"), "--model", str(lenet5), "--datasheet", "H200", "-o", str(made / "r.md")]
    assert main(given) == 0
    assert "--sizes n=N" in capsys.readouterr().out
    assert main([*given, "--sizes", "n=32"]) == 0
    assert "not known" not in capsys.readouterr().out
    assert main([*given, "--sizes", "n=many"]) == 2
    assert "wanted NAME=N" in capsys.readouterr().err


def test_a_model_that_was_not_traced_is_warned_of(made: Path, lenet5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(traced(model=None, model_sha256="0" * 64), made / "t.json")
    given = ["report", str(made / "t.json"), "--model", str(lenet5), "--datasheet", "H200", "-o", str(made / "r.md")]
    assert main(given) == 0
    assert "is not the file that was traced" in capsys.readouterr().err


def test_the_model_of_a_traced_engine_is_not_warned_of(
    made: Path, lenet5: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(replace(traced(model=None, model_sha256="0" * 64), model="lenet5.engine"), made / "e.json")
    given = ["report", str(made / "e.json"), "--model", str(lenet5), "--datasheet", "H200", "-o", str(made / "e.md")]
    assert main(given) == 0
    assert "traced (" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "status", "said"),
    [
        (["missing.json"], 1, "cannot be read"),
        (["broken.json"], 1, "is not JSON"),
        (["t.json", "--before", "missing.json"], 1, "cannot be read"),
        (["t.json", "--optimize", "missing.json"], 1, "cannot be read"),
        (["t.json", "--optimize", "broken.json"], 1, "wanted the optimize.json of"),
        (["t.json", "--optimize", "other.json"], 1, "is not the optimize.json"),
        (["t.json", "--model", "missing.onnx"], 1, "does not exist"),
        (["t.json", "--model", "."], 1, "is a folder"),
        (["hashed.json", "--model", "missing.onnx"], 1, "does not exist"),
        (["empty.json"], 1, ""),
    ],
)
def test_what_cannot_be_read_is_named(
    made: Path,
    wrong: list[str],
    status: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(made)
    (made / "broken.json").write_text("{")
    (made / "other.json").write_text('{"chosen": []}')
    save(Timeline("hand"), made / "empty.json")
    traced = json.loads((made / "t.json").read_text())
    (made / "hashed.json").write_text(json.dumps({**traced, "model_sha256": "0" * 64}))
    assert main(["report", *wrong, "--datasheet", "H200"]) == status
    assert said in capsys.readouterr().err
    assert not (made / "report.html").exists()


def test_real_traces_of_the_h200_make_reports(tmp_path: Path, lenet5: Path) -> None:
    timeline = tmp_path / "t.json"
    trace = ROOT / "tests" / "traces" / "lenet5_inside.sqlite.gz"
    assert main(["profile", "--from", str(trace), "-o", str(timeline)]) == 0
    given = ["report", str(timeline), "--model", str(lenet5), "--sizes", "n=32", "--datasheet", "H200"]
    assert main([*given, "-o", str(tmp_path / "r.html"),]) == 0  # fmt: skip
    words = " ".join(Page((tmp_path / "r.html").read_text("utf-8")).words)
    assert "NVIDIA H200" in words
    assert "sgemm_largek_lds64" in words
    for node in ("conv1", "pool2", "fc3"):
        assert node in words


def test_text_on_bars_has_the_contrast_that_wcag_aa_asks_for() -> None:
    """A browser cannot tell what lies behind text in a picture; the colours can."""
    style = (ROOT / "lenet_trt" / "report" / "report.css").read_text("utf-8")
    (ink,) = re.findall(r"\.bar text \{[^}]*fill: (#\w{6})", style)
    for name in ("floor", "kernels", "unjudged", "copies", "gaps", "enqueue", "residual", "memset", "call", "wait"):
        (pair,) = re.findall(rf"--{name}: light-dark\((#\w{{6}}), (#\w{{6}})\)", style)
        for colour in pair:
            assert (_light(colour) + 0.05) / (_light(ink) + 0.05) >= 4.5, (name, colour)


def _light(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
