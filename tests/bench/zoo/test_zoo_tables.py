"""The tables of the survey leave out engines whose results are wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from documents import ROOT
from lenet_trt.bench.record import Record, load_record
from lenet_trt.bench.zoo.cases import PLUGINS, TENSORRT
from lenet_trt.bench.zoo.tables import by_network, summaries


@pytest.fixture(scope="module")
def record() -> Record:
    return load_record(ROOT / "docs/results/zoo/h200.json")


@pytest.mark.parametrize("backend", [TENSORRT, PLUGINS])
def test_the_time_of_a_wrong_engine_is_no_gain(record: Record, backend: str) -> None:
    def marked(row):
        wrong = row.backend == backend and row.case["network"] == "resnet18" and row.case["batch"] == 1
        return replace(row, extra={**row.extra, "right": False}) if wrong else row

    damaged = replace(record, rows=tuple(map(marked, record.rows)))
    for found, there in ((record, True), (damaged, False)):
        gains, *_ = summaries(found)
        assert any(line[0].startswith("resnet18") for line in gains.lines) == there
        _, networks = by_network(found)
        assert any(line[0] == "resnet18" for line in networks) == there
