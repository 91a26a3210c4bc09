"""The suite ``occupancy`` without a GPU: what it says then, what is made of ncu's output, tables and pictures."""

from __future__ import annotations

import stat
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lenet_trt.bench import occupancy
from lenet_trt.bench.counters import PERCENTAGES, TIME, count_launches, launches_together, parse_counts
from lenet_trt.bench.occupancy_calls import BACKENDS, Geometry
from lenet_trt.bench.occupancy_tables import charts, columns, summaries
from lenet_trt.bench.record import Row
from lenet_trt.bench.suite import Recording, SuiteOptions
from lenet_trt.bench.tables import table
from lenet_trt.cli import main
from lenet_trt.cuda.gpus import gpus
from lenet_trt.cuda.statistics import summarize
from lenet_trt.draw.charts import render
from lenet_trt.errors import LenetTrtError

HEADING = ["ID", "Process ID", "Process Name", "Kernel Name", "Block Size", "Grid Size", TIME, *PERCENTAGES.values()]
UNITS = ["", "", "", "", "block", "grid", "nsecond", "%", "%", "%", "%"]


def line(*values: object) -> str:
    return ",".join(f'"{value}"' for value in values)


def launched(number: int, name: str, ns: str, *percentages: str) -> str:
    return line(number, 4711, "python3", name, "(512, 1, 1)", "(8, 1, 1)", ns, *percentages)


LOG = "\n".join(
    [
        "==PROF== Connected to process 4711 (/usr/bin/python3)",
        '==PROF== Profiling "maxpool2" - 0: 0%....50%....100% - 1 pass',
        "==PROF== Disconnected from process 4711",
        line(*HEADING),
        line(*UNITS),
        launched(0, "maxpool2", "2,016", "1", "1", "1", "1"),
        launched(1, "lenet5_cluster8", "5,280", "5.5", "3.25", "0.6", "24.9"),
        launched(2, "maxpool2", "2,016", "1", "1", "1", "1"),
        launched(3, "void conv(int, char)", "3000", "10", "20", "30", "40"),
        launched(4, "gemm<1, 2>", "1000", "50", "60", "70", "80"),
    ]
)


@pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU, which is measured")
def test_without_a_gpu_every_row_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "occupancy", "--batch", "1", "8", "-o", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("it needs a CUDA GPU: no NVIDIA driver") == 1
    assert all(f"{batch} {backend}" in said for batch in (1, 8) for backend in BACKENDS)
    assert {path.name for path in tmp_path.iterdir()} == {"occupancy.json", "occupancy.csv"}


def test_what_ncu_wrote_is_read() -> None:
    found = parse_counts(LOG)
    assert [launch.kernel for launch in found] == [
        "maxpool2",
        "lenet5_cluster8",
        "maxpool2",
        "void conv(int, char)",
        "gemm<1, 2>",
    ]
    assert found[1].us == 5.28
    assert found[1].percentages["sm_active_percent"] == 5.5
    first, second = occupancy.by_mark(found)
    assert [launch.kernel for launch in first] == ["lenet5_cluster8"]
    assert launches_together(second) == {
        "kernel_us": 4.0,
        "sm_active_percent": 20.0,
        "sm_throughput_percent": 30.0,
        "dram_percent": 40.0,
        "warps_percent": 50.0,
    }


@pytest.mark.parametrize("value", ["", "n/a", "nan", "(!) n/a"])
def test_a_counter_that_is_missing_is_no_number(value: str) -> None:
    with pytest.raises(LenetTrtError, match="ncu's row of lenet5_cluster8 has no number"):
        parse_counts(
            "\n".join([line(*HEADING), line(*UNITS), launched(0, "lenet5_cluster8", "5280", value, "1", "1", "1")])
        )


