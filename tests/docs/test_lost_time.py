"""The page on lost time: its commands work, and its figures are those of the records beside it."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from documents import ROOT, commands, fenced
from lenet_trt.cli import parser_for
from lenet_trt.cuda.gpus import gpus
from lenet_trt.draw.text import ratio_text, time_text, us_text

PAGE = ROOT / "docs" / "lost-time.md"
RECORDS = ROOT / "docs" / "lost-time"


def typed(folder: Path, lines: list[str]) -> dict[str, str]:
    """Type the commands in a folder that has the repository's docs and scripts; return what each printed."""
    for name in ("docs", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    printed = {}
    for line in lines:
        answer = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
        assert answer.returncode == 0, f"$ {line}\n{answer.stderr}"
        # assert "warning" not in answer.stderr
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
    assert len(blocks) == 3
    for line in "".join(blocks).splitlines():
        # Names of kernels are cut on the page, as are the columns between.
        for part in re.split(r"<\.\.\.>|(?<=us)  (?=\D)", line):
            assert shown(part) in everything, part


def test_the_figures_are_those_of_the_records(folder: Path, printed: dict[str, str]) -> None:
    page = PAGE.read_text("utf-8")
    optimized = json.loads((RECORDS / "optimize.json").read_text())
    (chosen,) = optimized["chosen"]
    for times in chosen["times"]:
        median, low, high = (us_text(times[name]) for name in ("median_us", "low_us", "high_us"))
        assert f" {median} [{low}, {high}] |" in page
    before, after = (traced(name) for name in ("matmul.timeline.json.gz", "matmul.fused.timeline.json.gz"))
    assert f"| {us_text(before['unprofiled_us'])} | {us_text(after['unprofiled_us'])} |" in page
    for timeline in (before, after):
        environment = timeline["environment"]
        for said in (environment["gpu"], environment["driver"], environment["packages"]["nvidia-cublas"]):
            assert said in page
        assert f"torch {environment['packages']['torch']}" in page
    assert f"NVRTC {before['environment']['nvrtc']}" in page
    terms = ledger(folder, "matmul.timeline.json", "matmul.onnx")
    now = ledger(folder, "matmul.fused.timeline.json", "matmul.fused.onnx")
    assert f"| {us_text(terms['end_to_end_us'])} | {us_text(now['end_to_end_us'])} |" in page
    total = terms["ledger"]["total"]
    rest = sum(total[name] for name in ("launch_gaps_us", "host_enqueue_us", "residual_us"))
    for value in (total["floor_us"], total["inefficiency_us"], total["copies_us"], rest, terms["end_to_end_us"]):
        assert f"| {us_text(value)} |" in page
    (finding,) = terms["findings"]
    assert finding["title"].removeprefix("matmul: ") in page
    assert f"{us_text(finding['recoverable_us'])} us could be won back" in page
    assert ratio_text(terms["end_to_end_us"] / terms["floor_us"]) in page
    assert time_text(terms["end_to_end_us"]).removesuffix(" \u00b5s") in page


def ledger(folder: Path, timeline: str, model: str) -> dict[str, Any]:
    line = f"lenet-trt report {timeline} --model docs/lost-time/{model} --ceilings docs/lost-time/roofline.json --json"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    answer = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


def traced(name: str) -> dict[str, Any]:
    return json.loads(gzip.decompress((RECORDS / name).read_bytes()))


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
