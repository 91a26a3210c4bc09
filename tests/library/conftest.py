"""Programs that several tests of the plugin library share, compiled once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from library_probes import CORE, Core, compiled, missing_compiler


@pytest.fixture(scope="session")
def core_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if missing_compiler():
        pytest.skip(str(missing_compiler()))
    return compiled("core_probe", tmp_path_factory.mktemp("core") / "core_probe", "-O1", sources=CORE)


@pytest.fixture(scope="session")
def core(core_program: Path) -> Iterator[Core]:
    program = Core(core_program)
    yield program
    program.close()
