"""What a declaration's own functions do wrong is named: the reference, pack and unpack, a pattern and its views."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lenet_trt.check.__main__ import Outcome, check_kernel
from lenet_trt.cli import main
from lenet_trt.kernel import Kernel, Packing, registry
from lenet_trt.kernel.pattern import Pattern

KERNELS = Path(__file__).parents[1] / "kernels"
NAME = "matmul_act_rowsum"


def fails(*arguments: Any, **named: Any) -> Any:
    raise ValueError("operands could not be broadcast")


def outcome(kernel: Kernel, check: str) -> Outcome:
    (found,) = check_kernel(kernel, [check])
    assert found.status == "failed"
    return found


def test_a_reference_that_raises_is_a_failure_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LENET_TRT_PLUGINS", str(tmp_path))
    registry.load_kernel.cache_clear()
    declaration = Path(shutil.copytree(KERNELS / NAME, tmp_path / NAME)) / "__init__.py"
    declaration.write_text(declaration.read_text().replace("y = x @ w\n", "y = x @ w.T\n"))
    assert main(["check", NAME, "--only", "examples"]) == 1
    printed = capsys.readouterr()
    assert f"{NAME}: the reference fails (ValueError: matmul" in printed.out
    assert f"{NAME}/__init__.py, line " in printed.out
    assert "Traceback" not in printed.out + printed.err


@pytest.mark.parametrize("check", ["examples", "patterns"])
def test_a_reference_that_raises_fails_both_checks_on_a_cpu(check: str) -> None:
    kernel = replace(registry.kernel("maxpool2"), reference=fails)
    found = outcome(kernel, check)
    assert any("maxpool2: the reference fails (ValueError: operands" in why for _, why in found.failures)


def test_a_reference_of_another_shape_fails() -> None:
    kernel = replace(registry.kernel("maxpool2"), reference=lambda x: x)
    assert any("the reference gives" in why for _, why in outcome(kernel, "examples").failures)


@pytest.mark.parametrize(
    "graph", [lambda op, x: None, lambda op, x: np.int64(3), lambda op, x: (op.Relu(x), 3)], ids=["none", "int", "both"]
)
def test_a_pattern_that_gives_no_value_of_the_graph_fails(graph: Any) -> None:
    found = outcome(replace(registry.kernel("maxpool2"), patterns=(Pattern(graph),)), "patterns")
    assert any("maxpool2: the pattern gives" in why for _, why in found.failures)


def test_a_pattern_or_its_views_that_raise_are_failures() -> None:
    pool = registry.kernel("maxpool2")
    pattern = outcome(replace(pool, patterns=(Pattern(fails_in_graph),)), "patterns")
    assert any("maxpool2: the pattern fails (ValueError" in why for _, why in pattern.failures)
    (good,) = pool.patterns
    views = outcome(replace(pool, patterns=(replace(good, views=fails),)), "patterns")
    assert any("maxpool2: views fails (ValueError" in why for _, why in views.failures)


def fails_in_graph(op: Any, x: Any) -> Any:
    raise ValueError("no such operator")


@pytest.mark.parametrize("function", ["pack", "unpack"])
def test_a_packing_that_raises_is_a_failure(function: str) -> None:
    dense = registry.kernel("dense_bias_relu")
    weights = tuple(tensor for tensor in dense.inputs if tensor.weight)
    kept = {"pack": lambda plain: plain, "unpack": lambda op, plain, shapes: plain}
    packing = Packing(plain=weights, **{**kept, function: fails})
    found = outcome(replace(dense, packing=packing), "patterns")
    assert any(f"dense_bias_relu: {function} fails (ValueError" in why for _, why in found.failures)
