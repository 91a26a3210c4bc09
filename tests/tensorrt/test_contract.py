"""Every name of TensorRT's that the code uses is there, in the real bindings of each release that can be had."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tensorrt_names
import tensorrt_stubs

PACKAGE = Path(__file__).parents[2] / "lenet_trt"
SCRIPT = Path(tensorrt_names.__file__)
EVERY = [
    PACKAGE / "tensorrt" / "data_types.py",
    PACKAGE / "tensorrt" / "flavors.py",
    PACKAGE / "tensorrt" / "engine.py",
    PACKAGE / "runtimes" / "tensorrt.py",
]
FROM_10 = [
    PACKAGE / "bench" / "zoo" / "builds.py",
    PACKAGE / "check" / "__main__.py",
    PACKAGE / "tensorrt" / "routes" / "python.py",
]
FULL_FROM_10 = [PACKAGE / "tensorrt" / "routes" / "ptx.py"]  # tensorrt.plugin, which TensorRT-RTX does not have
BEFORE_10 = [PACKAGE / "tensorrt" / "weak_types.py"]
ALL_THERE = r"(\d+)\.\S+: (\d+) names, missing: none\ntold wrongly: none"


def test_the_files_looked_at_are_those_that_use_tensorrt() -> None:
    users = {path for path in PACKAGE.glob("**/*.py") if set(tensorrt_names.used_names(path))}
    assert users == {*EVERY, *FROM_10, *FULL_FROM_10, *BEFORE_10}


def test_tensorrt_rtx_has_every_name() -> None:
    command = [sys.executable, str(SCRIPT), "rtx", *map(str, [*EVERY, *FROM_10])]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    match = re.search(ALL_THERE, answer)
    assert match, answer
    assert int(match[2]) > 50


def test_full_tensorrt_has_every_name() -> None:
    if (reason := tensorrt_stubs.missing()) is not None:
        pytest.skip(reason)
    answer = tensorrt_stubs.run_with_bindings(SCRIPT, "tensorrt", *map(str, [*EVERY, *FROM_10, *FULL_FROM_10]))
    match = re.search(ALL_THERE, answer)
    assert match, answer
    assert match[1] == "11"
    assert int(match[2]) > 50


def test_tensorrt_8_has_every_name() -> None:
    python = os.environ.get("LENET_TRT_TENSORRT8_PYTHON")
    if not python:
        pytest.skip("LENET_TRT_TENSORRT8_PYTHON names no interpreter with TensorRT 8")
    command = [python, str(SCRIPT), "tensorrt8", *map(str, [*EVERY, *BEFORE_10])]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    match = re.search(ALL_THERE, done.stdout)
    assert match, done.stdout + done.stderr
    assert match[1] == "8"
    assert int(match[2]) > 40