def ncu(folder: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    """A program called ncu that does that; $LOG is where it is told to write."""
    find_log = 'while [ $# -gt 0 ]; do [ "$1" = --log-file ] && LOG=$2; shift; done'
    path = folder / "ncu"
    path.write_text(f"#!/bin/sh\n{find_log}\n{does}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_why_there_are_no_counters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LenetTrtError, match=r"ncu .* is not on PATH"):
        count_launches(["program"])
    ncu(tmp_path, monkeypatch, 'echo "==ERROR== ERR_NVGPUCTRPERM - no permission" > $LOG; exit 1')
    with pytest.raises(LenetTrtError, match="ncu counts nothing: ERR_NVGPUCTRPERM - no permission"):
        count_launches(["program"])
    ncu(tmp_path, monkeypatch, 'echo "==WARNING== No kernels were profiled." > $LOG')
    with pytest.raises(LenetTrtError, match="No kernels were profiled"):
        count_launches(["program"])


def test_counters_belong_to_their_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    ncu(tmp_path, monkeypatch, f"cat {tmp_path / 'log.csv'} > $LOG")
    found = occupancy.counted_by_ncu(["lenet5 kernel", "torch eager", "torch CUDA graph"], [1])
    assert found["lenet5 kernel", 1]["kernel_us"] == 5.28
    assert found["torch eager", 1]["kernels"] == 2
    assert found["torch CUDA graph", 1] == found["torch eager", 1]
    with pytest.raises(LenetTrtError, match="ncu shows 2 of the 4 batches that were launched"):
        occupancy.counted_by_ncu(["lenet5 kernel", "torch eager"], [1, 8])
    assert occupancy.counted_by_ncu([], [1]) == {}


def test_geometry_says_what_fits() -> None:
    one = Geometry("cluster8", blocks=8, block_threads=512, resident=2, multiprocessors=132, held_threads=2048)
    assert one.multiprocessors_percent == pytest.approx(100 * 8 / 132)
    assert one.threads_percent == pytest.approx(100 * 8 * 512 / (132 * 2048))
    many = Geometry("x", blocks=1000, block_threads=1024, resident=2, multiprocessors=132, held_threads=2048)
    assert (many.multiprocessors_percent, many.threads_percent) == (100, 100)
    assert many.waves == pytest.approx(1000 / 264)


@pytest.fixture
def rows() -> list[Row]:
    """As a GPU gives them, made up: only what is made of them is looked at."""
    found = Recording("occupancy", SuiteOptions())
    launches = [(1, 5.0, 8, 5.5), (64, 12.0, 128, 60.0), (4096, 40.0, 132, 98.0)]
    for batch, us, blocks, active in launches:
        stats = summarize([us, us * 1.01])
        shape = Geometry("v", blocks, 512, 2, 132, 2048)
        facts = {"blocks": blocks, "block_threads": 512, "resident": 2, "multiprocessors": 132}
        facts |= {"multiprocessors_percent": shape.multiprocessors_percent, "threads_percent": shape.threads_percent}
        counters = {"kernel_us": us / 2, **dict.fromkeys(PERCENTAGES, active), "kernels": 1}
        extra = occupancy._figures(batch, stats, 4096e6 / 40.2, counters)
        found.add(Row("lenet5 kernel", {"batch": batch}, stats, None, {**facts, **extra}))
        found.cannot("torch CUDA graph", {"batch": batch}, "torch is not installed")
    return found.rows


def test_tables_and_picture(rows: list[Row]) -> None:
    recorded = Recording("occupancy", SuiteOptions())
    recorded.rows = rows
    record = recorded.finish()
    text = table(rows, columns(record))
    assert text.splitlines()[-1] == "torch CUDA graph: torch is not installed: 1; 64; 4096"
    (found,) = summaries(record)
    assert found.lines == [["lenet5 kernel", "1", "0.20%", "1", "4,096"]]
    (chart,) = charts(record)
    assert chart.x_log
    assert [series.label for series in chart.series if series.emphasis] == ["throughput, of the largest"]
    assert all(list(series.x) == [1, 64, 4096] for series in chart.series)
    assert ElementTree.fromstring(render([chart], "svg")).tag.endswith("svg")
