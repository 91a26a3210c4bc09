"""What takes long to make is made once in a test session, for all workers of pytest-xdist."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lenet_trt.files import exclusive

KEPT = "LENET_TRT_TESTS_KEPT"
_CHECKOUT = f"{Path(__file__).parents[2]}/"  # tests run others in a copy of it


def session_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the session, in which that of each worker lies.

    With ``$LENET_TRT_TESTS_KEPT`` it is that folder, which the sessions of one checkout share, as in .ci/run.
    """
    if KEPT in os.environ:
        return Path(os.environ[KEPT])
    own = factory.getbasetemp()
    return own.parent if own.name.startswith("popen-") else own


def passed_before() -> set[str]:
    """Return the tests of this checkout that passed in sessions with the same ``$LENET_TRT_TESTS_KEPT``."""
    if KEPT not in os.environ or not _passed().exists():
        return set()
    lines = _passed().read_text(encoding="utf-8").splitlines()
    return {line.removeprefix(_CHECKOUT) for line in lines if line.startswith(_CHECKOUT)}


def note_passed(test: str) -> None:
    """Let later sessions with the same ``$LENET_TRT_TESTS_KEPT`` know that a test passed."""
    if KEPT in os.environ:
        with _passed().open("a", encoding="utf-8") as file:
            file.write(f"{_CHECKOUT}{test}\n")


def _passed() -> Path:
    return Path(os.environ[KEPT]) / "passed"


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Let the first worker that asks make the file of that name; the others wait until it is whole."""
    path = session_folder(factory) / "once" / name
    with exclusive(path):
        if not path.exists():
            temporary = path.parent / "unfinished" / path.name
            temporary.parent.mkdir(exist_ok=True)
            make(temporary)
            temporary.replace(path)
    return path
