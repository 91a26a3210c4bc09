"""scripts/same_code.py tells kernels with other machine code from those of which only the text changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from documents import ROOT

KERNEL = "maxpool2"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The sources in a repository of their own, with one commit."""
    for name in ("lenet_trt", "export", "plugins", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "data"))
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "All"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def said(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, repository / "scripts" / "same_code.py", *words]
    return subprocess.run(program, cwd=repository, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_comment_is_the_same_code_and_another_sum_is_not(repository: Path) -> None:
    (source,) = (repository / "plugins" / KERNEL).glob("*.cu")
    text = source.read_text()
    source.write_text(f"// Another comment.\n{text}")
    for words in ([], ["--example", "-1"]):
        assert said(repository, "HEAD", KERNEL, *words).stdout == f"{KERNEL}: 6 of 6 the same\n"
    source.write_text(text.replace("blockIdx.x", "(blockIdx.x + 1)", 1))
    assert said(repository, "HEAD", KERNEL).stdout.startswith(f"{KERNEL}: 0 of 6 the same; not: fp32 wide")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_what_is_no_commit_is_refused(repository: Path) -> None:
    done = said(repository, "nothing")
    assert done.returncode == 1
    assert "nothing is no commit of" in done.stderr
