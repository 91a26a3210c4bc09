"""Exports of Nsight Systems whose right reading is known."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.readers.nsys import read_nsys
from lenet_trt.trace.timeline import Activity, ApiCall, HostRange, Iteration, Timeline
from nsys_file import OTHER_THREAD, PROCESS, THREAD, NsysFile

US = 1000


def two_inferences(path: Path) -> NsysFile:
    """Two inferences of two nodes; the second node's kernel of the first ends after the range."""
    file = NsysFile(path)
    for index, at in enumerate((10_000 * US, 10_100 * US)):
        file.range(f"iteration {index}", at, at + 50 * US)
        file.range("conv1", at + 2 * US, at + 10 * US)
        file.range("fc1", at + 10 * US, at + 20 * US)
        copy = file.call("cudaMemcpyAsync_v3020", at, at + 1 * US)
        file.copy(1, 4096, at + 3 * US, at + 5 * US, copy)
        file.launch("void conv<float>(float *)", at + 6 * US, at + 16 * US, at + 3 * US)
        file.launch("gemm", at + 20 * US, at + (60 if index == 0 else 40) * US, at + 11 * US)
        file.call("cudaDeviceSynchronize_v3020", at + 21 * US, at + 49 * US)
    return file


def test_activities_belong_to_the_inference_and_the_node_whose_call_asked_for_them(tmp_path: Path) -> None:
    timeline = timeline_from(two_inferences(tmp_path / "a.sqlite").done())
    assert [(entry.kind, entry.node, entry.iteration) for entry in timeline.activities] == [
        ("memcpy", None, 0),
        ("kernel", "conv1", 0),
        ("kernel", "fc1", 0),
        ("memcpy", None, 1),
        ("kernel", "conv1", 1),
        ("kernel", "fc1", 1),
    ]
    assert timeline.activities[1] == Activity(
        "kernel",
        "void conv<float>(float *)",
        6.0,
        16.0,
        stream=7,
        iteration=0,
        node="conv1",
        correlation=102,
        grid=(3, 2, 1),
        block=(128, 1, 1),
        registers=32,
        shared_bytes=1040,
    )
    assert (timeline.activities[0].direction, timeline.activities[0].bytes) == ("HtoD", 4096)


def test_times_begin_with_the_first_inference_and_an_inference_ends_with_its_last_work(tmp_path: Path) -> None:
    timeline = timeline_from(two_inferences(tmp_path / "a.sqlite").done())
    assert timeline.iterations == (Iteration(0, 0.0, 60.0), Iteration(1, 100.0, 150.0))
    assert timeline.ranges[0] == HostRange("iteration 0", 0.0, 50.0, 1001)
    assert timeline.api_calls[0] == ApiCall("cudaMemcpyAsync", 0.0, 1.0, 1001, 101)
    assert timeline.notes == ()


def test_versions_are_named_and_the_gpu_is_the_one_that_worked(tmp_path: Path) -> None:
    file = two_inferences(tmp_path / "a.sqlite")
    file.row("TARGET_INFO_GPU", id=1, name="Display", computeMajor=7, computeMinor=5, smCount=20)
    file.row("TARGET_INFO_GPU", id=0, name="NVIDIA H200", computeMajor=9, computeMinor=0, smCount=132)
    file.row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2025.3.1.90")
    timeline = timeline_from(file.done())
    assert timeline.source == "nsys 2025.3.1.90"
    assert timeline.environment == {"gpu": "NVIDIA H200", "compute_capability": "9.0", "multiprocessors": 132}


