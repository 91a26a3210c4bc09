"""A release: the source archive, the wheel made of it, and the wheel in an empty folder without the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lenet_trt import __version__
from lenet_trt.cli import VERBS
from library_probes import headers_of

ROOT = Path(__file__).parents[1]
# What each command is tried with, in this order and in one folder; later ones use the files of earlier ones.
COMMANDS = (
    "--version",
    "doctor",
    "plugins",
    "export lenet5 -o net.onnx",
    "export matmul --dims 64,20,4,1,16 --dynamic -o matmul.onnx",
    "export conv --batch 2 -o conv.onnx",
    "fuse net.onnx",
    "inspect net.fused.onnx",
    "inspect net.onnx --svg",
    "run net.fused.onnx --batch 1000 --json",
    "roofline matmul.onnx --batch 4 --datasheet H200",
    "profile conv.onnx -o conv.timeline.json",
    "report conv.timeline.json --model conv.onnx -o conv.html",
    "optimize matmul.onnx --runtime ort-cpu --batch 1",
    "bench sweep --quick --batch 1",
    "check maxpool2 --only compile --targets sm_75",
    "build --fp32",
    "inspect engines/lenet5-fp32.engine",
    "run engines/lenet5-fp32.engine --batch 1000",
    "deploy triton net.onnx --backend python -o models",
    "quantize conv.onnx --data calibration.npz -o conv.int8.onnx",
    "tune --list",
    "verify --build-only --only maxpool2 -o report",
    "train --help",  # it needs torch
    "compare --help",  # it needs trtexec
    "library --help" if (HEADERS := headers_of("8.6")) is None else f"library --headers {HEADERS.folder}",
)


def test_the_version_is_the_same_everywhere() -> None:
    declared = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    newest = re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert declared is not None
    assert newest is not None
    assert declared[1] == newest[1] == __version__


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, made of the files that git has, as of a clean checkout."""
    pytest.importorskip("setuptools", reason="building takes setuptools")
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    source, target = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("archive")
    for name in tracked():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    return made("build_sdist", source, target)


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]


def made(hook: str, source: Path, target: Path) -> Path:
    """Call a hook of the build backend, as ``python -m build`` does."""
    program = f"import setuptools.build_meta as b; print(b.{hook}({str(target)!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return target / done.stdout.splitlines()[-1]


def link_dependencies(home: Path) -> None:
    """Let an environment have what this one has, except lenet-trt; so nothing is fetched from the network."""
    for folder in (Path(path) for path in sys.path if path.endswith("site-packages")):
        for entry in folder.iterdir():
            ours = "lenet_trt" in entry.name or entry.suffix == ".pth"
            if not ours and not (home / entry.name).exists():
                (home / entry.name).symlink_to(entry)


def assert_what_an_index_of_packages_shows(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (about,) = (opened.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    assert not re.findall(r"\]\((?!https://|#)[^)]*\)", about), (
        "a link of README.md leads nowhere outside the repository"
    )
    assert "/raw/main/docs/images/flow.svg)" in about
    assert {name.partition("licenses/")[2] for name in names if "/licenses/" in name} == {
        "LICENSE",
        "export/data/ATTRIBUTION",
    }
    assert not [name for name in names if name.startswith("lenet_trt/records/") and not name.endswith((".json", "/"))]


@pytest.mark.slow
def test_the_source_archive_has_all_that_the_repository_has(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    assert not [name for name in tracked() if name not in inside and (ROOT / name).is_file()]


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_folder(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    wheel = made("build_wheel", source, tmp_path)
    shutil.rmtree(tmp_path / "source")
    assert_what_an_index_of_packages_shows(wheel)
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    home = next(venv.glob("lib/python*/site-packages"))
    link_dependencies(home)
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python"), "install", "-q"]
    installed = subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr
    folder = tmp_path / "empty"
    folder.mkdir()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    where = [str(venv / "bin/python"), "-c", "import lenet_trt; print(lenet_trt.__file__)"]
    found = subprocess.run(where, cwd=folder, env=environment, capture_output=True, text=True).stdout
    assert found.startswith(str(home))
    np.savez(folder / "calibration.npz", images=np.random.default_rng(0).random((64, 1, 28, 28), np.float32))
    assert {words.split()[0] for words in COMMANDS} >= VERBS.keys()
    for words in COMMANDS:
        line = [str(venv / "bin/lenet-trt"), *words.split()]
        answer = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
        assert answer.returncode == 0, f"lenet-trt {words}\n{answer.stdout[-1000:]}{answer.stderr[-3000:]}"
        if words == "plugins":
            assert "H200" in answer.stdout, "the measured records are there"
    sources = list(home.glob("lenet_trt/tensorrt/library/cpp/*.cpp"))
    assert sources, "the library can be compiled"
