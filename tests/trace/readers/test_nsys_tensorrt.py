"""Traces of TensorRT that nobody marked: its own ranges and the launches of CUDA graphs separate inferences."""

from __future__ import annotations

from pathlib import Path

import pytest

from lenet_trt.trace.ledger import ledger_of
from lenet_trt.trace.readers import timeline_from
from nsys_file import OTHER_THREAD, THREAD, NsysFile

ENQUEUE = "ExecutionContext::enqueue"
STEP = 100_000


def enqueue(made: NsysFile, at: int, domain: str = "TensorRT", name: str = ENQUEUE, thread: int = THREAD) -> None:
    """One submission of two layers, as TensorRT marks it; the GPU goes on after the range."""
    made.range(name, at, at + 20_000, domain=domain, thread=thread)
    made.range("conv1 + relu1", at + 1_000, at + 5_000, domain=domain, thread=thread)
    made.range("fc1", at + 6_000, at + 9_000, domain=domain, thread=thread)
    made.launch("conv", at + 10_000, at + 30_000, at + 2_000, thread)
    made.launch("gemm", at + 31_000, at + 41_000, at + 7_000, thread)


def graph_launch(made: NsysFile, at: int) -> None:
    """One launch of the graph that ``captured`` made."""
    correlation = made.call("cudaGraphLaunch_v10000", at, at + 4_000)
    made.kernel("conv", at + 6_000, at + 26_000, correlation, graphNodeId=11)
    made.kernel("gemm", at + 27_000, at + 37_000, correlation, graphNodeId=12)


def captured(made: NsysFile, at: int) -> None:
    """A submission while the stream is captured: nothing runs, and the graph's nodes are made in the layers' ranges."""
    made.call("cudaStreamBeginCapture_v10000", at - 2_000, at - 1_000)
    made.range(ENQUEUE, at, at + 20_000, domain="TensorRT")
    for node, name, start in ((11, "conv1 + relu1", at + 1_000), (12, "fc1", at + 6_000)):
        made.range(name, start, start + 3_000, domain="TensorRT")
        made.call("cudaLaunchKernel_v7000", start + 500, start + 900)
        made.row("CUDA_GRAPH_NODE_EVENTS", start=start + 600, end=start + 700, globalTid=THREAD, graphNodeId=node)
    made.call("cudaStreamEndCapture_v10000", at + 21_000, at + 22_000)


@pytest.mark.parametrize("name", [ENQUEUE, "ExecutionContext::enqueueV3", "IExecutionContext::enqueueV3"])
def test_each_submission_of_tensorrt_is_an_inference(tmp_path: Path, name: str) -> None:
    made = NsysFile(tmp_path / "t.sqlite")
    for index in range(20):
        enqueue(made, index * STEP, name=name)
    found = timeline_from(made.done())
    assert [(entry.index, entry.us) for entry in found.iterations] == [(index, 41) for index in range(20)]
    first = [(entry.node, entry.name) for entry in found.activities if entry.iteration == 0]
    assert first == [("conv1 + relu1", "conv"), ("fc1", "gemm")]
    assert any("ExecutionContext::enqueue (20) counts" in note for note in found.notes)
    assert ledger_of(found).end_to_end_us == 41


def test_each_launch_of_a_graph_is_an_inference_and_its_preparation_is_none(tmp_path: Path) -> None:
    made = NsysFile(tmp_path / "t.sqlite")
    enqueue(made, 0)
    captured(made, STEP)
    for index in range(2, 22):
        graph_launch(made, index * STEP)
    found = timeline_from(made.done())
    assert len(found.iterations) == 20
    assert {entry.us for entry in found.iterations} == {37}
    last = [(entry.node, entry.name) for entry in found.activities if entry.iteration == 19]
    assert last == [("conv1 + relu1", "conv"), ("fc1", "gemm")]
    assert len([entry for entry in found.activities if entry.iteration is None]) == 2, "the submission without a graph"
    assert any("(1 times) is left out" in note for note in found.notes)


