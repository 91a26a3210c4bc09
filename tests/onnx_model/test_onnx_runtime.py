"""ONNX Runtime is imported in one way, and tells nobody of the models that it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# From version 1.29 on the packages for Linux write this below the cache, and send from there what was run.
_KEPT = Path(".cache/Microsoft")
# ONNX Runtime is silent under a test anyway.
_SHARED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")


def test_no_session_is_told_to_anybody(lenet5: Path, tmp_path: Path) -> None:
    environment = {name: os.environ[name] for name in _SHARED if name in os.environ}
    environment["HOME"] = str(tmp_path)
    for words in (["-m", "lenet_trt.run", str(lenet5)], ["-m", "lenet_trt.doctor"]):
        subprocess.run([sys.executable, *words], env=environment, capture_output=True, check=True)
    assert not (tmp_path / _KEPT).exists()
