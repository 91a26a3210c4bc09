"""What builds and runs the engines of the suites 10k, sweep, cold and latency: the program and library that are named.

A script stands in trtexec's place, and no package of TensorRT takes the GPU; the engines are run on a real one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lenet_trt.bench import cold
from lenet_trt.bench.__main__ import command
from lenet_trt.bench.backends import with_tensorrt
from lenet_trt.bench.backends.listed import backend
from lenet_trt.bench.backends.with_tensorrt import engines_here
from lenet_trt.bench.latency.answerers import ANSWERERS, Setting
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.tensorrt.capabilities import capabilities
from trtexec_script import GPU, script_for_trtexec, write_library


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SuiteOptions:
    """Options with a program and a library of their own, on a machine that has neither in its usual place."""
    program = script_for_trtexec(tmp_path, monkeypatch)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    monkeypatch.setattr(with_tensorrt, "first_gpu", lambda: GPU)
    monkeypatch.setattr(with_tensorrt, "flavor_by_library", lambda library: SimpleNamespace(library=library))
    return SuiteOptions(trtexec=str(program), library=tmp_path / "plugins.so")


def no_package() -> None:
    raise LenetTrtError("no package of TensorRT is here")


def test_the_named_program_and_library_are_taken(here: SuiteOptions, tmp_path: Path) -> None:
    found = engines_here(here, tmp_path)
    assert str(found.tool) == "trtexec 8.6.0"
    assert found.library == here.library
    assert found.by_library
    assert found.flavor.library == here.library  # type: ignore[attr-defined]


def test_a_named_program_is_taken_before_the_package(
    here: SuiteOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = SimpleNamespace(
        can=capabilities("tensorrt", "8.6"), supports=lambda gpu: True, product="TensorRT 8.6", name="tensorrt"
    )
    monkeypatch.setattr(with_tensorrt, "select", lambda: package)
    assert engines_here(here, tmp_path).by_library
    by_package = engines_here(replace(here, trtexec=None), tmp_path)
    assert not by_package.by_library
    assert by_package.library == here.library
    write_library(Path("liblenet_trt_plugins.so"), "8.6")
    assert engines_here(SuiteOptions(), tmp_path).library == Path("liblenet_trt_plugins.so").resolve()


def test_what_is_named_and_missing_is_an_error(
    here: SuiteOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(with_tensorrt, "select", no_package)
    with pytest.raises(UsageError, match="--trtexec-path"):
        engines_here(replace(here, trtexec=str(tmp_path / "none")), tmp_path)
    with pytest.raises(LenetTrtError, match=r"none\.so is not there.*--library"):
        engines_here(replace(here, library=tmp_path / "none.so"), tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(LenetTrtError, match="no package of TensorRT is here; trtexec with the plugin library would do"):
        engines_here(SuiteOptions(), tmp_path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SuiteOptions]:
    """The options with which engines were asked for."""
    seen: list[SuiteOptions] = []

    def ask(options: SuiteOptions, folder: Path) -> Any:
        seen.append(options)
        raise LenetTrtError("asked")

    monkeypatch.setattr(with_tensorrt, "engines_here", ask)
    return seen


def test_every_suite_asks_with_its_options(
    here: SuiteOptions, asked: list[SuiteOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TensorRT", "TensorRT, fp16", "TensorRT + plugins", "TensorRT + plugins, fp16"):
        with pytest.raises(LenetTrtError, match="asked"):
            backend(name, here).open()
    monkeypatch.setattr(cold, "first_gpu", lambda: GPU)
    for name in ("tensorrt", "tensorrt-plugins"):
        assert cold.start_obstacle(name, cold.Given(tmp_path, 1, None), here) == "asked"  # type: ignore[arg-type]
    engines = [each for each in ANSWERERS if each.name.startswith("TensorRT")]
    for answerer in engines:
        with pytest.raises(LenetTrtError, match="asked"):
            answerer.open(Setting(1, here, tmp_path))
    assert len(engines) == 4
    assert asked == [here] * 10


def test_the_options_reach_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    import argparse

    from lenet_trt.bench import __main__ as verb

    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    seen: list[SuiteOptions] = []

    def measure(name: str, options: SuiteOptions) -> None:
        seen.append(options)
        raise LenetTrtError("asked")

    monkeypatch.setattr(verb, "_measure", measure)
    for words in (["10k", "--trtexec-path", "t", "--library", "l.so", "--trtexec-flags", "memPoolSize=1"], ["10k"]):
        with pytest.raises(LenetTrtError, match="asked"):
            command(parser.parse_args(words))
    assert (seen[0].trtexec, seen[0].library, seen[0].trtexec_flags) == ("t", Path("l.so"), ("--memPoolSize=1",))
    assert (seen[1].trtexec, seen[1].library, seen[1].trtexec_flags) == (None, None, ())
