"""The libraries of a release: one for each TensorRT and processor, with the same bytes wherever they are compiled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lenet_trt.tensorrt.library.compile import COMPILERS
from lenet_trt.tensorrt.library_file import library_release
from library_probes import Headers, headers_of, missing_compiler

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "release_libraries.sh"
VERSIONS = ("8.6", "10.16", "11.1")
TARGETS = [target for target, compiler in COMPILERS.items() if shutil.which(compiler) is not None]


def headers(version: str) -> Headers:
    if (reason := missing_compiler()) is not None:
        pytest.skip(reason)
    found = headers_of(version)
    if found is None:
        pytest.skip(f"TensorRT's headers of {version} are not here")
    return found


def release(folder: Path, package: Path, *included: Path) -> dict[str, bytes]:
    """Run the script with the package that lies in this folder, and return its files."""
    command = folder.with_name(f"{folder.name}-command")
    command.write_text(f'#!/bin/sh\nPYTHONPATH={package} exec {sys.executable} -m lenet_trt.cli "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "LENET_TRT": str(command), "TARGETS": " ".join(TARGETS)}
    subprocess.run([SCRIPT, folder, *included], env=environment, cwd=package, check=True)
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_two_places_make_the_same_bytes(tmp_path: Path) -> None:
    included = [headers(version).folder for version in VERSIONS]
    copies = [Path(shutil.copytree(folder, tmp_path / f"include{i}")) for i, folder in enumerate(included)]
    other = tmp_path / "other" / "checkout"
    shutil.copytree(ROOT / "lenet_trt", other / "lenet_trt", ignore=shutil.ignore_patterns("__pycache__"))
    first = release(tmp_path / "first", ROOT, *included)
    # Each takes a compiler's time: the oldest and the newest, whose plugins have different interfaces.
    second = release(tmp_path / "second", other, copies[0], copies[-1])
    del second["SHA256SUMS"]
    assert second == {name: first[name] for name in second}
    names = {f"liblenet_trt_plugins-tensorrt{version}-{target}.so" for version in VERSIONS for target in TARGETS}
    assert set(first) == {*names, "SHA256SUMS"}
    for name in names:
        major, minor = library_release(tmp_path / "first" / name)
        assert f"tensorrt{major}.{minor}-" in name
        wanted = newest_wanted(tmp_path / "first" / name)
        assert wanted["GLIBC"] <= (2, 17), "docs/cpp.md says from which systems on it loads"
        assert wanted["GLIBCXX"] <= (3, 4, 21), "as of GCC 5"


def newest_wanted(library: Path) -> dict[str, tuple[int, ...]]:
    """The newest version of each system library whose symbols a library asks for."""
    said = subprocess.run(["readelf", "--version-info", library], capture_output=True, text=True, check=True).stdout
    found: dict[str, tuple[int, ...]] = {}
    for name, version in re.findall(r"Name: ([A-Z]+)_([\d.]+)", said):
        found[name] = max(found.get(name, ()), tuple(map(int, version.split("."))))
    return found


def test_a_folder_without_headers_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    command = tmp_path / "command"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m lenet_trt.cli "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        [SCRIPT, tmp_path / "dist", tmp_path / "empty"],
        env={**os.environ, "LENET_TRT": str(command), "TARGETS": "x86_64"},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "NvInfer" in done.stderr
    assert list((tmp_path / "dist").iterdir()) == []
