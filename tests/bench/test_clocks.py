"""Clocks as nvidia-smi tells them: what a GPU does not tell is None, and a GPU that others use is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lenet_trt.bench import suite
from lenet_trt.bench.suite import SuiteOptions, recording
from lenet_trt.bench.tables import record_warnings
from lenet_trt.cuda import environment
from lenet_trt.cuda.environment import clocks
from lenet_trt.cuda.gpus import Gpus, gpus
from lenet_trt.errors import LenetTrtError


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named nvidia-smi that gives the lines of a file, one a call, and its last line again and again."""
    said = tmp_path / "answers"
    program = tmp_path / "nvidia-smi"
    turns = f"if [ $(wc -l < {said}) -gt 1 ]; then sed -i 1d {said}; fi"
    program.write_text(f"#!/bin/sh\necho $@ >> {said}.asked\nhead -1 {said}\n{turns}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(environment, "_bus_id", lambda device: f"0000:0{device + 3}:00.0")
    return said


def test_figures_are_read_and_what_is_not_told_is_none(answers: Path) -> None:
    answers.write_text("1980, 3201, 34, 122.24, 7\n")
    seen = clocks()
    assert (seen.sm_mhz, seen.memory_mhz, seen.temperature_c, seen.power_w, seen.busy_percent) == (
        1980,
        3201,
        34,
        122.24,
        7,
    )
    assert "--id=0000:03:00.0" in Path(f"{answers}.asked").read_text(), "the GPU that the driver calls 0"
    answers.write_text("1500, 7000, 60, [N/A], [Not Supported]\n")
    assert (clocks().power_w, clocks().busy_percent) == (None, None)
    for odd in ("[N/A], 7000, 60, 3, 4\n", "1500\n", "\n"):
        answers.write_text(odd)
        with pytest.raises(LenetTrtError, match="nvidia-smi answers"):
            clocks()


@pytest.mark.skipif(bool(gpus().devices), reason="a real nvidia-smi is tested by tests/gpu")
@pytest.mark.parametrize(
    ("busy", "shared"), [((0, 0), False), ((90, 0), False), ((90, 80), True)], ids=["free", "just before", "shared"]
)
def test_a_gpu_that_others_use_is_noticed(
    answers: Path, monkeypatch: pytest.MonkeyPatch, busy: tuple[int, int], shared: bool
) -> None:
    answers.write_text("".join(f"1980, 3201, 34, 122, {percent}\n" for percent in busy))
    monkeypatch.setattr(suite, "_SETTLING_S", 0.0)
    monkeypatch.setattr(suite, "gpus", lambda: Gpus((object(),), "13.0", None))  # type: ignore[arg-type]
    with recording("x", SuiteOptions()) as found:
        found.cannot("a", {}, "nothing is measured here")
    record = found.finish()
    assert [sample["sm_mhz"] for sample in record.clocks] == [1980, 1980]
    assert any("another process" in warning for warning in record_warnings(record)) == shared
