"""Programs that several tests of the plugin library share, compiled once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from library_probes import CORE, Core, compiled, missing_compiler
from shared_session import made_once


@pytest.fixture(scope="session")
def core_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library without TensorRT and CUDA."""
    if missing_compiler():
        pytest.skip(str(missing_compiler()))
    return made_once(tmp_path_factory, "core_probe", lambda path: compiled("core_probe", path, "-O0", sources=CORE))


@pytest.fixture(scope="session")
def core(core_program: Path) -> Iterator[Core]:
    """The same, running."""
    program = Core(core_program)
    yield program
    program.close()
