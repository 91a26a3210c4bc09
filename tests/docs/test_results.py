"""The figures of README and docs are what the committed records make; the records are whole and plausible."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents import ROOT
from lenet_trt.bench import page
from lenet_trt.bench.gains import measured_workloads
from lenet_trt.bench.record import load_record

RESULTS = ROOT / "docs" / "results"
RECORDS = sorted(path for folder in ("h200", "verify", "zoo") for path in (RESULTS / folder).glob("*.json"))
MOST_BYTES = 1_500_000
# Their time was limited, which the page says.
STOPPED = {
    "h200/kernels_networks",
    "h200/kernels_rows",
    "zoo/h200_fp16",
    "zoo/h200_batch32",
    "h200/layers_group_norm",
    "h200/layers_pixels",
    "h200/layers_one_row",
    "zoo/h200_dit_fp32",
}
# Their floors count all products; the mask hides half of them, which the kernel leaves out.
CAUSAL = {"rotary_attention 32 heads, 8 of keys, 1 longer text fp16"}


def _name(path: Path) -> str:
    return path.relative_to(RESULTS).with_suffix("").as_posix()


each_record = pytest.mark.parametrize("path", RECORDS, ids=lambda path: _name(path))


def test_every_figure_and_picture_is_current(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert page.main(["--check"]) == 0, capsys.readouterr().out


@each_record
def test_a_record_is_whole_and_small(path: Path) -> None:
    record = load_record(path)
    assert record.interrupted == (_name(path) in STOPPED)
    assert "--quick" not in record.command
    assert record.timed
    assert path.stat().st_size < MOST_BYTES


@each_record
def test_none_of_our_kernels_is_faster_than_its_floor(path: Path) -> None:
    for workload in measured_workloads(load_record(path)):
        for row in workload.rows:
            if row.stats is not None and row.extra.get("ours"):
                needed = 0.5 if workload.name in CAUSAL else 1.0
                assert row.stats.median_us >= 0.9 * needed * workload.floor_us, f"{row.key}: faster than the floor"


@each_record
def test_every_answer_is_right(path: Path) -> None:
    for row in load_record(path).timed:
        assert row.extra.get("accuracy", 0.9934) >= 0.99, row.key
        if row.extra.get("ours"):
            assert row.extra["error"] <= 2e-3, row.key
