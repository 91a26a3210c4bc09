"""What ``check`` says of a pattern that ONNX Runtime does not run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lenet_trt.cli import main
from lenet_trt.kernel import registry

KERNELS = Path(__file__).parents[1] / "kernels"


def declare_with(nodes: str, folder: Path) -> None:
    """Declare leaky_relu with a pattern of other nodes."""
    declaration = shutil.copytree(KERNELS / "leaky_relu", folder / "leaky_relu") / "__init__.py"
    text = declaration.read_text()
    assert "op.LeakyRelu(x, alpha=alpha)" in text
    declaration.write_text(text.replace("op.LeakyRelu(x, alpha=alpha)", nodes))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LENET_TRT_PLUGINS", str(tmp_path))
    registry.load_kernel.cache_clear()
    return tmp_path


def test_nodes_that_onnx_runtime_refuses_are_a_failure_with_its_words(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    declare_with("op.LRN(x, size=2, alpha=alpha)", folder)  # valid ONNX; ONNX Runtime wants an odd size
    assert main(["check", "leaky_relu", "--only", "patterns"]) == 1
    printed = capfd.readouterr()
    assert re.search(r"ONNX Runtime does not run the pattern's nodes \(.*size_ % 2 == 1.*\): leave", printed.out)
    assert "Traceback" not in printed.err


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ("op.Sqrt(op.LeakyRelu(x, alpha=alpha))", "y differs from the reference in NaN or infinity"),
        ("op.Exp(op.LeakyRelu(x, alpha=alpha))", r"y differs from the reference by [\d.]+ of its norm"),
    ],
)
def test_nodes_that_compute_something_else_are_a_failure(
    nodes: str, told: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    declare_with(nodes, folder)
    assert main(["check", "leaky_relu", "--only", "patterns"]) == 1
    assert re.search(told, capfd.readouterr().out)
