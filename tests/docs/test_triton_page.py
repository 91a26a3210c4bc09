"""The commands of the page about Triton work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from documents import ROOT, commands


@pytest.mark.slow
def test_its_commands_work(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for line in commands(ROOT / "docs" / "triton.md"):
        answer = subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, f"$ {line}\n{answer.stderr}"
    versions = {path.name for path in (tmp_path / "model_repository/lenet5").iterdir()}
    assert versions == {"config.pbtxt", "1", "2"}