@pytest.mark.parametrize(
    "without",
    [
        ("graphNodeId", "mangledName"),  # before CUDA graphs were traced by node
        ("globalPid", "graphNodeId", "deviceId"),
        ("textId", "domainId"),
        ("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
        ("demangledName",),
    ],
)
def test_columns_that_a_version_lacks_are_done_without(tmp_path: Path, without: tuple[str, ...]) -> None:
    path = tmp_path / "a.sqlite"
    file = NsysFile(path, without)
    process = 0 if "globalPid" in without else PROCESS
    file.range("iteration 0", 0, 50 * US, thread=process | 1)
    file.range("conv1", 1 * US, 50 * US, thread=process | 1)
    file.launch("convolve", 6 * US, 16 * US, 3 * US, thread=process | 1)
    (kernel,) = timeline_from(file.done()).activities
    assert kernel.node == "conv1"
    assert kernel.us == 10.0
    assert kernel.name == ("conv" if "demangledName" in without else "convolve")


def test_a_needed_column_that_is_missing_is_a_foreign_version(tmp_path: Path) -> None:
    file = NsysFile(tmp_path / "a.sqlite", without=("correlationId",))
    file.kernel("k", 1, 2, 3)
    with pytest.raises(LenetTrtError, match=r"KERNEL has no column correlationId .*2022 or later"):
        timeline_from(file.done())


def test_registered_strings_are_looked_up(tmp_path: Path) -> None:
    file = NsysFile(tmp_path / "a.sqlite")
    file.range("", 0, 50 * US, text=None, textId=file.string("iteration 0"))
    file.range("", 1 * US, 40 * US, text="", textId=file.string("fc1"))  # NOT NULL columns hold "" in old versions
    file.launch("gemm", 6 * US, 16 * US, 3 * US)
    timeline = timeline_from(file.done())
    assert timeline.activities[0].node == "fc1"
    assert [entry.name for entry in timeline.ranges] == ["iteration 0", "fc1"]


def test_the_innermost_range_counts_and_only_on_the_thread_that_launched(tmp_path: Path) -> None:
    file = NsysFile(tmp_path / "a.sqlite")
    file.range("iteration 0", 0, 90 * US)
    file.range("outer", 1 * US, 60 * US)
    file.range("inner", 10 * US, 20 * US)
    file.range("elsewhere", 0, 90 * US, thread=OTHER_THREAD)
    file.launch("a", 5 * US, 6 * US, 4 * US)
    file.launch("b", 15 * US, 16 * US, 14 * US)
    file.launch("c", 25 * US, 26 * US, 20 * US)
    file.launch("d", 65 * US, 66 * US, 64 * US)
    file.launch("e", 70 * US, 71 * US, 69 * US, thread=OTHER_THREAD)
    found = {entry.name: (entry.node, entry.iteration) for entry in timeline_from(file.done()).activities}
    assert found == {
        "a": ("outer", 0),
        "b": ("inner", 0),
        "c": ("outer", 0),
        "d": (None, 0),
        "e": ("elsewhere", 0),
    }


def test_two_threads_run_inferences_at_the_same_time(tmp_path: Path) -> None:
    file = NsysFile(tmp_path / "a.sqlite")
    file.range("iteration 0", 0, 50 * US)
    file.range("iteration 0", 10 * US, 60 * US, thread=OTHER_THREAD)
    file.launch("a", 25 * US, 26 * US, 20 * US)
    file.launch("b", 27 * US, 70 * US, 22 * US, thread=OTHER_THREAD)
    file.launch("c", 71 * US, 72 * US, 23 * US, thread=PROCESS | 77)  # a helper of whichever
    timeline = timeline_from(file.done())
    assert {entry.name: entry.iteration for entry in timeline.activities} == {"a": 0, "b": 1, "c": 1}
    assert timeline.iterations == (Iteration(0, 0.0, 50.0), Iteration(1, 10.0, 72.0))


def test_the_layers_of_tensorrt_are_nodes_and_its_calls_are_not(tmp_path: Path) -> None:
    file = NsysFile(tmp_path / "a.sqlite")
    file.range("ExecutionContext::enqueue", 0, 50 * US, domain="TensorRT")
    file.range("conv1 + relu1", 10 * US, 20 * US, domain="TensorRT")
    file.range("my loop", 12 * US, 19 * US, domain="")
    file.launch("a", 5 * US, 6 * US, 4 * US)
    file.launch("b", 15 * US, 16 * US, 14 * US)
    found = {entry.name: entry.node for entry in timeline_from(file.done()).activities}
    assert found == {"a": None, "b": "conv1 + relu1"}


def test_ranges_of_torch_name_operators_without_the_number_of_the_call(tmp_path: Path) -> None:
    file = NsysFile(tmp_path / "a.sqlite")
    file.range("iteration 0", 0, 50 * US, domain="")
    file.range("aten::conv2d, seq = 12, op_id = 44, sizes = [[1, 1]]", 10 * US, 20 * US, domain="")
    file.range("cub::DeviceReduce", 13 * US, 18 * US, domain="CCCL")
    file.launch("a", 15 * US, 16 * US, 14 * US)
    timeline = timeline_from(file.done())
    assert timeline.activities[0].node == "aten::conv2d"
    assert len(timeline.iterations) == 1


def test_our_inferences_count_more_than_ranges_of_the_same_name_elsewhere(tmp_path: Path) -> None:
    file = two_inferences(tmp_path / "a.sqlite")
    file.range("iteration 7", 9_000 * US, 9_001 * US, domain="")
    assert len(timeline_from(file.done()).iterations) == 2


@pytest.mark.parametrize("table", ["CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS"])  # the second in older versions
def test_a_graph_launch_finds_the_node_that_was_open_when_the_work_was_captured(tmp_path: Path, table: str) -> None:
    """Capture makes graph node 5, a clone makes 6 of it, instantiation 7 of that: the replay says 7.

    Of each copy there are two rows, one of which does not say where it is from.
    """
    file = NsysFile(tmp_path / "a.sqlite")
    file.range("conv1", 10 * US, 20 * US)
    file.range("fc1", 20 * US, 30 * US)
    events = [(12, 5, None), (22, 8, None)]
    for at, node, original in ((40, 6, 5), (42, 9, 8), (44, 7, 6), (46, 10, 9)):
        events += [(at, node, None), (at + 1, node, original)]
    file.call("cudaStreamBeginCapture_v10000", 5 * US, 6 * US)
    for at, node, original in events:
        file.row(
            table,
            start=at * US,
            end=at * US + 10,
            globalTid=THREAD,
            graphNodeId=node,
            originalGraphNodeId=original,
        )
    file.range("iteration 0", 100 * US, 200 * US)
    launch = file.call("cudaGraphLaunch_v10000", 101 * US, 103 * US)
    file.kernel("conv", 110 * US, 120 * US, launch, graphNodeId=7)
    file.kernel("gemm", 120 * US, 130 * US, launch, graphNodeId=10)
    file.kernel("unknown", 130 * US, 140 * US, launch, graphNodeId=77)
    timeline = timeline_from(file.done())
    assert [(entry.name, entry.node, entry.iteration) for entry in timeline.activities] == [
        ("conv", "conv1", 0),
        ("gemm", "fc1", 0),
        ("unknown", None, 0),
    ]
    assert any(note.startswith("1 activities are of CUDA graphs that were captured outside") for note in timeline.notes)


def test_graph_nodes_that_copy_each_other_end_the_search(tmp_path: Path) -> None:
    file = NsysFile(tmp_path / "a.sqlite")
    for node, original in ((1, 2), (2, 1)):
        file.row("CUDA_GRAPH_NODE_EVENTS", start=1, globalTid=THREAD, graphNodeId=node, originalGraphNodeId=original)
    launch = file.call("cudaGraphLaunch_v10000", 101 * US, 103 * US)
    file.kernel("conv", 110 * US, 120 * US, launch, graphNodeId=1)
    assert timeline_from(file.done()).activities[0].node is None


def test_a_graph_that_was_traced_whole_is_one_activity(tmp_path: Path) -> None:
    file = NsysFile(tmp_path / "a.sqlite")
    file.range("iteration 0", 100 * US, 200 * US)
    launch = file.call("cudaGraphLaunch_v10000", 101 * US, 103 * US)
    file.row(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        start=110 * US,
        end=150 * US,
        streamId=7,
        globalPid=PROCESS,
        correlationId=launch,
        graphId=3,
    )
    timeline = timeline_from(file.done())
    assert [(entry.kind, entry.name, entry.us) for entry in timeline.activities] == [
        ("layer", "CUDA graph 3 as a whole", 40.0)
    ]
    assert any("--cuda-graph-trace=node" in note for note in timeline.notes)


def test_without_inferences_the_profiler_range_is_one(tmp_path: Path) -> None:
    file = NsysFile(tmp_path / "a.sqlite")
    file.launch("warm up", 5 * US, 6 * US, 4 * US)
    file.call("cudaProfilerStart_v4000", 10 * US, 11 * US)
    file.launch("a", 15 * US, 16 * US, 14 * US)
    file.launch("late", 45 * US, 50 * US, 28 * US)  # asked for inside, done outside
    file.call("cudaProfilerStop_v4000", 30 * US, 31 * US)
    file.launch("after", 55 * US, 56 * US, 54 * US)
    timeline = timeline_from(file.done())
    assert [entry.name for entry in timeline.activities] == ["a", "late"]
    assert timeline.iterations == (Iteration(0, 0.0, 36.0),)
    assert {entry.iteration for entry in timeline.activities} == {0}
    assert "No range is named iteration N" in timeline.notes[0]


def test_without_any_mark_everything_is_one_inference(tmp_path: Path) -> None:
    file = NsysFile(tmp_path / "a.sqlite")
    file.launch("a", 5 * US, 9 * US, 4 * US)
    file.launch("b", 15 * US, 16 * US, 14 * US)
    timeline = timeline_from(file.done())
    assert timeline.iterations == (Iteration(0, 0.0, 12.0),)


def test_work_whose_call_was_not_traced_is_kept_and_counted(tmp_path: Path) -> None:
    file = two_inferences(tmp_path / "a.sqlite")
    file.kernel("stray", 10_070 * US, 10_071 * US, 9999)
    file.kernel("early", 10_020 * US, 10_021 * US, 9998)
    timeline = timeline_from(file.done())
    found = {entry.name: entry.iteration for entry in timeline.activities}
    assert found["stray"] is None
    assert found["early"] == 0
    assert "2 activities were submitted by calls that are not in the trace." in timeline.notes


def test_a_range_that_was_never_popped_ends_with_the_trace(tmp_path: Path) -> None:
    file = two_inferences(tmp_path / "a.sqlite")
    file.range("left open", 10_005 * US, None)
    timeline = timeline_from(file.done())
    (still,) = [entry for entry in timeline.ranges if entry.name == "left open"]
    assert still.end_us == 150.0


def test_what_nsight_systems_warned_of_is_passed_on(tmp_path: Path) -> None:
    file = two_inferences(tmp_path / "a.sqlite")
    file.row("DIAGNOSTIC_EVENT", severity=1, text="started")
    file.row("DIAGNOSTIC_EVENT", severity=2, text="Not all  events\nwere collected")
    file.row("DIAGNOSTIC_EVENT", severity=2, text="Not all events were collected")
    file.row("DIAGNOSTIC_EVENT", severity=4, text="a detail")
    file.row("PROFILER_OVERHEAD", start=0, end=10_005 * US)
    file.row("PROFILER_OVERHEAD", start=10_020 * US, end=10_021 * US)
    timeline = timeline_from(file.done())
    assert "Nsight Systems: Not all events were collected" in timeline.notes
    assert "Nsight Systems itself kept the host busy for 6 us of the time shown." in timeline.notes
    assert len(timeline.notes) == 2


def test_what_is_said_of_every_capture_range_is_not(tmp_path: Path) -> None:
    file = two_inferences(tmp_path / "a.sqlite")
    file.row("DIAGNOSTIC_EVENT", severity=2, text="Not all CUDA events might have been collected.")
    file.row("DIAGNOSTIC_EVENT", severity=1, text="Profiling started due to cudaProfilerStart API invoked.")
    file.row("DIAGNOSTIC_EVENT", severity=3, text="Buffers were dropped")
    assert timeline_from(file.done()).notes == ("Nsight Systems: Buffers were dropped",)


def test_warnings_about_programs_that_used_no_gpu_are_not_about_this_trace(tmp_path: Path) -> None:
    file = two_inferences(tmp_path / "a.sqlite")
    file.row("DIAGNOSTIC_EVENT", severity=2, globalPid=9 << 24, text="No CUDA events collected.")
    file.row("DIAGNOSTIC_EVENT", severity=2, globalPid=PROCESS, text="of ours")
    file.row("DIAGNOSTIC_EVENT", severity=2, globalPid=-(1 << 57), text="of the machine")
    assert timeline_from(file.done()).notes == ("Nsight Systems: of ours", "Nsight Systems: of the machine")


def test_the_command_is_put_together(tmp_path: Path) -> None:
    file = two_inferences(tmp_path / "a.sqlite")
    for name, value in (("COMMAND", "python3"), ("ARGUMENT_1", "a b"), ("ARGUMENT_0", "run.py"), ("PID", "0")):
        file.row("META_DATA_CAPTURE", name=f"PROCESS_0:{name}", value=value)
    file.row("TARGET_INFO_SYSTEM_ENV", name="CudaDriverVersion", value="13000")
    timeline = timeline_from(file.done())
    assert timeline.command == "python3 run.py 'a b'"
    assert timeline.environment == {"cuda_driver": "13.0"}


def test_several_processes_and_gpus_are_told(tmp_path: Path) -> None:
    file = two_inferences(tmp_path / "a.sqlite")
    other = 8 << 24
    correlation = file.call("cudaLaunchKernel_v7000", 10_003 * US, 10_004 * US, other | 5)
    file.kernel("theirs", 10_005 * US, 10_006 * US, correlation, globalPid=other, deviceId=1)
    timeline = timeline_from(file.done())
    assert "The trace has several processes; they share one time axis." in timeline.notes
    assert any(note.startswith("The trace has work of 2 GPUs") for note in timeline.notes)
    (theirs,) = [entry for entry in timeline.activities if entry.name == "theirs"]
    assert theirs.node is None


def test_a_long_trace_is_read_as_far_as_it_fits(tmp_path: Path) -> None:
    path = two_inferences(tmp_path / "a.sqlite").done()
    whole = read_nsys(path)
    assert len(whole.iterations) == 2
    part = read_nsys(path, most_events=10)
    assert part.iterations == (Iteration(0, 0.0, 60.0),)
    assert part.activities == tuple(entry for entry in whole.activities if entry.iteration == 0)
    assert part.notes[0] == "The trace is long: its first 1 of 2 inferences were read."
    with pytest.raises(LenetTrtError, match=r"14 events, and 3 fit: record fewer inferences"):
        read_nsys(path, most_events=3)


def test_a_trace_without_cuda_says_so_and_what_nsight_systems_said(tmp_path: Path) -> None:
    file = NsysFile(tmp_path / "a.sqlite")
    file.range("iteration 0", 0, 10)
    file.row("DIAGNOSTIC_EVENT", severity=3, text="CUDA injection failed")
    with pytest.raises(LenetTrtError, match=r"no CUDA activity: record with -t cuda,nvtx.*CUDA injection failed"):
        timeline_from(file.done())


def test_another_sqlite_file_is_no_export(tmp_path: Path) -> None:
    path = tmp_path / "phone.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE contacts (name TEXT)")
    connection.close()
    with pytest.raises(LenetTrtError, match=r"no export of Nsight Systems \(its tables: contacts\)"):
        timeline_from(path)


