"""The figures of documents: what a record has is in the document, and nothing else is."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench_data import record, stats
from lenet_trt.bench import page
from lenet_trt.bench.gains import gains, measured_workloads
from lenet_trt.bench.record import Record, Row, as_json, load_record
from lenet_trt.bench.sources import Sources
from lenet_trt.bench.tables import duration
from lenet_trt.errors import LenetTrtError
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor
from lenet_trt.trace import timeline
from lenet_trt.trace.timeline import Activity, Timeline

HERE = {
    "gpu": "GPU X",
    "sm": 90,
    "multiprocessors": 10,
    "l2_bytes": 1 << 20,
    "driver": "1.2",
    "driver_cuda": "13.0",
    "nvrtc": "13.0",
    "cpu": "CPU Y",
    "cpus": 2,
    "python": "3.11",
    "packages": {"torch": "9.9"},
}


def _workload(title: str, kernel: str, floor_us: float, mode: str = "graph") -> dict[str, Any]:
    return {"section": "lenet5", "title": title, "kernel": kernel, "mode": mode, "floors_us": {"fp32": floor_us}}


def _row(backend: str, workload: str, us: float, ours: bool, mode: str = "graph", **extra: Any) -> Row:
    return Row(backend, {"workload": workload, "mode": mode}, stats(us), None, {"ours": ours, "error": 1e-7, **extra})


def _kernels() -> Record:
    names = {"lenet5 fp32 n=1": "LeNet-5, fp32, n = 1", "matmul fp32": "MatMul, fp32"}
    return record(
        _row("product", "lenet5 fp32 n=1", 5, True, variant="cluster8"),
        _row("portable", "lenet5 fp32 n=1", 7, True, variant="portable"),
        _row("torch, CUDA graph", "lenet5 fp32 n=1", 40, False),
        _row("torch wrong", "lenet5 fp32 n=1", 1, False, error=None),
        Row("torch broken", {"workload": "lenet5 fp32 n=1", "mode": "graph"}, None, "it | broke", {"ours": False}),
        _row("product", "matmul fp32", 70, True, "launch", variant="wide"),
        _row("product", "matmul fp32", 65, True, "graph", variant="wide"),
        _row("torch.matmul", "matmul fp32", 1400, False, "launch"),
        _row("torch.compile of matmul", "matmul fp32", 60, False, "launch"),
        suite="kernels",
        environment=HERE,
        details={
            "workloads": {
                name: _workload(title, name.partition(" ")[0], 2.7, "launch" if "mat" in name else "graph")
                for name, title in names.items()
            }
        },
        notes=("A note.",),
        clocks=[{"sm_mhz": mhz} for mhz in (300, 1980, 1980)],
    )


def _ladder() -> Record:
    name = "ladder conv5x5_bias fp32"
    return record(
        _row("0: loops on one CPU thread", name, 2.4e6, True, "-", step=True),
        _row("1: a thread an output", name, 9000, True, step=True),
        _row("product", name, 320, True, variant="split"),
        suite="ladder",
        environment=HERE,
        details={"workloads": {name: _workload("Conv", "conv5x5_bias", 278)}},
    )


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """A folder with the records of one GPU in the folder gpu."""
    path = tmp_path / "results"
    (path / "gpu").mkdir(parents=True)
    for made in (_kernels(), _ladder()):
        save(path, made)
    return path


def save(records: Path, made: Record) -> None:
    (records / "gpu" / f"{made.suite}.json").write_text(as_json(made))


def figure(records: Path, words: str) -> str:
    """The text that a placeholder gets."""
    document = records.parent / "document.md"
    made = page.filled(f"Before <!-- figure: {words} -->old<!-- end --> after.", Sources(records, document))
    assert made.startswith(f"Before <!-- figure: {words} -->")
    assert made.endswith("<!-- end --> after.")
    return made.partition("-->")[2].removesuffix("<!-- end --> after.")


def ran(backend: str, us: float, **case: Any) -> Row:
    return Row(backend, case, stats(us), None, {"precision": "fp32", "place": "GPU", "error": 1e-7})


def test_a_time_stands_within_its_line(records: Path) -> None:
    words = 'time gpu/kernels product "workload=matmul fp32" mode=launch'
    assert figure(records, words) == duration(stats(70).median_us)
    save(records, record(ran("lenet5 kernel", 9, batch=1), ran("lenet5 kernel", 20, batch=32), environment=HERE))
    assert figure(records, 'time gpu/sweep "lenet5 kernel" batch=32') == duration(stats(20).median_us)
    assert figure(records, "plan gpu/kernels rounds") == "5"


@pytest.mark.parametrize(
    "words",
    [
        "time other/kernels product",
        "plan other/kernels rounds",
        "machine other",
        "compare other/kernels",
        "contest other/engines workload=x",
        "steps other/ladder",
        "rows other/kernels",
        "findings other/sweep",
        'picture other/sweep a.svg "A picture"',
        "quoted other gpu",
        "ledger other.json",
        "engine other.timeline.json.gz",
    ],
)
def test_without_a_record_a_figure_is_not_measured(records: Path, words: str) -> None:
    assert figure(records, words).strip() == "not measured"


def test_a_percentile_of_the_waits_stands_in_a_line(tmp_path: Path) -> None:
    row = Row("a path", {"load": "none"}, stats(10), None, {"percentiles": {"50": 10.0, "99": 12.5}})
    (tmp_path / "waits.json").write_text(as_json(record(row, suite="latency", environment=HERE)))
    median = duration(stats(10).median_us)
    for words, said in (("", median), (" percentile=99", "12.50 us"), (" percentile=99.9", "not measured")):
        assert figure(tmp_path, f'time waits "a path" load=none{words}') == said


def test_an_engines_layers_have_the_forms_of_their_tensors(tmp_path: Path) -> None:
    x, a, b = (
        LayerTensor(name, (1, 6), dtype, form)
        for name, dtype, form in (("x", "float32", "linear FP32"), ("a", "int8", "NC/32HW32 INT8"), ("b", "int8", ""))
    )
    layers = (EngineLayer("to int8", "Reformat", "", (), (x,), (a,)), EngineLayer("conv", "", "i8", (), (a,), (b, b)))
    ran = [Activity("layer", f"kernel {i}", 2 * i, 2 * i + 1.5, node=each.name) for i, each in enumerate(layers)]
    unknown = Activity("layer", "kernel 2", 4, 5, node="other")
    timeline.save(Timeline("trtexec", activities=(*ran, unknown), layers=layers), tmp_path / "t.timeline.json")
    made = page.filled("<!-- figure: engine t.timeline.json --><!-- end -->", Sources(tmp_path, tmp_path / "doc.md"))
    for line in (
        "| to int8 | linear FP32 | NC/32HW32 INT8 | `kernel 0` | 1.50 |",
        "| conv | NC/32HW32 INT8 | int8 | `kernel 1` | 1.50 |",
        "| other |  |  | `kernel 2` | 1.00 |",
        "| all layers |  |  |  | 4.00 |",
    ):
        assert line in made


def test_a_model_without_a_record_keeps_its_line(records: Path) -> None:
    assert "| conv | not measured |" in figure(records, "optimized optimize/conv")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- figure: tiem gpu/kernels -->x<!-- end -->", "'tiem' is no kind of figure; the kinds are compare, "),
        ("<!-- figure: rows -->x<!-- end -->", "rows cannot take these words"),
        ("<!-- figure: rows gpu/kernels -->x", "has no end: write <!-- end -->"),
        ("<!-- figure: rows a --> <!-- figure: rows b --><!-- end -->", "has no end: write <!-- end -->"),
        (
            "<!-- figure: time gpu/kernels prodcut -->x<!-- end -->",
            "has no row of 'prodcut' with {}; its ",
        ),
        ("<!-- figure: compare gpu/kernels lnet -->x<!-- end -->", "no workload 'lnet'; it has lenet5 fp32 n=1, "),
    ],
)
def test_a_placeholder_that_is_wrong_is_refused(records: Path, text: str, said: str) -> None:
    with pytest.raises(LenetTrtError, match=re.escape(said)):
        page.filled(text, Sources(records, Path("document.md")))


def test_code_is_left_alone(records: Path) -> None:
    text = "`<!-- figure: rows x -->`\n```\n<!-- figure: rows x -->\n```\n"
    assert page.filled(text, Sources(records, Path("document.md"))) == text


def test_every_row_is_in_the_table_with_its_time_or_its_reason(records: Path) -> None:
    for made in (_kernels(), _ladder()):
        text = figure(records, f"rows gpu/{made.suite}")
        for row in made.rows:
            assert row.backend in text
            assert (duration(row.stats.median_us) if row.stats else str(row.why)) in text
    assert "- torch broken (lenet5 fp32 n=1, graph): it | broke" in figure(records, "rows gpu/kernels")


def test_a_backend_that_no_code_names_is_in_every_table(records: Path) -> None:
    """Such as the engines of another version of TensorRT, with our plugin and without it."""
    alone, ours = "TensorRT 8.6.0", "TensorRT 8.6.0 + lenet_trt plugin"
    for name, cases in {
        "sweep": [{"batch": 1}, {"batch": 32}],
        "10k": [{"images": "GPU memory"}],
        "occupancy": [{"batch": 1}, {"batch": 32}],
        "cold": [{"batch": 1, "loading": "lazy", "caches": "filled"}],
    }.items():
        rows = [Row(backend, case, stats(us)) for case in cases for backend, us in ((alone, 21), (ours, 5.3))]
        if name == "cold":
            later = {key: stats(3).as_json() for key in ("preloaded", "ready", "second", "steady")}
            rows = [replace(row, extra=later) for row in rows]
        save(records, record(*rows, suite=name, environment=HERE))
        text = figure(records, f"rows gpu/{name}")
        for backend, us in ((alone, 21), (ours, 5.3)):
            assert f"| {backend} |" in text, name
            assert duration(stats(us).median_us) in text, name
        shown = figure(records, f'picture gpu/{name} {name}.svg "A picture"')
        assert shown.strip() in (f"![A picture]({name}.svg)", "not measured")
    assert ours in figure(records, "findings gpu/sweep")
    kernels = _kernels()
    more = _row(alone, "matmul fp32", 50, False, "launch")
    save(records, replace(kernels, rows=[*kernels.rows, more]))
    (line,) = [line for line in figure(records, 'compare gpu/kernels "matmul fp32"').splitlines() if "MatMul" in line]
    assert line in figure(records, "compare gpu/kernels matmul"), "all whose names begin so"
    assert f"| {alone} | {duration(stats(50).median_us)} |" in line


def test_ours_stands_beside_the_best_of_the_others(records: Path) -> None:
    first, second = figure(records, "compare gpu/kernels").splitlines()[3:5]
    ours, peer = (stats(us).median_us for us in (5, 40))
    cells = [cell.strip() for cell in first.strip("|").split("|")]
    assert cells[:5] == ["LeNet-5, fp32, n = 1", "2.70 us", duration(ours), "torch, CUDA graph", duration(peer)]
    assert cells[5:] == [f"{peer / ours:.2f}", "1.0e-07"]
    assert duration(stats(70).median_us) in second, "its own mode counts, not the faster one"


def test_a_contest_is_against_the_best_of_the_same_accuracy(records: Path) -> None:
    alone, loose, searched, ours = "TensorRT", "TensorRT, TF32", "TensorRT, level 5", "lenet_trt in TensorRT"
    times = {
        ("LeNet-5 fp32", 1): (21, 19, 20, 5.3),
        ("LeNet-5 fp32", 10_000): (826, 2, None, 75),
        ("MatMul fp32", 0): (228e3, None, 2, None),
    }
    rows = []
    for (workload, batch), row in times.items():
        case = {"workload": workload, **({"batch": batch} if batch else {})}
        for backend, us in zip((alone, loose, searched, ours), row, strict=True):
            rows.append(Row(backend, case, stats(us) if us else None, None if us else "it broke"))
    rows.append(
        Row("TensorRT, cuBLAS and cuDNN", {"workload": "LeNet-5 fp32", "batch": 1}, stats(3), None, {"right": False})
    )
    save(records, record(*rows, suite="engines", environment=HERE))

    def median(us: float) -> float:
        return stats(us).median_us

    found = figure(records, 'contest gpu/engines "workload=MatMul fp32" "workload=LeNet-5 fp32"').splitlines()
    assert found[1].startswith("| workload | batch | TensorRT at its best | with our plugins | times faster |")
    assert found[3] == f"| MatMul fp32 | - | {duration(median(2))} | - | - | - |"
    best, ours = ([duration(median(us)).partition(" ")[0] for us in pair] for pair in ((20, 826), (5.3, 75)))
    assert found[4].startswith(f"| LeNet-5 fp32 | 1 / 10,000 | {' / '.join(best)} us | {' / '.join(ours)} us |")
    factors = [f"{median(us) / median(5.3):.3g}x" for us in (20, 19)]
    assert f"| {factors[0]} / {median(826) / median(75):.3g}x | {factors[1]} / " in found[4], "TF32 stands beside"
    assert len(found) == 5
    few = figure(records, 'contest gpu/engines "workload=LeNet-5 fp32" batch=1').strip().splitlines()
    assert few[2].startswith(f"| LeNet-5 fp32 | 1 | {best[0]} us |")
    for words, said in (
        ("workload=LeNet", "has no workload 'LeNet'; it has LeNet-5 fp32, MatMul fp32"),
        ("images=3", "'images=3' is not workload=... or batch=..."),
    ):
        with pytest.raises(LenetTrtError, match=re.escape(said)):
            figure(records, f"contest gpu/engines {words}")
    summary = figure(records, "findings gpu/engines")
    first, second = (line for line in summary.splitlines() if line.startswith("| LeNet-5 fp32"))
    assert first.endswith(f"| {searched} |"), "one that is wrong is no peer"
    assert second.endswith(f"| {alone} |")
    assert "MatMul" not in summary, "nothing to compare"


def test_networks_have_a_line_each_with_both_engines(records: Path) -> None:
    def row(backend: str, network: str, batch: int, precision: str, us: float | None) -> Row:
        case = {"network": network, "batch": batch, "precision": precision}
        return Row(backend, case, stats(us) if us else None, None if us else "it broke")

    rows = [
        row("TensorRT", "lstm", 32, "fp32", 800),
        row("TensorRT, our plugins", "lstm", 32, "fp32", 80),
        row("TensorRT", "lstm", 1, "fp32", 400),
        row("TensorRT", "lstm", 1, "fp16", 300),
        row("TensorRT", "lstm", 32, "fp16", 500),
        row("TensorRT, our plugins", "lstm", 32, "fp16", None),
        row("TensorRT", "unet", 1, "fp32", None),
        row("graph runtime", "unet", 1, "fp32", 90),
    ]
    save(records, record(*rows, suite="zoo", environment=HERE))
    before, after, one, half = (duration(stats(us).median_us) for us in (800, 80, 400, 300))
    times = stats(800).median_us / stats(80).median_us
    headings, _, *lines = figure(records, "networks gpu/zoo").strip().splitlines()
    assert headings == "| network | fp32, batch 1 | fp32, batch 32 | fp16, batch 1 |"
    assert lines == [f"| lstm | {one} | {before} to {after} ({times:.2f}x) | {half} |"]
    assert figure(records, "networks gpu/zoo lstm").strip().splitlines()[2:] == lines
    graph = figure(records, 'networks gpu/zoo "backend=graph runtime"').strip().splitlines()
    assert graph[2:] == [f"| unet | {duration(stats(90).median_us)} |"]
    with pytest.raises(LenetTrtError, match="no times of 'unet'; it has those of lstm"):
        figure(records, "networks gpu/zoo unet")
    halves = figure(records, "networks gpu/zoo precision=fp16").strip().splitlines()
    assert [halves[0], *halves[2:]] == ["| network | fp16, batch 1 |", f"| lstm | {half} |"]
    with pytest.raises(LenetTrtError, match="no option 'batch'; it has backend and precision"):
        figure(records, "networks gpu/zoo batch=1")
    later = replace(
        record(row("TensorRT", "gpt", 1, "fp16", 90), suite="zoo", environment=HERE),
        commit="b" * 40,
        details={"library_sha256": "b" * 64},
    )
    (records / "gpu/later.json").write_text(as_json(later))
    (records / "gpu/rebuilt.json").write_text(as_json(replace(later, details={"library_sha256": "c" * 64})))
    (records / "gpu/other.json").write_text(as_json(replace(later, environment={**HERE, "gpu": "GPU Z"})))
    with pytest.raises(LenetTrtError, match="are of GPU GPU X and GPU Z: a table must not mix them"):
        figure(records, "networks gpu/zoo,gpu/other")
    with pytest.raises(LenetTrtError, match=r"are of plugin library b+ and c+: a table must not mix them"):
        figure(records, "networks gpu/later,gpu/rebuilt")
    zoo = records / "gpu/zoo.json"
    zoo.write_text(as_json(replace(load_record(zoo), details={"library_sha256": "a" * 64})))  # of an earlier commit
    *_, first, second = figure(records, "networks gpu/zoo,gpu/later").strip().splitlines()
    assert [first, second] == [*lines, f"| gpt | - | - | {duration(stats(90).median_us)} |"]
    again = replace(later, rows=(row("TensorRT", "lstm", 1, "fp16", 200),), date="2031-01-01 00:00 UTC")
    (records / "gpu/again.json").write_text(as_json(again))
    *_, newest = figure(records, "networks gpu/again,gpu/zoo").strip().splitlines()
    assert newest == lines[0].replace(half, duration(stats(200).median_us)), "the newest of those that measured it"
    assert "not measured" in figure(records, "networks gpu/never")
    assert "not measured" in figure(records, "networks gpu/zoo,gpu/never")


def test_steps_have_a_column_a_workload(records: Path) -> None:
    lines = figure(records, 'steps gpu/ladder "conv5x5_bias fp32"').strip().splitlines()
    assert lines[0] == "| step | Conv |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "0: loops on one CPU thread",
        "1: a thread an output",
        "product",
    ]
    assert duration(stats(9000).median_us) in lines[3]


def test_figures_of_others_stand_beside_ours(records: Path) -> None:
    case = {"workload": "ladder conv5x5_bias fp32"}
    entry = {
        "source": "a paper",
        "what": "a convolution",
        "time": "11.7 s",
        "gpu": "GPU not named",
        "same": {"suite": "ladder", "backend": "1: a thread an output", "case": case},
        "ours": {"suite": "sweep", "backend": "product", "case": {}},
    }
    (records / "paper.json").write_text(json.dumps({"figures": [entry]}))
    same = f"1: a thread an output: {duration(stats(9000).median_us)}"
    line = f"| a paper | a convolution | 11.7 s (GPU not named) | {same} | product: not measured |"
    assert line in figure(records, "quoted paper gpu").splitlines()


def test_a_commit_is_listed_once_with_what_was_measured_at_it(records: Path) -> None:
    for made, commit in ((_kernels(), "aaa"), (_ladder(), "bbb"), (record(ran("x", 9, batch=1)), "aaa")):
        save(records, replace(made, commit=commit, date=f"day {made.suite}", seconds=7.0, environment=HERE))
    lines = [line for line in figure(records, "machine gpu").splitlines() if line.startswith("- Commit")]
    assert lines == ["- Commit `aaa`: kernels day kernels (7 s), sweep day sweep (7 s).",
                     "- Commit `bbb`: ladder day ladder (7 s)."]  # fmt: skip
    save(records, replace(_ladder(), environment={**HERE, "gpu": "GPU Z"}))
    with pytest.raises(LenetTrtError, match="GPU X and GPU Z"):
        figure(records, "machine gpu")


def test_a_record_that_is_interrupted_says_so(records: Path) -> None:
    save(records, replace(_kernels(), interrupted=True))
    assert "- Take care: the run was interrupted" in figure(records, "rows gpu/kernels")


def test_the_command_fills_checks_and_draws(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = records.parent / "document.md"
    document.write_text(
        "# Times\n\n<!-- figure: rows gpu/ladder --><!-- end -->\n\n"
        '<!-- figure: picture gpu/ladder images/ladder.svg "The ladder" --><!-- end -->\n'
    )
    (records.parent / "images").mkdir()
    words = [str(document), "--records", str(records)]
    picture = records.parent / "images" / "ladder.svg"
    assert page.main([*words, "--check"]) == 1
    assert f"{document} is not current" in capsys.readouterr().out
    assert not picture.exists()
    assert page.main(words) == 0
    assert capsys.readouterr().out.split() == [str(document), str(picture)]
    assert ET.parse(picture).getroot().tag.endswith("svg")
    assert "![The ladder](images/ladder.svg)" in document.read_text()
    assert page.main([*words, "--check"]) == 0
    assert page.main(words) == 0
    assert capsys.readouterr().out == "", "nothing is written where nothing changed"
    slower = [replace(row, stats=stats(9999)) if row.backend.startswith("1:") else row for row in _ladder().rows]
    save(records, replace(_ladder(), rows=slower))
    assert page.main([*words, "--check"]) == 1
    said = capsys.readouterr().out
    assert f"{document} is not current" in said
    assert f"{picture} is not current" in said


def test_what_cannot_be_read_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert page.main([str(tmp_path / "none.md")]) == 1
    assert "cannot be read" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert page.main([]) == 2
    assert "there is no README.md and no docs folder here" in capsys.readouterr().err


def test_gains_are_those_of_the_product_over_the_best_right_peer() -> None:
    lenet5, matmul = gains(_kernels())
    assert lenet5 == {
        "kernel": "lenet5",
        "workload": "LeNet-5, fp32, n = 1",
        "us": stats(5).median_us,
        "peer": "torch, CUDA graph",
        "peer_us": stats(40).median_us,
        "gpu": "GPU X",
    }
    assert matmul["us"] == stats(70).median_us
    assert matmul["peer"] == "torch.compile of matmul"
    alone = replace(_kernels(), rows=[row for row in _kernels().rows if row.extra.get("ours")])
    assert gains(alone) == []


def test_rows_are_told_in_order() -> None:
    (conv,) = measured_workloads(_ladder())
    assert [row.backend for row in conv.ordered()][:2] == ["0: loops on one CPU thread", "1: a thread an output"]
    lenet5 = next(iter(measured_workloads(_kernels())))
    assert [row.backend for row in lenet5.ordered()] == [
        "product",
        "portable",
        "torch wrong",
        "torch, CUDA graph",
        "torch broken",
    ]
