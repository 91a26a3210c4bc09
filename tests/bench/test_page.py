"""The page of a folder of records: what is in it is in the records, and what is in the records is in it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench_data import record, stats
from lenet_trt.bench import page
from lenet_trt.bench.gains import gains, workloads
from lenet_trt.bench.goals import goals, quotations
from lenet_trt.bench.record import Record, Row, as_json
from lenet_trt.bench.tables import duration
from lenet_trt.errors import LenetTrtError

ROOT = Path(__file__).resolve().parents[2]
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
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "records"
    path.mkdir()
    for made in (_kernels(), _ladder()):
        (path / f"{made.suite}.json").write_text(as_json(made))
    return path


def test_the_page_and_its_pictures_are_written(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output, images = tmp_path / "docs" / "results.md", tmp_path / "docs" / "images"
    assert page.main([str(folder), "-o", str(output), "--pictures", str(images)]) == 0
    written = capsys.readouterr().out.split()
    assert written == [str(output), str(images / "bench_kernels.svg"), str(images / "bench_ladder.svg")]
    text = output.read_text()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (output.parent / link).is_file(), link
    for path in images.iterdir():
        assert ET.parse(path).getroot().tag.endswith("svg")


def test_every_row_is_on_the_page_with_its_time_or_its_reason(folder: Path) -> None:
    text = _text(folder)
    for made in page.read(folder).values():
        for row in made.rows:
            assert row.backend in text
            assert (duration(row.stats.median_us) if row.stats else str(row.why)) in text
    assert "- torch broken (lenet5 fp32 n=1, graph): it | broke" in text


def test_goals_are_held_against_the_record(folder: Path) -> None:
    lines = [line for line in _text(folder).splitlines() if line.startswith("| LeNet-5, fp32, n = 1 | 2.70 us")]
    cells = [cell.strip() for cell in lines[0].strip("|").split("|")]
    ours, peer = (stats(us).median_us for us in (5, 40))
    assert cells[2:4] == [f"**{duration(ours)}**", "6.00 us"]
    assert cells[4:7] == [f"torch, CUDA graph: {duration(peer)}", f"**{peer / ours:.2f}x**", "5.3x"]
    (matmul,) = [line for line in _text(folder).splitlines() if line.startswith("| MatMul, fp32 | 2.70 us")]
    assert f"{duration(stats(70).median_us)} (missed) | 60.50 us" in matmul, "its own mode counts, not the faster one"
    assert "23x torch.matmul" in matmul


def test_what_the_runtime_and_the_host_add_is_held_against_its_goals(folder: Path) -> None:
    for alone_us, waits_us, verdict in ((5.5, 9.0, "within"), (7.0, 30.0, "beyond")):
        row = Row("lenet5 kernel", {"batch": 1}, stats(waits_us), None, _sweep_extra(alone_us))
        (folder / "sweep.json").write_text(as_json(record(row, environment=HERE)))
        (line,) = [line for line in _text(folder).splitlines() if "inside the `graph` runtime" in line]
        assert f"{verdict} the 1.5 us" in line
        assert f"{verdict} the 10 us" in line
        assert duration(stats(waits_us).median_us) in line


def test_a_commit_stands_once_with_what_was_measured_at_it(folder: Path) -> None:
    for name, commit in (("kernels", "aaa"), ("ladder", "aaa"), ("sweep", "bbb")):
        row = Row("lenet5 kernel", {"batch": 1}, stats(9), None, _sweep_extra(5))
        made = {"kernels": _kernels(), "ladder": _ladder(), "sweep": record(row, environment=HERE)}[name]
        (folder / f"{name}.json").write_text(as_json(replace(made, commit=commit, date=f"day {name}", seconds=7.0)))
    lines = [line for line in _text(folder).splitlines() if line.startswith("- At commit")]
    assert lines == ["- At commit `bbb`: sweep day sweep (7 s).",
                     "- At commit `aaa`: kernels day kernels (7 s), ladder day ladder (7 s)."]  # fmt: skip


def test_a_runtime_that_adds_nothing_is_said_to_add_nothing(folder: Path) -> None:
    row = Row("lenet5 kernel", {"batch": 1}, stats(9.0), None, _sweep_extra(4.0))
    (folder / "sweep.json").write_text(as_json(record(row, environment=HERE)))
    (line,) = [line for line in _text(folder).splitlines() if "inside the `graph` runtime" in line]
    assert "no longer, within the 1.5 us" in line


def test_the_write_ups_stand_beside_todays_figures(folder: Path) -> None:
    (loops,) = [line for line in _text(folder).splitlines() if "Conv of 10,000 images, loops" in line]
    assert "| 11.7 s |" in loops
    assert f"loops on one CPU thread: {duration(stats(2.4e6).median_us)}" in loops
    assert f"product: {duration(stats(320).median_us)}" in loops


def test_the_page_says_what_to_type(folder: Path) -> None:
    assert f"\n$ lenet-trt bench kernels ladder -o {folder}\n$ the command\n```" in _text(folder)
    (folder / "ladder.json").write_text(as_json(replace(_ladder(), command="lenet-trt bench ladder --quick")))
    assert f"$ lenet-trt bench kernels -o {folder}\n$ lenet-trt bench ladder --quick -o {folder}\n" in _text(folder)


def test_a_record_that_is_interrupted_or_noisy_says_so(folder: Path) -> None:
    noisy = replace(_kernels(), interrupted=True)
    (folder / "kernels.json").write_text(as_json(noisy))
    assert "- Take care: the run was interrupted" in _text(folder)


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
    (conv,) = workloads(_ladder())
    assert [row.backend for row in conv.ordered()][:2] == ["0: loops on one CPU thread", "1: a thread an output"]
    lenet5 = next(iter(workloads(_kernels())))
    assert [row.backend for row in lenet5.ordered()] == [
        "product",
        "portable",
        "torch wrong",
        "torch, CUDA graph",
        "torch broken",
    ]


def test_what_makes_no_page_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert page.main([str(tmp_path / "empty")]) == 1
    assert "lenet-trt bench all -o" in capsys.readouterr().err
    elsewhere = replace(_ladder(), environment={**HERE, "gpu": "GPU Z"})
    (folder / "ladder.json").write_text(as_json(elsewhere))
    with pytest.raises(LenetTrtError, match="GPU X and GPU Z"):
        page.read(folder)


def test_goals_and_quotations_name_rows_that_suites_measure() -> None:
    """Looked up in the sources: a renamed workload or backend must not silently leave the page."""
    folders = (ROOT / "lenet_trt" / "bench", ROOT / "plugins")
    paths = [path for folder in folders for path in folder.rglob("*.py") if "goals" not in path.name]
    sources = "".join(path.read_text() for path in paths)
    for quoted in quotations():
        for where in (quoted.same, quoted.ours):
            assert f'"{where.backend}"' in sources, where.backend
    assert goals()
    for workload in goals():
        assert re.fullmatch(r"\w+ fp(16|32)( n=\d+)?", workload)


def _sweep_extra(alone_us: float) -> dict[str, Any]:
    alone = {"median_us": alone_us, "low_us": alone_us, "high_us": alone_us}
    return {"precision": "fp32", "place": "GPU", "error": 1e-7, "us_per_image": 9.0, "gpu_alone": alone}


def _text(folder: Path) -> str:
    made = page.files(folder, folder / "README.md", folder, "the command")
    return made[folder / "README.md"].decode()