def test_a_profile_of_nvprof_is_known_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.nvvp"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringTable (_id_ INTEGER, value TEXT)")
        connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (_id_ INTEGER, start INT, end INT, name INT)")
    connection.close()
    with pytest.raises(LenetTrtError, match=r"is a profile of nvprof .* their successor Nsight Systems"):
        timeline_from(path)


def test_a_file_that_was_cut_off_is_told_from_its_length(tmp_path: Path) -> None:
    path = two_inferences(tmp_path / "a.sqlite").done()
    data = path.read_bytes()
    for size in (20, 99, 4096, len(data) - 4096, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(LenetTrtError, match="was cut off"):
            timeline_from(path)


def test_damage_anywhere_is_an_error_or_changes_nothing_else(tmp_path: Path) -> None:
    """Whatever page is overwritten: a clear error or a timeline, never another exception; and no file is left."""
    path = two_inferences(tmp_path / "a.sqlite").done()
    data = path.read_bytes()
    errors = []
    noise = random.Random(5)
    for page in range(1, len(data) // 4096):
        for filler in (b"\0" * 4096, noise.randbytes(4096)):
            path.write_bytes(data[: page * 4096] + filler + data[(page + 1) * 4096 :])
            try:
                assert isinstance(timeline_from(path), Timeline)
            except LenetTrtError as error:
                errors.append(str(error))
    assert errors
    assert all("a.sqlite" in error for error in errors)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.sqlite"]


def test_rows_that_end_before_they_begin_are_damage(tmp_path: Path) -> None:
    file = two_inferences(tmp_path / "a.sqlite")
    file.kernel("k", 10_020 * US, 10_010 * US, 5)
    with pytest.raises(LenetTrtError, match=r"a row of CUPTI_ACTIVITY_KIND_KERNEL is from 10020000 to 10010000"):
        timeline_from(file.done())


def test_texts_where_numbers_belong_are_damage(tmp_path: Path) -> None:
    file = two_inferences(tmp_path / "a.sqlite")
    file.kernel("k", 10_020 * US, 10_030 * US, 5, streamId="seven")
    with pytest.raises(LenetTrtError, match=r"a row of CUPTI_ACTIVITY_KIND_KERNEL has values of the wrong kind"):
        timeline_from(file.done())


def test_a_trace_is_only_read(tmp_path: Path) -> None:
    path = two_inferences(tmp_path / "odd name?#%.sqlite").done()
    before = path.read_bytes()
    path.chmod(0o444)
    assert len(timeline_from(path).iterations) == 2
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
