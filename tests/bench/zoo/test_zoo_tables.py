"""The tables of the survey leave out engines whose results are wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from documents import ROOT
from lenet_trt.bench.record import Record, Row, load_record
from lenet_trt.bench.zoo.cases import PLUGINS, TENSORRT
from lenet_trt.bench.zoo.tables import by_network, summaries


@pytest.fixture(scope="module")
def record() -> Record:
    return load_record(ROOT / "docs/results/zoo/h200.json")


def _with_wrong(record: Record, backend: str) -> Record:
    """Mark the engines of ResNet-18 for one image: those for 32 were not compared in this record."""

    def marked(row: Row) -> Row:
        wrong = row.backend == backend and row.case["network"] == "resnet18" and row.case["batch"] == 1
        return replace(row, extra={**row.extra, "right": False}) if wrong else row

    return replace(record, rows=tuple(map(marked, record.rows)))


def _cells(record: Record) -> list[str]:
    _, networks = by_network(record, precision="fp32")
    return next((cells for name, *cells in networks if name == "resnet18"), [])


@pytest.mark.parametrize("backend", [TENSORRT, PLUGINS])
def test_the_time_of_a_wrong_engine_is_no_gain(record: Record, backend: str) -> None:
    for found, there in ((record, True), (_with_wrong(record, backend), False)):
        gains, *_ = summaries(found)
        assert any(line[0].startswith("resnet18") for line in gains.lines) == there


def test_a_wrong_engine_has_no_time_among_the_networks(record: Record) -> None:
    cells = _cells(record)
    assert [cell.endswith("x)") for cell in cells] == [True, True]
    assert not _cells(_with_wrong(record, PLUGINS))
    ours = [cell.split(" to ")[1].split(" (")[0] for cell in cells]
    assert _cells(_with_wrong(record, TENSORRT)) == [f"wrong to {time}" for time in ours]


def test_an_engine_is_as_right_as_its_own_results(record: Record) -> None:
    def compared(row: Row) -> Row:
        engine = row.case["network"] == "resnet18" and row.backend == TENSORRT
        return replace(row, extra={**row.extra, "right": row.case["batch"] == 1}) if engine else row

    one, many = _cells(replace(record, rows=tuple(map(compared, record.rows))))
    assert one.endswith("x)")
    assert many.startswith("wrong to ")
