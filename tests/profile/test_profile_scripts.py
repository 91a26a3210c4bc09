"""The shell recipes for nsys: their help, their errors, and the command lines that they run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lenet_trt.profile import nsys

SCRIPTS = Path(__file__).parents[2] / "scripts"
RECIPES = ("nsys_profile.sh", "nsys_stats.sh", "trtexec_profile.sh")
_FAKE = """#!/usr/bin/env bash
printf '%s\\n' "$@" > "$0.arguments"
for argument in "$@"; do
    case $argument in --output=*) REPORT ;; esac
done
exit 0
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a recipe with a program in the place of nsys that writes down how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def call(recipe: str, *arguments: str, report: bool = True, fake: bool = True) -> subprocess.CompletedProcess[str]:
        if fake:
            path = folder / "nsys"
            path.write_text(_FAKE.replace("REPORT", 'touch "${argument#--output=}.nsys-rep"' if report else "true"))
            path.chmod(0o755)
        environment = {**os.environ, "PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"}
        command = [str(SCRIPTS / recipe), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)

    return call


def called(folder: Path) -> list[str]:
    return (folder / "bin" / "nsys.arguments").read_text().splitlines()


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_parse_and_tell_how_they_are_used(recipe: str, run: Run) -> None:
    subprocess.run(["bash", "-n", str(SCRIPTS / recipe)], check=True)
    done = run(recipe, "--help")
    assert done.returncode == 0
    assert f"usage: scripts/{recipe}" in done.stdout
    assert "set -euo" not in done.stdout
    done = run(recipe)
    assert done.returncode == 2
    assert f"usage: scripts/{recipe}" in done.stderr


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_are_clean(recipe: str) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed: apt-get install shellcheck")
    subprocess.run(["shellcheck", str(SCRIPTS / recipe)], check=True)


def test_a_program_is_traced_with_the_flags_of_the_verb(run: Run, tmp_path: Path) -> None:
    done = run("nsys_profile.sh", "out/rep.nsys-rep", "prog", "--flag", "a b", report=False)
    assert done.returncode == 1
    assert "nsys made no out/rep.nsys-rep" in done.stderr
    assert "--whole traces without it" in done.stderr
    done = run("nsys_profile.sh", "rep.nsys-rep", "prog", "--flag", "a b")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "rep.nsys-rep\n"
    arguments = called(tmp_path)
    assert arguments[0] == "profile"
    assert arguments[-3:] == ["prog", "--flag", "a b"]
    assert set(arguments[1:-3]) == {"--output=rep", *nsys.FLAGS}


def test_a_whole_program_is_traced_without_a_range(run: Run, tmp_path: Path) -> None:
    assert run("nsys_profile.sh", "--whole", "rep", "prog").returncode == 0
    assert not [argument for argument in called(tmp_path) if "capture-range" in argument]


def test_statistics_of_a_report(run: Run, tmp_path: Path) -> None:
    done = run("nsys_stats.sh", "rep.nsys-rep")
    assert done.returncode == 1
    assert "rep.nsys-rep does not exist" in done.stderr
    (tmp_path / "rep.nsys-rep").touch()
    assert run("nsys_stats.sh", "rep.nsys-rep", "--csv").returncode == 0
    arguments = called(tmp_path)
    assert arguments[0] == "stats"
    assert arguments[arguments.index("--format") + 1] == "csv"
    assert {"cuda_gpu_kern_sum", "cuda_api_sum", "cuda_gpu_mem_time_sum"} <= set(arguments)
    assert run("nsys_stats.sh", "rep.nsys-rep", "--html").returncode == 2


@pytest.mark.parametrize("recipe", ["nsys_profile.sh", "nsys_stats.sh"])
def test_without_nsys_recipes_say_so(recipe: str, run: Run, tmp_path: Path) -> None:
    if shutil.which("nsys", path="/usr/bin:/bin"):
        pytest.skip("nsys is in /usr/bin here")
    (tmp_path / "rep").touch()
    done = run(recipe, "rep", *(["prog"] if "profile" in recipe else []), fake=False)
    assert done.returncode == 1
    assert "nsys is not on the PATH" in done.stderr
