"""The README's commands do what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from documents import ROOT, commands, fenced
from lenet_trt.errors import documentation

README = ROOT / "README.md"


def test_the_quick_start_is_two_blocks() -> None:
    first, second = fenced(README, "bash")
    assert "python -m lenet_trt.build --fp32" in first
    assert "python -m pytest" in second


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [README, *(ROOT / "docs" / name for name in ("plugins.md", "quantize.md", "run.md"))],
    ids=lambda page: page.name,
)
def test_every_command_works(page: Path, tmp_path: Path) -> None:
    """In one folder and in order, since later commands use files of earlier ones."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for name in ("docs", "export"):  # as in a clone
        (tmp_path / name).symlink_to(ROOT / name)
    for line in commands(page):
        answer = subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, f"$ {line}\n{answer.stderr}"
        assert answer.stdout, f"$ {line} printed nothing"


def test_every_page_that_a_message_names_is_there() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "lenet_trt").rglob("*.py"))
    names = {name for text in sources for name in re.findall(r"documentation\('(.+?)'\)", text)}
    assert {"plugins", "write-a-plugin"} <= names
    assert not [name for name in names if not (ROOT / "docs" / f"{name}.md").is_file()]
    assert documentation("plugins").endswith("/blob/main/docs/plugins.md")


def test_every_file_that_is_linked_is_there() -> None:
    for page in [README, *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
