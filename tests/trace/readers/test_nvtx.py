"""Ranges of NVTX: which is the innermost at a moment, and which of TensorRT's submissions are inferences."""

from __future__ import annotations

import itertools

import pytest

from lenet_trt.trace.readers.nvtx import OURS, TENSORRT, Innermost, Range, enqueues, iterations, node_ranges


def named(name: str, start: int, end: int, domain: str = "", thread: int = 1) -> Range:
    return Range(name, domain, thread, start, end)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_of_ranges_that_begin_together_the_shortest_is_the_innermost(order: tuple[int, ...]) -> None:
    ranges = [named("long", 0, 100), named("middle", 0, 50), named("short", 0, 20)]
    innermost = Innermost(ranges[index] for index in order)
    found = {moment: innermost.at(1, moment) for moment in (-1, 0, 19, 20, 49, 50, 99, 100)}
    names = {moment: entry.name if entry else None for moment, entry in found.items()}
    assert names == {-1: None, 0: "short", 19: "short", 20: "middle", 49: "middle", 50: "long", 99: "long", 100: None}
    assert innermost.at(2, 10) is None


def test_a_range_that_follows_at_once_is_another_one() -> None:
    innermost = Innermost([named("first", 0, 10), named("second", 10, 20), named("empty", 5, 5)])
    assert [entry.name for at in (5, 9, 10, 19) for entry in [innermost.at(1, at)] if entry] == [
        "first",
        "first",
        "second",
        "second",
    ]


ENQUEUE = "ExecutionContext::enqueueV3"


def test_of_nested_submissions_the_outer_one_is_an_inference() -> None:
    outer, inner = named(ENQUEUE, 0, 100, TENSORRT), named(ENQUEUE, 0, 50, TENSORRT)
    late, after = named(ENQUEUE, 60, 100, TENSORRT), named(ENQUEUE, 100, 140, TENSORRT)
    other = named(ENQUEUE, 30, 90, TENSORRT, thread=2)
    foreign, layer = named(ENQUEUE, 200, 210), named("conv1", 10, 20, TENSORRT)
    assert enqueues([inner, after, late, other, outer, foreign, layer]) == [outer, other, after]


def test_our_own_marks_and_nodes_come_before_those_of_others() -> None:
    ours, theirs = named("iteration 1", 10, 20, OURS), named("iteration 0", 0, 5)
    assert iterations([ours, theirs]) == [ours]
    assert iterations([named("iteration 2", 30, 40), theirs]) == [theirs, named("iteration 2", 30, 40)]
    assert iterations([named("iteration 0", 0, 5, "other"), named("iterations", 0, 5)]) == []
    node, layer, plain, foreign = (
        named("node", 0, 1, OURS),
        named("conv1", 0, 1, TENSORRT),
        named("my loop", 0, 1),
        named("theirs", 0, 1, "torch"),
    )
    calls = [named(f"{kind}::build", 0, 1, TENSORRT) for kind in ("IBuilder", "ICudaEngine", "IRuntime")]
    everything = [foreign, plain, layer, *calls, node, ours, named("", 0, 1, OURS)]
    assert node_ranges(everything) == [node]
    assert node_ranges([entry for entry in everything if entry.domain != OURS]) == [layer]
    assert node_ranges([foreign, plain, *calls]) == [plain]
    assert node_ranges([foreign, *calls]) == [foreign, *calls]
