"""Every name of TensorRT's that the code uses is there, in both flavors' real bindings."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tensorrt_names
import tensorrt_stubs

PACKAGE = Path(__file__).parents[2] / "lenet_trt"
SCRIPT = Path(tensorrt_names.__file__)
BOTH = [
    PACKAGE / "tensorrt" / "flavors.py",
    PACKAGE / "tensorrt" / "engine.py",
    PACKAGE / "check" / "__main__.py",
    PACKAGE / "tensorrt" / "routes" / "python.py",
    PACKAGE / "runtimes" / "tensorrt.py",
]
FULL_ONLY = [PACKAGE / "tensorrt" / "routes" / "ptx.py"]  # tensorrt.plugin, which TensorRT-RTX does not have
ALL_THERE = r"(\d+)\.\S+: (\d+) names, missing: none"


def test_the_files_looked_at_are_those_that_use_tensorrt() -> None:
    users = {path for path in PACKAGE.glob("**/*.py") if set(tensorrt_names.used_names(path))}
    assert users == {*BOTH, *FULL_ONLY}


def test_tensorrt_rtx_has_every_name() -> None:
    command = [sys.executable, str(SCRIPT), "rtx", *map(str, BOTH)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    match = re.search(ALL_THERE, answer)
    assert match, answer
    assert int(match[2]) > 50


def test_full_tensorrt_has_every_name() -> None:
    if (reason := tensorrt_stubs.missing()) is not None:
        pytest.skip(reason)
    answer = tensorrt_stubs.run_with_bindings(SCRIPT, "tensorrt", *map(str, [*BOTH, *FULL_ONLY]))
    match = re.search(ALL_THERE, answer)
    assert match, answer
    assert match[1] == "11"
    assert int(match[2]) > 50
