"""A kernel is one folder: the tutorial's, put into plugins/, is listed and tested like the rest, and breaks nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from documents import ROOT, tutorial

# Not the tutorial's own name, which its test gives to a folder elsewhere.
NAME = "hard_swish_too"
PARTS = ("lenet_trt", "export", "plugins", "scripts", "tests", "docs", "README.md", "CHANGELOG.md", "pyproject.toml")
# Tests that look at all kernels together; those that take one kernel after the other are chosen by its name.
TOGETHER = (
    "tests/docs/test_results.py",
    "tests/kernel/test_registry.py",
    "tests/plugins/test_plugins.py",
)
# Runs when Python starts: an editable install would take these two packages from the checkout that it was made from.
SITE = """
import importlib.util, pathlib, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        folder = pathlib.Path(__file__).parent / name.rpartition(".")[2]
        if name in ("lenet_trt.export", "lenet_trt.plugins"):
            start, parts = folder / "__init__.py", [str(folder)]
            return importlib.util.spec_from_file_location(name, start, submodule_search_locations=parts)
sys.meta_path.insert(0, Finder())
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout whose plugins/ has one folder more."""
    copy = tmp_path_factory.mktemp("copy") / "checkout"
    copy.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, copy / part)
    (copy / "sitecustomize.py").write_text(SITE)
    folder = copy / "plugins" / NAME
    folder.mkdir()
    for step in tutorial():
        if step.path.startswith("my-plugins/"):
            (folder / Path(step.path).name).write_text(step.text.replace("hard_swish", NAME))
    return copy


def run(checkout: Path, *arguments: str) -> str:
    """Run Python in the copy and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_in_every_listing(checkout: Path) -> None:
    (entry,) = json.loads(run(checkout, "-m", "lenet_trt.cli", "plugins", NAME, "--json"))
    assert Path(entry["folder"]) == checkout / "plugins" / NAME
    assert entry["measured"] == []
    assert NAME in run(checkout, "-m", "lenet_trt.cli", "plugins")
    run(checkout, "-m", "lenet_trt.cli", "bench", "kernels", "-o", "records")
    rows = json.loads((checkout / "records" / "kernels.json").read_text())["rows"]
    assert NAME in {row["case"]["workload"] for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [("-k", NAME, "tests"), TOGETHER], ids=["its own", "of all kernels"])
def test_the_tests_are_green(checkout: Path, chosen: tuple[str, ...]) -> None:
    printed = run(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen)
    assert " passed" in printed
