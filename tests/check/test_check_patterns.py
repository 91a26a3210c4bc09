"""What ``check`` says of a pattern that ONNX Runtime does not run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lenet_trt.cli import main
from lenet_trt.kernel import registry

KERNELS = Path(__file__).parents[1] / "kernels"


def test_nodes_that_onnx_runtime_refuses_are_a_failure_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LENET_TRT_PLUGINS", str(tmp_path))
    registry.load_kernel.cache_clear()
    declaration = shutil.copytree(KERNELS / "leaky_relu", tmp_path / "leaky_relu") / "__init__.py"
    text = declaration.read_text()
    assert "op.LeakyRelu(x, alpha=alpha)" in text
    # Valid ONNX; ONNX Runtime wants an odd size.
    declaration.write_text(text.replace("op.LeakyRelu(x, alpha=alpha)", "op.LRN(x, size=2, alpha=alpha)"))
    assert main(["check", "leaky_relu", "--only", "patterns"]) == 1
    printed = capfd.readouterr()
    assert re.search(r"ONNX Runtime does not run the pattern's nodes \(.*size_ % 2 == 1.*\): leave", printed.out)
    assert "Traceback" not in printed.err
