"""Copies: only those that come back, that are in the middle, or that stay on the GPU are findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lenet_trt.trace.findings import Finding, findings_of
from lenet_trt.trace.ledger import ledger_of
from traced import call, copy, kernel, repeated

BACK_AND_FORTH = "to the host and back"
MIDDLE = "in the middle of the network"
WITHIN = "from one place of the GPU's memory to another"


def found(happens: Sequence[Any], length: float = 100) -> list[Finding]:
    trace = repeated(length, [call(0, 1), *happens])
    return [entry for entry in findings_of(trace, ledger_of(trace)) if entry.kind == "copies"]


def evidence(happens: Sequence[Any]) -> str:
    return " ".join(line for entry in found(happens) for line in entry.evidence)


@pytest.mark.parametrize("first", ["DtoH", "HtoD"])
def test_only_what_leaves_and_returns_is_a_round_trip(first: str) -> None:
    """An input that comes in and a result that leaves have the same size in many networks."""
    second = "HtoD" if first == "DtoH" else "DtoH"
    said = evidence([copy(2, 22, first, bytes=4096), copy(30, 50, second, bytes=4096), kernel(60, 95)])
    assert (BACK_AND_FORTH in said) == (first == "DtoH")


def test_a_copy_that_begins_before_the_other_is_done_does_not_bring_it_back() -> None:
    both = [copy(2, 30, "DtoH", bytes=4096), copy(20, 50, "HtoD", bytes=4096), kernel(60, 95)]
    assert BACK_AND_FORTH not in evidence(both)


def test_what_returns_has_the_size_of_what_left_and_returns_once() -> None:
    other = [copy(2, 22, "DtoH", bytes=4096), copy(30, 50, "HtoD", bytes=8192), kernel(60, 95)]
    assert BACK_AND_FORTH not in evidence(other)
    twice = [copy(2, 12, "DtoH", bytes=64), copy(20, 30, "HtoD", bytes=64), copy(30, 40, "HtoD", bytes=64)]
    assert f"2.0 copies per inference {BACK_AND_FORTH}" in evidence([*twice, kernel(60, 95)])


@pytest.mark.parametrize(
    ("direction", "start", "late"),
    [("HtoD", 2, False), ("HtoD", 40, True), ("DtoH", 80, False), ("DtoH", 40, True)],
)
def test_copies_between_kernels_are_in_the_middle(direction: str, start: float, late: bool) -> None:
    kernels = [kernel(20, 35), kernel(60, 75)]
    said = evidence([*kernels, copy(start, start + 15, direction, bytes=64)])
    assert (MIDDLE in said) == late


def test_a_copy_within_the_gpu_is_counted_once_with_its_bytes() -> None:
    (entry,) = found([kernel(2, 20), copy(30, 50, "DtoD", bytes=1_000_000), kernel(60, 75)])
    assert entry.evidence == (f"1.0 copies per inference {WITHIN}: 20.0 us, 1,000,000 bytes",)
    assert entry.recoverable_us == 20


def test_the_input_and_the_result_are_no_finding() -> None:
    assert found([copy(2, 22, "HtoD", bytes=64), kernel(30, 60), copy(70, 95, "DtoH", bytes=64)]) == []