def test_a_capture_alone_is_no_inference(tmp_path: Path) -> None:
    made = NsysFile(tmp_path / "t.sqlite")
    captured(made, STEP)
    for index in range(2, 5):
        enqueue(made, index * STEP)
    found = timeline_from(made.done())
    assert len(found.iterations) == 3
    assert {entry.us for entry in found.iterations} == {41}


def test_a_graph_within_a_submission_is_part_of_it(tmp_path: Path) -> None:
    made = NsysFile(tmp_path / "t.sqlite")
    for index in range(3):
        made.range(ENQUEUE, index * STEP, index * STEP + 30_000, domain="TensorRT")
        graph_launch(made, index * STEP + 1_000)
        graph_launch(made, index * STEP + 10_000)
    assert len(timeline_from(made.done()).iterations) == 3


def test_a_range_within_another_and_one_of_another_thread(tmp_path: Path) -> None:
    made = NsysFile(tmp_path / "t.sqlite")
    for index in range(2):
        enqueue(made, index * STEP)
        made.range(f"{ENQUEUE}V3", index * STEP + 500, index * STEP + 19_000, domain="TensorRT")
    enqueue(made, 5_000, thread=OTHER_THREAD)
    found = timeline_from(made.done())
    assert [entry.start_us for entry in found.iterations] == [0, 5, 100]


def test_marks_of_the_program_come_before_tensorrts_own(tmp_path: Path) -> None:
    made = NsysFile(tmp_path / "t.sqlite")
    for index in range(4):
        enqueue(made, index * STEP)
    made.range("iteration 0", 0, 2 * STEP - 1)
    made.range("iteration 1", 2 * STEP, 4 * STEP)
    assert len(timeline_from(made.done()).iterations) == 2


def test_a_range_of_that_name_in_another_domain_is_not_tensorrts(tmp_path: Path) -> None:
    made = NsysFile(tmp_path / "t.sqlite")
    for index in range(4):
        enqueue(made, index * STEP, domain="mine")
    assert len(timeline_from(made.done()).iterations) == 1


def test_one_launch_of_a_graph_tells_nothing(tmp_path: Path) -> None:
    made = NsysFile(tmp_path / "t.sqlite")
    correlation = made.call("cudaMemcpyAsync_v3020", 0, 1_000)
    made.copy(1, 4096, 2_000, 3_000, correlation)
    graph_launch(made, 10_000)
    found = timeline_from(made.done())
    assert [(entry.start_us, entry.end_us) for entry in found.iterations] == [(0, 47)]
    assert any("counts as one inference" in note for note in found.notes)


def test_only_what_the_profiler_was_asked_for_counts(tmp_path: Path) -> None:
    made = NsysFile(tmp_path / "t.sqlite")
    for index in range(6):
        enqueue(made, index * STEP)
    made.call("cudaProfilerStart_v4000", 2 * STEP - 2_000, 2 * STEP - 1_000)
    made.call("cudaProfilerStop_v4000", 4 * STEP - 2_000, 4 * STEP - 1_000)
    assert len(timeline_from(made.done()).iterations) == 2


def test_a_copy_that_tensorrt_makes_of_a_tensor_is_no_computation(tmp_path: Path) -> None:
    made = NsysFile(tmp_path / "t.sqlite")
    name = "Reformatting CopyNode for Input Tensor 0 to conv1"
    for at in (0, STEP):
        made.range(ENQUEUE, at, at + 20_000, domain="TensorRT")
        made.range(name, at + 1_000, at + 5_000, domain="TensorRT")
        made.launch("void anonymous_kernel(float const*)", at + 10_000, at + 30_000, at + 2_000)
    row = ledger_of(timeline_from(made.done())).row(name)
    assert row is not None
    assert (row.terms.copies_us, row.terms.kernel_us) == (20, 0)
