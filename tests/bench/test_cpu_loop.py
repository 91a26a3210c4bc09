"""The CPU loop of the Conv ladder: compiled and run for real, right, and honest about its compiler."""

from __future__ import annotations

import re
import shutil
import stat
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lenet_trt.bench import cpu_loop
from lenet_trt.bench.cpu_loop import compiled_loop, find_compiler, row
from lenet_trt.cuda.timing import TimingPlan
from lenet_trt.kernel.examples import relative_error
from lenet_trt.kernel.registry import kernel, kernels
from lenet_trt.kernel.steps import CpuStep, cpu_step_of

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler here"
)
CASE: dict[str, int | str] = {"workload": "a ladder"}
STEPS = {name: step for name in kernels() if (step := cpu_step_of(name))}
KERNEL = kernel("conv5x5_bias")


def step_of(images: int, *fewer: int) -> CpuStep:
    """The step of the convolution, for less work than it is for."""
    step = STEPS[KERNEL.name]
    return replace(step, axes={**step.axes, "n": images}, fewer=fewer)


@needs_compiler
@pytest.mark.parametrize("name", sorted(STEPS))
@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
@pytest.mark.parametrize("images", [1, 7])
def test_it_computes_what_the_kernel_does(name: str, level: str, images: int) -> None:
    declared, step = kernel(name), STEPS[name]
    bound = declared.bind_axes({**step.axes, next(iter(step.axes)): images}, declared.types_named("fp32"))
    random = np.random.default_rng(images)
    inputs = [random.standard_normal(shape, dtype=np.float32) for shape in bound.input_shapes]
    room = np.full((images + 1, *bound.output_shapes[0][1:]), np.nan, np.float32)
    output = room[:images]
    with compiled_loop(declared, step, level) as loop:
        loop(inputs, output)
    wanted = declared.reference(*(array.astype(np.float64) for array in inputs), **bound.attributes)
    assert relative_error(output, np.asarray(wanted)) < 5e-7
    assert np.isnan(room[images:]).all(), "it writes beyond its end"


@pytest.mark.slow
@needs_compiler
def test_the_row_of_the_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine slows the thread down, and takes none of its own time.
    monkeypatch.setattr(cpu_loop, "time", SimpleNamespace(perf_counter_ns=time.thread_time_ns))
    found = row(KERNEL, step_of(400, 40), CASE, TimingPlan(rounds=4))
    assert (found.backend, found.why) == ("0: loops on one CPU thread", None)
    assert found.stats is not None
    assert found.stats.count == 4
    assert 0 < found.extra["error"] < 1e-6
    assert found.extra["command"].split()[1] == "-O2"
    assert any(character.isdigit() for character in found.extra["compiler"])
    # Ten times the images in some ten times the time: nothing is scaled, so it need not be exact.
    assert 3 < found.stats.median_us / found.extra["fewer_images_us"]["40"] < 30
    flops = 2 * 25 * 50 * 24 * 24 * 400
    assert found.extra["gflop_per_s"] == pytest.approx(flops / found.stats.median_us / 1e3, abs=6e-4)


def test_without_a_compiler_the_row_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    found = row(KERNEL, step_of(20), CASE, TimingPlan())
    assert found.stats is None
    assert found.why == "there is no C compiler (cc, gcc, clang): install one, or name it in $CC"
    monkeypatch.setenv("CC", "no-such-cc -m32")
    assert (
        row(KERNEL, step_of(20), CASE, TimingPlan()).why
        == "there is no C compiler (no-such-cc): install one, or name it in $CC"
    )


def compiler_that(folder: Path, does: str) -> Path:
    """A program that says a version and then does that."""
    path = folder / "odd-cc"
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "odd 1.0"; exit 0; }}\n{does}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_what_a_compiler_says_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", str(compiler_that(tmp_path, 'echo "error: no such target" >&2; exit 1')))
    assert find_compiler().version == "odd 1.0"
    assert row(KERNEL, step_of(20), CASE, TimingPlan()).why == "odd-cc refuses 00_cpu_loop.c: error: no such target"


@needs_compiler
def test_a_loop_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A real compiler that is given another source: every output but the last one is right."""
    real = find_compiler().command[0]
    source = (KERNEL.source_dir / "steps" / step_of(1).source).read_text().replace("image < n", "image < n - 1")
    (tmp_path / "other.c").write_text(source)
    does = f'exec {sys.executable} -c "import sys, subprocess; a = sys.argv[1:]; ' + (
        f"a = ['{tmp_path / 'other.c'}' if x.endswith('.c') else x for x in a]; "
        f'sys.exit(subprocess.call([\'{real}\', *a]))" "$@"'
    )
    monkeypatch.setenv("CC", str(compiler_that(tmp_path, does)))
    assert "the compiled loop computes something else" in str(row(KERNEL, step_of(20), CASE, TimingPlan()).why)


def test_the_source_is_carried_with_the_package() -> None:
    root = Path(__file__).parents[2]
    (line,) = re.findall(r'^"lenet_trt.plugins" = \[(.*)\]', (root / "pyproject.toml").read_text(), re.MULTILINE)
    patterns = re.findall(r'"(.*?)"', line)
    assert KERNEL.source_dir / "steps" / step_of(1).source in {
        path for each in patterns for path in (root / "plugins").glob(each)
    }
