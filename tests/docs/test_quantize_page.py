"""The page on int8: its commands work, and what it says of TensorRT's engines is in their traces."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import onnx
import pytest

from documents import ROOT, fenced
from lenet_trt.cli import main
from lenet_trt.floors.ceilings import SCHEMA, ceilings_from_json
from lenet_trt.floors.work import work_of
from lenet_trt.trace.engine import traced_work
from lenet_trt.trace.findings import Finding, findings_of
from lenet_trt.trace.ledger import ledger_of
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.timeline import Timeline

PAGE = ROOT / "docs" / "quantize.md"
TRACES = ROOT / "docs" / "quantize"
ROOFLINE = ROOT / "docs" / "lost-time" / "roofline.json"


def trace(precision: str, batch: int) -> Timeline:
    return timeline_from(TRACES / f"{precision}-{batch}.timeline.json.gz")


def findings(precision: str, batch: int) -> list[Finding]:
    timeline = trace(precision, batch)
    told = json.loads(ROOFLINE.read_text("utf-8"))
    ceilings = ceilings_from_json({"schema": SCHEMA, **told["ceilings"]}, ROOFLINE)
    name = "lenet5.int8.onnx" if precision == "int8" else "lenet5.onnx"
    nodes = traced_work(timeline, work_of(onnx.load(ROOT / "export" / "models" / name), timeline.sizes))
    return findings_of(timeline, ledger_of(timeline, nodes, ceilings), nodes, ceilings)


@pytest.mark.parametrize("batch", [32, 1024, 10_000])
def test_int8_is_slower_and_its_reformats_cost_more_than_it_saves(batch: int) -> None:
    int8, fp32, fp16 = (trace(precision, batch).unprofiled_us or 0 for precision in ("int8", "fp32", "fp16"))
    assert int8 > fp32 > fp16 > 0
    (changed,) = [each for each in findings("int8", batch) if each.kind == "quantization_does_not_pay"]
    assert changed.title == "conv1 + relu1: changing to int8 and back costs more than it saves"
    # No pair blocks a fusion, and no layer runs in float.
    kinds = {each.kind for precision in ("int8", "fp16") for each in findings(precision, batch)}
    assert not kinds & {"quantization_blocks_fusion", "float_after_all"}


def test_its_layers_work_on_groups_of_32_channels() -> None:
    layers = [layer for layer in trace("int8", 10_000).layers if layer.kind in ("CaskConvolution", "CaskPooling")]
    assert layers
    for layer in layers:
        assert all("Thirty-two wide" in tensor.stored for tensor in layer.inputs)


def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("docs", "export"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    block = next(block for block in fenced(PAGE, "console") if "profile --from" in block)
    for line in block.splitlines():
        assert main(shlex.split(line.removeprefix("$ lenet-trt "))) == 0
    assert "changing to int8 and back costs more than it saves" in (tmp_path / "int8.html").read_text("utf-8")
