"""What ``optimize`` found on an H200 is recorded in docs/results/optimize; reports and the page say the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from documents import ROOT
from lenet_trt.optimize.markdown import report

RESULTS = ROOT / "docs" / "results" / "optimize"
RECORDS = sorted(RESULTS.glob("*.json"))


def record_of(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_report_is_made_of_the_record(path: Path) -> None:
    assert path.with_suffix(".md").read_text() == report(json.loads(path.read_text()))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_every_ledger_of_a_record_adds_up(path: Path) -> None:
    seen = [found for outcome in json.loads(path.read_text())["batches"] for found in outcome["observed"]]
    assert seen
    for found in seen:
        books = found["ledger"]
        assert sum(books["total"].values()) == books["end_to_end_us"] == found["end_to_end_us"]
        assert sum(value for row in books["rows"] for value in row["terms"].values()) == books["end_to_end_us"]


def test_the_three_models_were_found_and_cured_unaided() -> None:
    for name, kernel in (("matmul", "batched_matvec"), ("conv", "conv5x5_bias"), ("lenet5", "lenet5")):
        record = record_of(name)
        assert "--plugins" not in record["command"]
        for entry in record["chosen"]:
            assert [piece["kernel"] for piece in entry["plan"]] == [kernel]
        for outcome in record["batches"]:
            assert outcome["observed"][0]["findings"], "with the reason in the report"
            kept = [trial for trial in outcome["trials"] if trial["kept"]]
            assert all(trial["new_again"]["high_us"] < trial["old_again"]["low_us"] for trial in kept)
            assert all(trial["accuracy"]["reference"] == "float64" for trial in kept)


def test_the_page_says_what_the_records_say() -> None:
    page = (ROOT / "docs" / "optimize.md").read_text()
    rows = re.findall(
        r"^\| \[(\w+)\]\(results/optimize/\1\.md\) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", page, re.M
    )
    wanted = []
    for name in ("matmul", "conv", "lenet5"):
        for entry in record_of(name)["chosen"]:
            times = {len(found["plan"]): found["median_us"] for found in entry["times"]}
            wanted.append(
                (
                    name,
                    "fixed" if entry["batch"] is None else f"{entry['batch']:,}",
                    f"{times[0]:,.1f}",
                    f"{times[1]:,.1f}",
                    f"{entry['times_faster']:.1f}",
                    f"`{entry['plan'][0]['kernel']}`",
                )
            )
    assert rows == wanted
