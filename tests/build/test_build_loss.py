"""What a build says of results that are NaN or infinite, or far from the model's, and that JSON has no such numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from lenet_trt.build.evaluate import Evaluation, evaluate
from lenet_trt.build.loss import refuse_lost_numbers, warn_of_difference
from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError, LenetTrtWarning
from lenet_trt.tensorrt.flavors import installed
from lenet_trt.tensorrt.summary import accuracy_text

builds = pytest.mark.skipif(not installed()["rtx"], reason="TensorRT-RTX is not installed")


def network(nodes: str, **weights: np.ndarray) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) {{ {nodes} }}'
    model = parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def strict(text: str) -> Any:
    """Read JSON, which has neither NaN nor Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.fixture
def overflowing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of a network that is finite in float32, and all NaN in fp16: infinity minus infinity in its Softmax."""
    monkeypatch.chdir(tmp_path)
    large = np.full((4, 4), 2e4, np.float32)
    onnx.save(network("s = Mul(x, x)  p = MatMul(s, w)  y = Softmax(p)", w=large), "large.onnx")
    return "large.onnx"


@builds
def test_numbers_that_fp16_lost_are_an_error(overflowing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", overflowing, "--fp16", "-o", "m.engine"]) == 1
    said = capsys.readouterr().err
    assert "fp16 gives NaN or infinity where the model given has numbers (random inputs); nothing was written" in said
    assert "fp16 has numbers from 6e-8 to 65,504 alone: take --bf16" in said
    assert not list(Path().glob("m.*"))
    assert main(["build", overflowing, "--bf16", "-o", "m.engine"]) == 0


@builds
def test_numbers_that_fp16_lost_can_be_allowed(overflowing: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["build", overflowing, "--fp16", "-o", "m.engine"]
    with pytest.warns(LenetTrtWarning, match="outputs are NaN or infinite where those of the model given are numbers"):
        assert main([*words, "--max-drop", "100", "--json"]) == 0
    for found in (strict(capsys.readouterr().out), strict(Path("m.json").read_text())):
        assert found["evaluation"]["difference"] is None
        assert found["evaluation"]["infinite"] == "built"
    assert main(["inspect", "m.engine"]) == 0
    assert "outputs are NaN or infinite" in capsys.readouterr().out
    assert main(words) == 1, "what is on disk was allowed by another command"


@builds
def test_a_large_difference_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    far = np.array([3000], np.float32)
    onnx.save(network("a = Add(x, far)  y = Sub(a, far)", far=far), "cancels.onnx")
    with pytest.warns(LenetTrtWarning, match=r"outputs differ from the model given by .* \(--images, --labels\)"):
        assert main(["build", "cancels.onnx", "--fp16", "-o", "m.engine"]) == 0
    assert strict(Path("m.json").read_text())["evaluation"]["difference"] > 5e-2


@pytest.mark.parametrize("difference", [None, 0.0, 1e-2])
def test_small_differences_are_no_warning(difference: float | None, recwarn: pytest.WarningsRecorder) -> None:
    warn_of_difference(Evaluation(difference=difference))
    assert not recwarn.list


def test_a_model_that_gives_nan_itself_lost_nothing() -> None:
    found = evaluate(network("a = Abs(x)  y = Log(a)"), network("y = Log(x)"), {"x": (8, 4)})
    assert (found.difference, found.infinite) == (None, "given")
    refuse_lost_numbers(found, 0.2, "fp16", "")
    with pytest.warns(LenetTrtWarning, match="where that has NaN or infinity"):
        warn_of_difference(found)
    assert evaluate(network("y = Log(x)"), network("a = Identity(x)  y = Log(a)"), {"x": (8, 4)}).difference == 0


def test_the_loss_of_labelled_images_is_told_too() -> None:
    found = Evaluation.of(np.inf, lost=True, correct=100, correct_before=900, total=1000)
    with pytest.raises(LenetTrtError, match=r"MNIST test images\), and costs 80\.00 points of accuracy"):
        refuse_lost_numbers(found, 85.0, "fp16", "")
    text = accuracy_text(found.as_dict())
    assert "10.00% of 1,000 MNIST test images (90.00% before conversion; outputs are NaN or infinite" in text
