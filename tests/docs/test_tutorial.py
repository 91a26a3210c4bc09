"""The tutorial, followed to the letter: its files are written where it says, its commands typed in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from documents import TutorialStep as Step
from documents import tutorial
from lenet_trt.cuda.gpus import gpus


def follow(folder: Path, wanted: Callable[[Step], bool]) -> dict[str, str]:
    """Write every file and type the commands that are wanted, in order; return what each command printed."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    printed = {}
    for step in tutorial():
        if step.path:
            (folder / step.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / step.path).write_text(step.text, encoding="utf-8")
            continue
        if exported := re.match(r"export (\w+)=\$PWD/(\S+)", step.text):
            environment[exported[1]] = str(folder / exported[2])
        if wanted(step):
            answer = subprocess.run(step.text, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
            assert answer.returncode == 0, f"$ {step.text}\n{answer.stdout}\n{answer.stderr}"
            printed[step.text] = answer.stdout
    return printed


@pytest.mark.slow
def test_every_step_that_needs_no_gpu(tmp_path: Path) -> None:
    printed = follow(tmp_path, lambda step: not step.gpu)
    assert "replaces  y = HardSwish(x)" in printed["lenet-trt plugins hard_swish"]
    for check in ("examples", "compile", "serialize"):
        assert re.search(rf"{check} +passed", printed["lenet-trt check hard_swish"])
    fused = next(text for command, text in printed.items() if command.startswith("lenet-trt fuse"))
    assert "hard_swish (fp32) replaces" in fused
    assert (tmp_path / "network.fused.onnx").is_file()
    assert "largest difference: 0.0" in printed["python compare.py"]
    assert (tmp_path / "network.engine").is_file()
    assert '"hard_swish"' in (tmp_path / "network.json").read_text()


@pytest.mark.gpu
def test_every_step_that_needs_a_gpu(tmp_path: Path) -> None:
    if not gpus().devices:
        pytest.skip(f"needs a CUDA GPU: {gpus().problem}")
    pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[gpu]'")
    printed = follow(tmp_path, lambda step: step.gpu or step.text.startswith("lenet-trt check"))
    assert len(printed) == 4
    assert re.search(r"values +passed", printed["lenet-trt check hard_swish"])
    assert "nothing found" in printed["lenet-trt check hard_swish --sanitize"]
    assert printed["python activate.py"].startswith("right, on ")
