"""The verb ``check`` on a machine without a GPU: what it finds, says and returns."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lenet_trt.cli import main
from lenet_trt.cuda.gpus import gpus
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import (
    bounds,
    cases,
    expected_outputs,
    kernel_inputs,
    plain_inputs,
    relative_error,
    resized,
)

KERNELS = Path(__file__).parents[1] / "kernels"
NAME = "matmul_act_rowsum"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test kernel in a folder that a test may change."""
    monkeypatch.setenv("LENET_TRT_PLUGINS", str(tmp_path))
    registry.load_kernel.cache_clear()
    return Path(shutil.copytree(KERNELS / NAME, tmp_path / NAME))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def narrow(folder: Path) -> None:
    """Leave fp32 alone: fewer modules to compile."""
    for types in (
        'Types("fp16", {"T": "float16"}, tolerance=1e-3),',
        'Types("bf16", {"T": "bfloat16"}, tolerance=1e-2),',
    ):
        edit(folder / "__init__.py", types, "")
    edit(folder / "__init__.py", '("fp32", "fp16")', '("fp32",)')


@pytest.mark.parametrize("types", ["fp32", pytest.param("all", marks=pytest.mark.slow)])
def test_a_right_kernel_passes(folder: Path, capsys: pytest.CaptureFixture[str], types: str) -> None:
    if types == "fp32":
        narrow(folder)
    assert main(["check", NAME, "--targets", "sm_90,compute_75"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"examples +passed", printed)
    assert re.search(r"serialize +passed +3 of 3 sets of attributes", printed)
    assert re.search(r"compile +passed +\d+ of \d+ modules for sm_90, compute_75", printed)
    if not gpus().devices:
        assert re.search(r"values +skipped +a CUDA GPU is needed, and there is no NVIDIA driver", printed)


def test_a_tensorrt_without_plugins_in_python_skips_what_is_about_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flavor = SimpleNamespace(can=SimpleNamespace(python_plugins=False), product="TensorRT 8.6.0")
    monkeypatch.setattr("lenet_trt.tensorrt.flavors.select", lambda: flavor)
    assert main(["check", "maxpool2", "--only", "serialize"]) == 0
    assert re.search(r"serialize +skipped +TensorRT 8.6.0 has no plugins in Python", capsys.readouterr().out)


def test_a_kernel_that_does_not_compile_fails_with_the_compilers_words(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(folder / "kernel.cu", "__syncthreads();", "__syncthreads()")
    assert main(["check", NAME, "--only", "compile", "--targets", "sm_80"]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"compile +failed", printed)
    assert "expected a" in printed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(64, 1, 1), extras=(n, ROWS)", "(96, 1, 1), extras=(n, ROWS)"),
        ("shared_bytes=4 * c * k", "shared_bytes=4 * c * k + 16"),
    ],
)
def test_a_launch_that_the_source_does_not_have_fails(
    folder: Path, capsys: pytest.CaptureFixture[str], old: str, new: str
) -> None:
    edit(folder / "__init__.py", old, new)
    narrow(folder)
    assert main(["check", NAME, "--only", "compile", "--targets", "sm_80"]) == 1
    printed = capsys.readouterr().out
    assert f"{NAME} shared does not compile" in printed
    assert f"{NAME}_shared is declared with " in printed
    assert "plain does not" not in printed


def test_examples_must_reach_every_variant_and_have_odd_sizes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(folder / "__init__.py", '{"n": 5, "c": 3, "k": 130}, {"n": 64, "c": 150, "k": 150}', "")
    assert main(["check", NAME, "--only", "examples"]) == 1
    printed = capsys.readouterr().out
    assert "no example has an odd n" in printed
    assert "shared fp16: no example fits it" in printed


def test_json_has_every_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "maxpool2", "--only", "examples,compile", "--targets", "sm_90", "--json"]) == 0
    outcomes = json.loads(capsys.readouterr().out)
    assert [(o["kernel"], o["check"], o["status"]) for o in outcomes] == [
        ("maxpool2", "examples", "passed"),
        ("maxpool2", "compile", "passed"),
    ]


