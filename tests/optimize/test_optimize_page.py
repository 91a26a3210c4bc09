"""The commands of docs/optimize.md work as they stand there, and its tables name what there is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from documents import ROOT, commands
from lenet_trt.cli import main
from lenet_trt.trace import findings
from lenet_trt.trace.ledger import TERMS

PAGE = ROOT / "docs" / "optimize.md"


def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    typed = commands(PAGE)
    assert len(typed) == 4
    for line in typed:
        command, _, target = line.partition(" > ")
        program, *arguments = shlex.split(command)
        capsys.readouterr()
        assert program == "lenet-trt"
        assert main(arguments) == 0, line
        if target:
            (tmp_path / target).write_text(capsys.readouterr().out)
    record = json.loads((tmp_path / "record.json").read_text())
    assert "batched_matvec" in (tmp_path / "report.html").read_text()
    assert [entry["batch"] for entry in record["chosen"]] == [1, 3, 8]
    written = {path.name for path in (tmp_path / "matmul.optimized").iterdir()}
    # A plan that was faster on this processor, by chance too, has its model beside them.
    plans = {name for name in written if name.startswith("matmul.fused")}
    assert written - plans == {"optimize.md", "optimize.json", "timelines", "state.json"}
    assert bool(plans) == any(entry["plan"] for entry in record["chosen"])


def test_every_term_and_every_kind_of_finding_is_there() -> None:
    text = PAGE.read_text()
    for term in TERMS.values():
        assert term == "kernels without a floor" or f"| {term} |" in text
    sources = "".join(path.read_text() for path in Path(findings.__file__).parent.glob("*.py"))
    kinds = set(re.findall(r'Finding\(\s+"(\w+)"', sources))
    assert kinds == set(re.findall(r"^\| `(\w+)` \|", text.partition("## Findings")[2], re.MULTILINE))
    assert len(kinds) == 15
