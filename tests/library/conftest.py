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
from lenet_trt.tensorrt.library.compile import Headers
from library_probes import CORE, Core, compiled, headers_of, missing_compiler
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


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The library for a version of TensorRT, compiled by the verb without a warning; skips where that cannot be."""

    def make(output: Path, headers: Headers) -> None:
        command = ["library", "-o", str(output), "--headers", str(headers.folder.parent), "--json"]
        flags = {"CXXFLAGS": "-O0 -Wall -Wextra -Werror"}
        with mock.patch.dict(os.environ, flags), contextlib.redirect_stdout(io.StringIO()) as printed:
            assert main(command) == 0
        assert json.loads(printed.getvalue()) == {"library": str(output), "tensorrt": headers.version_text}

    def for_version(version: str) -> Path:
        headers = headers_of(version)
        if missing_compiler() or headers is None:
            pytest.skip(missing_compiler() or f"TensorRT's headers of {version} are not here")
        name = f"library/liblenet_trt_plugins-{version}.so"
        return made_once(tmp_path_factory, name, lambda output: make(output, headers))

    return for_version
