"""The script that gathers evidence on a GPU: each of its pieces is made of commands that exist."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lenet_trt.cli import parser_for
from lenet_trt.cuda.gpus import gpus

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "gpu_evidence.sh"
MOST_LINES = 60


def script(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *words], capture_output=True, text=True, check=False, cwd=ROOT, env=environment or None
    )


PIECES = script("--list", "folder").stdout.split()


def test_it_has_a_piece_for_each_kind_of_evidence() -> None:
    assert {name.split("-")[0] for name in PIECES} == {
        "engines",
        "builds",
        "quantized",
        "service",
        "sanitizer",
        "nsys",
        "polygraphy",
        "latency",
        "optimize",
    }
    assert len(set(PIECES)) == len(PIECES)


@pytest.mark.parametrize("name", PIECES)
def test_each_command_of_a_piece_is_one_that_is_understood(name: str) -> None:
    done = script("--print", "folder", name)
    assert done.returncode == 0, done.stderr
    lines = [
        shlex.split(line) for line in done.stdout.splitlines() if line.startswith(("lenet-trt", "python", "compute"))
    ]
    assert lines
    for program, *words in lines:
        if program == "lenet-trt":
            parser_for(words[0]).parse_args(words[1:])
        elif "pytest" in words:
            assert (ROOT / words[-1]).is_file()


@pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU here")
def test_a_piece_that_fails_shows_its_end_and_its_status(tmp_path: Path) -> None:
    """Without a GPU the first build fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = script(str(tmp_path), "builds", "optimize-conv", **{**os.environ, "PATH": path})
    assert done.returncode == 1
    assert "--flavor tensorrt" in done.stdout or "builds on the GPU that runs the engine" in done.stdout
    assert f"builds: status 1 (the whole log: {tmp_path / 'builds.log'})" in done.stdout
    assert "optimize-conv" not in done.stdout
    assert len(done.stdout.splitlines()) <= MOST_LINES


def test_what_is_no_piece_lists_those_that_are(tmp_path: Path) -> None:
    done = script(str(tmp_path), "nothing")
    assert done.returncode == 2
    assert "there is no piece nothing; there are: engines-lenet5-fp32-small" in done.stdout
