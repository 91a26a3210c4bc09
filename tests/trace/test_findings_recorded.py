"""The ledger and the findings of the traces that were recorded on an H200 (tests/traces)."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from lenet_trt.export.cases import MatMulCase, matmul_model
from lenet_trt.floors.ceilings import datasheet
from lenet_trt.floors.work import NodeWork, work_of
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.read import load_model
from lenet_trt.trace.findings import Finding, findings_of
from lenet_trt.trace.ledger import Ledger, Terms, ledger_of
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.timeline import Timeline

TRACES = Path(__file__).parents[1] / "traces"
H200 = datasheet("H200")
IMAGES = 32  # of the LeNet-5 traces


def trace(name: str) -> Timeline:
    return timeline_from(TRACES / f"{name}.sqlite.gz")


def found(timeline: Timeline, nodes: list[NodeWork] | None) -> tuple[Ledger, list[Finding]]:
    books = ledger_of(timeline, nodes, H200)
    return books, findings_of(timeline, books, nodes, H200)


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.sqlite.gz")), ids=lambda path: path.name.partition(".")[0])
def test_terms_of_real_traces_add_up(path: Path) -> None:
    timeline = timeline_from(path)
    books, result = found(timeline, None)
    assert sum(getattr(books.total, entry.name) for entry in fields(Terms)) == books.end_to_end_us > 0
    assert sum(row.terms.total_us for row in books.rows) == books.end_to_end_us
    lengths = [entry.us for entry in timeline.iterations if entry.index in books.used]
    assert books.end_to_end_us == pytest.approx(sum(lengths) / len(lengths), abs=1e-3)
    claimed = sum(entry.recoverable_us for entry in result if entry.kind != "cold_start")
    assert claimed <= books.end_to_end_us - books.total.floor_us


def test_the_matmul_is_found_with_nearly_all_of_its_time() -> None:
    """The hardware needs some 55 us for what took 1,400: kernels for one product a block, and a copy made for them."""
    nodes = [
        NodeWork("MatMul", entry.op, entry.work, entry.arithmetic, entry.shapes)  # as the traced program calls it
        for entry in work_of(matmul_model(MatMulCase()), {})
    ]
    books, result = found(trace("matmul"), nodes)
    assert books.total.floor_us == pytest.approx(52.3, abs=0.5)
    assert books.total.kernel_us + books.total.copies_us == pytest.approx(1406, abs=5)
    (finding,) = result
    assert finding.kind == "far_from_roof"
    assert finding.node == "MatMul"
    assert finding.recoverable_us == pytest.approx(1353, abs=10)
    assert "internal::gemvx::kernel" in finding.evidence[0]
    assert "157.4 us more" in finding.evidence[1]


def test_the_fused_lenet5_has_nothing_to_win_but_its_launch(lenet5: Path) -> None:
    nodes = work_of(fuse(load_model(lenet5)).model, {"n": IMAGES})
    books, result = found(trace("fused_inside"), nodes)
    row = books.row("lenet5")
    assert row is not None
    assert row.terms.kernel_us == pytest.approx(4.3, abs=0.2)
    assert row.launches == 1
    assert {entry.kind for entry in result} <= {"cold_start", "gaps"}


def test_the_layers_of_lenet5_are_many_small_launches(lenet5: Path) -> None:
    nodes = work_of(load_model(lenet5), {"n": IMAGES})
    books, result = found(trace("lenet5_inside"), nodes)
    assert [row.node for row in books.rows][:3] == ["conv1", "relu1", "pool1"]
    assert books.total.inefficiency_us > 50
    assert "many_small_launches" in {entry.kind for entry in result}
    assert sum(entry.recoverable_us for entry in result if entry.kind != "cold_start") > 50


def test_a_program_that_waits_after_each_kernel_is_told_so() -> None:
    _, result = found(trace("naive"), None)
    first = result[0]
    assert first.kind == "sync_in_loop"
    assert "cudaDeviceSynchronize" in first.evidence[0]
    assert {"copies", "host_bound"} <= {entry.kind for entry in result}
