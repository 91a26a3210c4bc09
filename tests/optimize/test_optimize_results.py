"""The committed records of ``optimize``: their reports are current, and each has its evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from documents import ROOT
from lenet_trt.optimize.markdown import optimize_report

RESULTS = ROOT / "docs" / "results" / "optimize"
RECORDS = sorted(RESULTS.glob("*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_report_is_made_of_the_record(path: Path) -> None:
    assert path.with_suffix(".md").read_text() == optimize_report(json.loads(path.read_text()))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_every_ledger_of_a_record_adds_up(path: Path) -> None:
    seen = [found for outcome in json.loads(path.read_text())["batches"] for found in outcome["observed"]]
    assert seen
    for found in seen:
        books = found["ledger"]
        assert sum(books["total"].values()) == books["end_to_end_us"] == found["end_to_end_us"]
        assert sum(value for row in books["rows"] for value in row["terms"].values()) == books["end_to_end_us"]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_model_was_cured_unaided_and_with_evidence(path: Path) -> None:
    record = json.loads(path.read_text())
    assert "--plugins" not in record["command"]
    assert all(entry["plan"] for entry in record["chosen"])
    for outcome in record["batches"]:
        assert outcome["observed"][0]["findings"], "with the reason in the report"
        kept = [trial for trial in outcome["trials"] if trial["kept"]]
        assert all(trial["new_again"]["high_us"] < trial["old_again"]["low_us"] for trial in kept)
        assert all(trial["accuracy"]["reference"] == "float64" for trial in kept)
