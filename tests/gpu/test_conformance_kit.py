"""The conformance kit finds what is wrong with a kernel: each test breaks a right one in one way."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lenet_trt.check.gpu_checks import run_check
from lenet_trt.cli import main
from lenet_trt.cuda.driver import current_context
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import ExampleCase, cases

KERNELS = Path(__file__).parents[1] / "kernels"
NAME = "matmul_act_rowsum"
GUARD = "if (threadIdx.x == 0) {"

Broken = Callable[[str, str], ExampleCase]


@pytest.fixture
def broken(tmp_path: Path) -> Broken:
    """Replace a text of the test kernel's source; return a call of its plain variant with five rows."""

    def make(old: str, new: str) -> ExampleCase:
        folder = Path(shutil.copytree(KERNELS / NAME, tmp_path / NAME))
        source = folder / "kernel.cu"
        text = source.read_text()
        assert old in text
        source.write_text(text.replace(old, new))
        kernel = registry.load_kernel(folder)
        found = cases(kernel, current_context().sm)
        return next(c for c in found if c.variant.name == "plain" and c.bound.axes["n"] == 5)

    return make


def test_the_kernel_as_it_is_passes(broken: Broken) -> None:
    case = broken("one_row", "one_row")
    for check in ("values", "random", "special", "range", "graph", "misaligned", "empty"):
        assert run_check(check, case) is None


@pytest.mark.parametrize(
    ("check", "old", "new", "found"),
    [
        ("values", "from_float<T>(activate(sum))", "from_float<T>(activate(sum * 1.001f))", "relative error"),
        ("values", "if (threadIdx.x == 0) {", "if (threadIdx.x == 0 && row > 0) {", "relative error"),
        (
            "values",
            "s[row] = from_float<T>(sum);",
            "s[row] = s[row + 1] = from_float<T>(sum);",
            "outside s was written",
        ),
        ("values", "y[row * kOut + k] =", "y[row * kOut + k - 1] = y[row * kOut + k] =", "outside y was written"),
        (
            "values",
            "float sum = 0.0f;\n    for (int c",
            "float sum = 0.0f * to_float(x[-1]);\n    for (int c",
            "relative",
        ),
        ("values", "s[row] = ", "const_cast<T*>(x)[row] = s[row] = ", "the input x was written"),
        ("random", "s[row] = from_float<T>(sum)", "if (gridDim.x == 5) s[row] = from_float<T>(sum)", "with plain"),
        ("special", "sum += to_float(x[row * kIn + c])", "sum += fmaxf(to_float(x[row * kIn + c]), -1e4f)", "with nan"),
        ("range", "sum += to_float(x[row * kIn + c])", "sum += __half2float(__float2half(x[row * kIn + c]))", "2**40"),
    ],
)
def test_a_broken_kernel_is_found(broken: Broken, check: str, old: str, new: str, found: str) -> None:
    problem = run_check(check, broken(old, new))
    assert problem is not None
    assert found in problem


def test_a_launch_that_cannot_be_captured_is_found(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    from lenet_trt.cuda.driver import Buffer
    from lenet_trt.cuda.launch import Launcher

    launch = Launcher.__call__

    def allocating(self: Launcher, pointers: list[int], stream: int) -> None:
        Buffer(16)
        launch(self, pointers, stream)

    case = broken("one_row", "one_row")
    monkeypatch.setattr(Launcher, "__call__", allocating)
    problem = run_check("graph", case)
    assert problem is not None
    assert "CAPTURE" in problem


def test_the_command_fails_and_says_how_to_see_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(KERNELS / NAME, tmp_path / NAME))
    declaration = folder / "__init__.py"
    declaration.write_text(declaration.read_text().replace("x.sum(axis=1)", "x.sum(axis=1) + 1"))
    monkeypatch.setenv("LENET_TRT_PLUGINS", str(tmp_path))
    assert main(["check", NAME, "--only", "values"]) == 1
    printed = capsys.readouterr().out
    assert "relative error" in printed
    assert f"again: lenet-trt check {NAME} --only values --case " in printed


def test_memcheck_passes_on_a_right_kernel(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if not (shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")):
        pytest.skip("compute-sanitizer is not here; it comes with the CUDA toolkit")
    monkeypatch.setenv("LENET_TRT_PLUGINS", str(KERNELS))
    assert main(["check", NAME, "--sanitize", "memcheck", "--case", "n=5"]) == 0
    assert "nothing found" in capsys.readouterr().out


def test_memcheck_finds_a_write_out_of_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")):
        pytest.skip("compute-sanitizer is not here; it comes with the CUDA toolkit")
    folder = Path(shutil.copytree(KERNELS / NAME, tmp_path / NAME))
    source = folder / "kernel.cu"
    source.write_text(source.read_text().replace("s[row] = ", "s[row + 100000000] = s[row] = "))
    monkeypatch.setenv("LENET_TRT_PLUGINS", str(tmp_path))
    assert main(["check", NAME, "--sanitize", "memcheck", "--case", "plain fp32 n=5"]) == 1
    assert "Invalid __global__ write" in capsys.readouterr().out
