"""The page about Ray: its commands work, and its script computes what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from documents import ROOT, commands

PAGE = ROOT / "docs" / "ray.md"


def planned(gpus: str, cores: str, gpu_rate: float, read_mb_s: float) -> tuple[str, float]:
    """What limits by the script, and the images a second."""
    rates = f"--gpu-rate {gpu_rate} --core-rate 534314 --read-mb-s {read_mb_s} --image-bytes 784 --answer-bytes 41"
    words = [sys.executable, str(ROOT / "scripts/ray_plan.py"), "--gpus", gpus, "--cores", cores, *rates.split()]
    answer = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (limit,) = (line.split() for line in answer.splitlines() if line.endswith("the limit"))
    return limit[0], float(limit[1].replace(",", ""))


def test_the_table_of_a_billion_images_is_what_the_script_computes() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (\d+) \| (\d+) \| (\d+) \| (.*) \| ([\d,]+) \| ([\d.]+) min \| (\w+) \|$", page, re.MULTILINE
    )
    one, two = (
        float(rate.replace(",", "")) for rate in re.findall(r"^\| (?:one|two) GPUs? \| ([\d,]+)", page, re.MULTILINE)
    )
    (read,) = (
        float(rate.replace(",", ""))
        for rate in re.findall(r"^\| reading alone, all cores \| ([\d,]+)", page, re.MULTILINE)
    )
    assert len(rows) == 5
    for machines, gpus, cores, place, rate, minutes, limit in rows:
        stored = 1000.0 if "1,000 MB/s" in place else int(machines) * read * 784 / 1e6
        name, computed = planned(gpus, cores, one if gpus == "1" else two / 2, stored)
        assert (name, f"{computed:,.0f}") == (limit, rate)
        assert float(minutes) == pytest.approx(1e9 / computed / 60, rel=0.03)


@pytest.mark.parametrize("name", ["ray_resnet18", "ray_lenet5"])
def test_its_rates_are_those_that_the_script_printed(name: str) -> None:
    printed = (PAGE.parent / f"results/printed/{name}.txt").read_text(encoding="utf-8")
    rates = re.findall(r"^(?:reading|gpus=\d) +([\d,]+) images/s", printed, re.MULTILINE)
    page = PAGE.read_text(encoding="utf-8")
    assert len(rates) == 3
    assert all(f"| {rate} |" in page for rate in rates)


@pytest.mark.slow
@pytest.mark.usefixtures("no_ray_cluster")
def test_its_commands_work(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="run --ray needs Ray Data: pip install 'lenet-trt[ray]'")
    (tmp_path / "export").symlink_to(ROOT / "export")  # the page is for a clone
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for line in commands(PAGE):
        answer = subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, f"$ {line}\n{answer.stderr}"
    assert "before   10,000 images were done by an earlier start" in answer.stdout
    assert len(list((tmp_path / "answers").glob("part-*.parquet"))) == 2


def test_the_script_names_what_limits() -> None:
    options = "--images 1e9 --gpus 2 --cores 10 --gpu-rate 5e5 --core-rate 2e4 --read-mb-s 1000 --image-bytes 1000"
    words = [sys.executable, str(ROOT / "scripts/ray_plan.py"), *options.split(), "--answer-bytes", "50"]
    answer = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    lines = answer.splitlines()
    assert lines[1].startswith("decoding")
    assert lines[1].endswith("1.39 hours  <- the limit"), "10^9 images at 200,000 a second"
    assert lines[3].split() == ["answers", "50.0", "GB"]
    refused = subprocess.run([*words, "--gpus", "0"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
