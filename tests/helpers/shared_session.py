"""What takes long to make is made once in a test session, for all workers of pytest-xdist."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lenet_trt.files import exclusive

KEPT = "LENET_TRT_TESTS_KEPT"


def session_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the session, in which that of each worker lies.

    With ``$LENET_TRT_TESTS_KEPT`` it is that folder, which the sessions of one checkout share, as in .ci/run.
    """
    if KEPT in os.environ:
        return Path(os.environ[KEPT])
    own = factory.getbasetemp()
    return own.parent if own.name.startswith("popen-") else own


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
