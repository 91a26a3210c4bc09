"""Programs that several tests of the plugin library share, compiled once."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from lenet_trt.cli import main
from library_probes import CORE, Core, compiled, headers_of, missing_compiler


@pytest.fixture(scope="session")
def core_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library without TensorRT and CUDA."""
    if missing_compiler():
        pytest.skip(str(missing_compiler()))
    return compiled("core_probe", tmp_path_factory.mktemp("core") / "core_probe", "-O0", sources=CORE)


@pytest.fixture(scope="session")
def core(core_program: Path) -> Iterator[Core]:
    """The same, running."""
    program = Core(core_program)
    yield program
    program.close()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The library for a version of TensorRT, compiled by the verb without a warning; skips where that cannot be."""
    made: dict[str, Path] = {}

    def for_version(version: str) -> Path:
        headers = headers_of(version)
        if missing_compiler() or headers is None:
            pytest.skip(missing_compiler() or f"TensorRT's headers of {version} are not here")
        if version not in made:
            output = tmp_path_factory.mktemp("library") / "new" / f"liblenet_trt_plugins-{version}.so"
            command = ["library", "-o", str(output), "--headers", str(headers.folder.parent), "--json"]
            flags = {"CXXFLAGS": "-O0 -Wall -Wextra -Werror"}
            with mock.patch.dict(os.environ, flags), contextlib.redirect_stdout(io.StringIO()) as printed:
                assert main(command) == 0
            assert json.loads(printed.getvalue()) == {"library": str(output), "tensorrt": headers.version_text}
            made[version] = output
        return made[version]

    return for_version
