"""The page on lost time: its commands work and print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from documents import ROOT, commands, fenced
from lenet_trt.cli import parser_for
from lenet_trt.cuda.gpus import gpus

PAGE = ROOT / "docs" / "lost-time.md"
pytestmark = pytest.mark.slow


def typed(folder: Path, lines: list[str]) -> dict[str, str]:
    """Type the commands in a folder that has the repository's docs, scripts and traces; return what each printed."""
    for name in ("docs", "scripts", "tests"):
        (folder / name).symlink_to(ROOT / name)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    printed = {}
    for line in lines:
        answer = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
        assert answer.returncode == 0, f"$ {line}\n{answer.stderr}"
        printed[line] = answer.stdout
    return printed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lost-time")


@pytest.fixture(scope="module")
def printed(folder: Path) -> dict[str, str]:
    return typed(folder, commands(PAGE))


def shown(text: str) -> str:
    """Text without the spaces that lay it out."""
    return " ".join(text.split())


def test_every_command_works_and_prints_what_the_page_shows(printed: dict[str, str]) -> None:
    everything = shown(" ".join(printed.values()))
    blocks = re.findall(r"(?:^    .+\n)+", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(blocks) == 5
    for line in "".join(blocks).splitlines():
        # Names of kernels are cut on the page, as are the columns between.
        for part in re.split(r"<\.\.\.>|(?<=us)  (?=\D)", line):
            assert shown(part) in everything, part


def test_the_report_has_the_comparison_that_the_picture_shows(folder: Path, printed: dict[str, str]) -> None:
    html = (folder / "report.html").read_text("utf-8")
    for wanted in ("Before and after", "Optimisation", "batched_matvec", "matmul.timeline.json"):
        assert wanted in html
    assert "internal::gemvx::kernel" in (folder / "before.html").read_text("utf-8")
    assert (ROOT / "docs" / "images" / "report.png").stat().st_size < 200_000


def test_commands_that_need_a_gpu_say_so() -> None:
    every = re.findall(r"^```console.*\n", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {block.strip() for block in every} == {"```console", "```console gpu", "```console geforce"}
    assert not any("--runtime graph" in line for line in commands(PAGE))


def test_commands_for_a_geforce_are_written_as_the_tools_take_them() -> None:
    """What can be checked of them without the GPU: the options, and that the scripts are there."""
    (block,) = fenced(PAGE, "console geforce")
    build, *scripts = [line.removeprefix("$ ").split() for line in block.splitlines()]
    parsed = parser_for(build[1]).parse_args(build[2:])
    assert (parsed.flavor, Path(parsed.output).name) == ("tensorrt", "matmul.engine")
    assert len(scripts) == 3
    assert all(os.access(ROOT / line[0], os.X_OK) for line in scripts)


@pytest.mark.gpu
def test_commands_that_need_a_gpu_work_there(tmp_path: Path) -> None:
    if not gpus().devices:
        pytest.skip(f"needs a CUDA GPU: {gpus().problem}")
    pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[gpu]'")
    lines = [line.removeprefix("$ ") for block in fenced(PAGE, "console gpu") for line in block.splitlines()]
    assert len(lines) == 3
    first = [line for line in commands(PAGE) if line.startswith(("lenet-trt export matmul", "lenet-trt fuse"))]
    printed = typed(tmp_path, [*first, *lines])
    assert "batched_matvec for matmul" in printed["lenet-trt optimize matmul.onnx --runtime graph"]
