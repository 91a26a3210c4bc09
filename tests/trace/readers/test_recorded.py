"""Traces that were recorded on an H200: see README.md. What they must say was read off by nsys itself, or by hand."""

from __future__ import annotations

import csv
import gzip
import random
import re
from pathlib import Path

import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.tables import TimeTable, tables
from lenet_trt.trace.timeline import Timeline, load_timeline, save

HERE = Path(__file__).parents[2] / "traces"
TRACES = sorted(HERE.glob("*.sqlite.gz"))
NODES = ["conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "fc1", "relu3", "fc2", "relu4", "fc3"]


def trace(name: str) -> Timeline:
    """The timeline of a recorded trace."""
    return timeline_from(HERE / f"{name}.sqlite.gz")


def kernels(timeline: Timeline, iteration: int | None) -> list[tuple[str | None, str]]:
    """Node and name of an inference's kernels, in the order of time."""
    return [
        (entry.node, entry.name)
        for entry in timeline.activities
        if entry.iteration == iteration and entry.kind == "kernel"
    ]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_every_trace_is_small_named_in_the_readme_and_read_in_order(path: Path, tmp_path: Path) -> None:
    timeline = timeline_from(path)
    assert path.stat().st_size < 200_000
    assert re.search(rf"^\| .*\b{path.name.partition('.')[0]}\b", (HERE / "README.md").read_text(), re.MULTILINE)
    assert timeline.source == "nsys 2025.3.2.0"
    assert timeline.environment == {
        "gpu": "NVIDIA H200",
        "compute_capability": "9.0",
        "multiprocessors": 132,
        "memory_bytes": 150109880320,
        "driver": "580.159.04",
        "cuda_driver": "13.0",
    }
    assert timeline.iterations[0].start_us == 0.0
    starts = [entry.start_us for entry in timeline.activities]
    assert starts == sorted(starts)
    assert all(entry.us > 0 for entry in (*timeline.activities, *timeline.api_calls))
    save(timeline, tmp_path / "timeline.json")
    assert load_timeline(tmp_path / "timeline.json") == timeline


def statistics() -> dict[str, tuple[int, int, int, int]]:
    """What nsys stats counted: total, count, minimum and maximum in nanoseconds, by name."""
    names = {"Host-to-Device": "HtoD", "Device-to-Host": "DtoH"}
    found = {}
    for row in csv.reader((HERE / "lenet5_inside.stats.csv").read_text().splitlines()):
        if row and row[0] != "Time (%)":
            name = re.sub("|".join(names), lambda match: names[match[0]], re.sub(r"_v\d{4,}$", "", row[8]))
            found[name] = (int(row[1]), int(row[2]), int(row[5]), int(row[6]))
    return found


def test_the_tables_say_what_nsys_stats_says() -> None:
    found = tables(trace("lenet5_inside"), everything=True)

    def counted(table: TimeTable) -> dict[str, tuple[int, int, int, int]]:
        return {
            row.full_name: (
                round(row.total_us * 1e3),
                row.calls,
                round(row.minimum_us * 1e3),
                round(row.maximum_us * 1e3),
            )
            for row in table.rows
        }

    wanted = statistics()
    del wanted["cuProfilerStart"]  # what is traced begins when it returns
    assert {**counted(found.gpu), **counted(found.api)} == wanted


def test_the_matmul_is_sixteen_kernels_of_one_node() -> None:
    timeline = trace("matmul")
    assert len(timeline.iterations) == 3
    for iteration in range(3):
        found = kernels(timeline, iteration)
        assert len(found) == 16
        assert {node for node, _ in found} == {"MatMul"}
    assert timeline.command == "python3 -P rec.py matmul"
    assert timeline.notes == ()


def test_every_replay_of_a_graph_that_was_captured_inside_knows_its_nodes() -> None:
    timeline = trace("lenet5_inside")
    assert len(timeline.iterations) == 5
    first = kernels(timeline, 0)
    assert list(dict.fromkeys(node for node, _ in first)) == NODES
    assert len(first) == 19
    assert all(kernels(timeline, index) == first for index in range(1, 5))
    # The network ran once node by node before the capture: every node launched the same kernels then.
    before = [entry for entry in kernels(timeline, None) if entry[0] in NODES]
    assert before[:19] == first
    assert not any("captured outside" in note for note in timeline.notes)


def test_graphs_of_before_the_capture_range_have_no_nodes_and_it_says_so() -> None:
    timeline = trace("lenet5_outside")
    assert {node for node, _ in kernels(timeline, 0)} == {None}
    assert [name for _, name in kernels(timeline, 0)] == [name for _, name in kernels(trace("lenet5_inside"), 0)]
    assert timeline.notes[0].startswith("110 activities are of CUDA graphs that were captured outside the trace")


def test_a_trace_from_the_programs_start_knows_the_nodes_of_graphs_that_it_saw_made() -> None:
    """The program's cudaProfilerStart bounds what counts, and the ranges of the capture before it are in the trace."""
    timeline = trace("lenet5_whole")
    assert kernels(timeline, 0) == kernels(trace("lenet5_inside"), 0)
    assert len(timeline.iterations) == 5
    assert timeline.notes == ()  # Nsight Systems warns of helper programs that use no GPU


def test_layers_that_torch_runs_one_by_one() -> None:
    timeline = trace("eager")
    for index in range(5):
        found = kernels(timeline, index)
        assert list(dict.fromkeys(node for node, _ in found)) == NODES
        assert len(found) == 19
    copies = [(entry.direction, entry.bytes, entry.node) for entry in timeline.activities if entry.kind == "memcpy"]
    assert copies == [("HtoD", 32 * 784 * 4, None), ("DtoH", 32 * 10 * 4, None)] * 5


def test_the_ranges_of_torchs_operators_name_nodes_by_the_innermost() -> None:
    timeline = trace("operators")
    assert [node for node, _ in kernels(timeline, 3)] == [node for node, _ in kernels(timeline, 1)]
    assert {node for node, _ in kernels(timeline, 3)} == {
        "aten::cudnn_convolution",
        "aten::add_",
        "aten::clamp_min",
        "aten::max_pool2d_with_indices",
        "aten::addmm",
    }
    assert {entry.node for entry in timeline.activities if entry.kind == "memcpy"} == {"aten::copy_"}


def test_the_fused_network_is_one_kernel() -> None:
    for name, node in (("fused_inside", "lenet5"), ("fused_outside", None)):
        timeline = trace(name)
        assert [kernels(timeline, index) for index in range(5)] == [[(node, "lenet5_cluster2")]] * 5
        copies = [entry for entry in timeline.activities if entry.iteration == 4 and entry.kind == "memcpy"]
        assert [(entry.direction, entry.bytes) for entry in copies] == [("HtoD", 32 * 784 * 4), ("DtoH", 32 * 10 * 4)]


def test_a_graph_that_was_traced_whole() -> None:
    timeline = trace("lenet5_graph")
    wholes = [entry for entry in timeline.activities if entry.kind == "layer"]
    assert [(entry.name, entry.iteration) for entry in wholes] == [("CUDA graph 4 as a whole", i) for i in range(5)]
    assert (
        "CUDA graphs were traced as a whole: record with --cuda-graph-trace=node to see their kernels."
        in timeline.notes
    )


def test_a_program_without_marks_is_one_inference_between_the_profilers_calls() -> None:
    inside, whole = trace("naive"), trace("naive_whole")
    for timeline in (inside, whole):
        assert len(timeline.iterations) == 1
        assert [entry.kind for entry in timeline.activities] == ["memset", "memcpy", "kernel", "kernel", "memcpy"] * 4
        names = [call.name for call in timeline.api_calls]
        assert names.count("cudaMalloc") == 4
        assert not any("Profiler" in name for name in names)
    assert whole.activities[2].grid == (256, 1, 1)
    assert whole.activities[3].shared_bytes == 1024
    # The call before the program's cudaProfilerStart, which makes the context, is in the file and not in the timeline.
    assert "cudaFree" in [call.name for call in whole.api_calls]
    assert whole.iterations[0].us < 2000


def test_a_recorded_trace_that_was_cut_off_or_changed(tmp_path: Path) -> None:
    """Bytes overwritten anywhere: an error that names the file, or a timeline; never anything else."""
    data = gzip.decompress((HERE / "fused_inside.sqlite.gz").read_bytes())
    path = tmp_path / "t.sqlite"
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(LenetTrtError, match="was cut off"):
        timeline_from(path)
    noise = random.Random(7)
    read: list[Timeline | str] = []
    for _ in range(100):
        changed = bytearray(data)
        start = noise.randrange(100, len(data))
        count = noise.choice([1, 8, 500, 5000])
        changed[start : start + count] = noise.choice([noise.randbytes(count), bytes(count)])[: len(data) - start]
        path.write_bytes(changed)
        try:
            read.append(timeline_from(path))
        except LenetTrtError as error:
            read.append(str(error))
    errors = [entry for entry in read if isinstance(entry, str)]
    assert len(errors) > 20
    assert all("t.sqlite" in error for error in errors)