@pytest.mark.parametrize("progress", [False, True])
def test_progress_of_compiling_is_told_on_standard_error_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], progress: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: progress)
    assert main(["check", "maxpool2", "--only", "compile", "--targets", "sm_90"]) == 0
    said = capsys.readouterr()
    assert ("Compiling kernels" in said.err) == progress
    assert "Compiling kernels" not in said.out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["sofmax"], 2, "there is no kernel 'sofmax': did you mean softmax?"),
        (["maxpool2", "--only", "speed"], 2, "--only takes examples, patterns, compile, serialize, values"),
        (["maxpool2", "--sanitize", "leak"], 2, "--sanitize takes memcheck, racecheck"),
        (["maxpool2", "--targets", "sm_70"], 1, "no target 'sm_70'"),
    ],
)
def test_wrong_usage(arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(registry.kernels()))
def test_references_and_packings_fit_the_declarations(name: str) -> None:
    kernel = registry.kernel(name)
    names = [axis.name for axis in kernel.axes]
    examples = [{name: example[name] for name in names} for example in kernel.examples]
    smallest = min(examples, key=lambda example: int(np.prod(list(example.values()))))
    for bound in bounds(kernel):
        if bound.axes == smallest:
            plain = plain_inputs(bound, np.random.default_rng(0))
            assert [a.shape for a in kernel_inputs(bound, plain)] == list(bound.input_shapes)
            for output in expected_outputs(bound, plain):
                assert output.dtype == np.float64
                assert np.isfinite(output).all()


@pytest.mark.parametrize("name", sorted(registry.kernels()))
def test_every_declared_type_and_variant_has_a_case(name: str) -> None:
    kernel = registry.kernel(name)
    seen = {(case.variant.name, case.bound.types.name) for case in cases(kernel)}
    wanted = {(v.name, t) for v in kernel.variants for t in v.types or [types.name for types in kernel.types]}
    assert seen == wanted
    assert {case.variant.name for case in cases(kernel, sm=75)} <= {v.name for v in kernel.variants if v.min_sm == 75}


@pytest.mark.parametrize("name", sorted(registry.kernels()))
def test_random_sizes_keep_the_variant_and_what_is_compiled_in(name: str) -> None:
    rng = np.random.default_rng(0)
    drawn = [(case, resized(case, rng)) for case in cases(registry.kernel(name))]
    sizes = {tuple(other.bound.axes.values()) for _, other in drawn if other is not None}
    assert len(sizes) > len(registry.kernel(name).examples)
    for case, other in drawn:
        if other is not None:
            assert other.variant is case.variant
            assert other.bound.specialized == case.bound.specialized
            assert other.bound.fits(other.variant)


def test_a_packing_that_gives_other_arrays_is_refused(folder: Path) -> None:
    edit(folder / "__init__.py", 'np.ascontiguousarray(weights["w"].T)', 'weights["w"]')
    bound = next(bounds(registry.kernel(NAME)))
    with pytest.raises(LenetTrtError, match=r"pack gives \[7, 5\] float32 for wt, not \[5, 7\] float32"):
        kernel_inputs(bound, plain_inputs(bound, np.random.default_rng(0)))


def test_relative_error() -> None:
    wanted = np.array([3.0, 4.0])
    assert relative_error(np.array([3.0, 4.0], np.float32), wanted) == 0.0
    assert relative_error(np.array([3.0, 4.5], np.float32), wanted) == pytest.approx(0.1)
    assert relative_error(np.zeros(2, np.float32), np.zeros(2)) == 0.0
    assert relative_error(np.array([0.0, 1.0], np.float32), np.zeros(2)) == np.inf


@pytest.mark.parametrize(
    ("got", "wanted", "same"),
    [
        ([np.nan, 1.0], [np.nan, 1.0], True),
        ([1.0, 1.0], [np.nan, 1.0], False),
        ([np.nan, 1.0], [1.0, 1.0], False),
        ([np.inf, 1.0], [np.inf, 1.0], True),
        ([-np.inf, 1.0], [np.inf, 1.0], False),
        ([np.inf, 1.0], [1e6, 1.0], True),  # beyond half precision
    ],
)
def test_nan_and_infinity_must_be_where_they_are_wanted(got: list[float], wanted: list[float], same: bool) -> None:
    error = relative_error(np.array(got, np.float16), np.array(wanted))
    assert (error == 0.0) is same
