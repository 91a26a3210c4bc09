"""The calls that a model makes of our kernels, and the ladders around them."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.tune.ladders import ladders
from lenet_trt.tune.model_calls import model_calls
from sequences import sequence_model


def test_the_calls_of_a_model_are_found_fused_or_not(lenet5: Path, tmp_path: Path) -> None:
    plain = model_calls(lenet5, (1, 48))
    fused = tmp_path / "fused.onnx"
    onnx.save(fuse(onnx.load(lenet5)).model, fused)
    assert {name: [dict(b.axes) for b in calls] for name, calls in plain.items()} == {"lenet5": [{"n": 1}, {"n": 48}]}
    again = model_calls(fused, (1, 48))
    assert [bound.axes for bound in again["lenet5"]] == [bound.axes for bound in plain["lenet5"]]


def test_each_layer_is_a_ladder_with_the_sizes_of_the_model(lenet5: Path, tmp_path: Path) -> None:
    fused = tmp_path / "layers.onnx"
    onnx.save(fuse(onnx.load(lenet5), ["conv5x5_bias_relu_pool2", "dense_bias_relu"]).model, fused)
    calls = model_calls(fused, (48, 100_000))
    assert {name: len(found) for name, found in calls.items()} == {"conv5x5_bias_relu_pool2": 4, "dense_bias_relu": 6}
    made = ladders(registry.kernel("dense_bias_relu"), 90, calls["dense_bias_relu"])
    assert sorted((ladder.fixed["in"], ladder.fixed["out"]) for ladder in made) == [(84, 10), (120, 84), (256, 120)]
    for ladder in made:
        sizes = [bound.axes["n"] for bound in ladder.rungs]
        assert {1, 4, 48, 64, 100_000} <= set(sizes)
        assert sizes == sorted(sizes)
        assert {bound.attributes["relu"] for bound in ladder.rungs} == {0 if ladder.fixed["out"] == 10 else 1}


def test_a_model_with_an_open_sequence_gets_a_size_for_it(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(fuse(sequence_model(), "layer_norm,softmax").model, path)
    calls = model_calls(path, (1, 3), {"sequence": 5})
    assert {name: [bound.axes["rows"] for bound in found] for name, found in calls.items()} == {
        "layer_norm": [5, 15],
        "softmax": [5, 15],
    }
    fixed = model_calls(path, None, {"sequence": 5, "batch": 2})
    assert [bound.axes["rows"] for bound in fixed["softmax"]] == [10]
    assert [bound.axes["rows"] for bound in model_calls(path, None, {"sequence": 5})["softmax"]] == [5, 160]
    with pytest.raises(UsageError, match="--batch 1 3: --sizes batch=2,sequence=5 fixes the first axis already"):
        model_calls(path, (1, 3), {"batch": 2, "sequence": 5})


def test_a_model_without_our_kernels_is_refused(tmp_path: Path) -> None:
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Sin", ["x"], ["y"])], "one", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "sin.onnx")
    with pytest.raises(LenetTrtError, match="has no plugin node, and no kernel fits"):
        model_calls(tmp_path / "sin.onnx", (1,))


def test_options_that_do_not_go_together_are_refused(lenet5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--batch", "3"]) == 2
    assert "add --model MODEL" in capsys.readouterr().err
    assert main(["tune", "--sizes", "n=3"]) == 2
    assert "--sizes gives sizes to a model: add --model MODEL" in capsys.readouterr().err
    assert main(["tune", "--model", str(lenet5), "--list"]) == 2
    assert "leave --model out" in capsys.readouterr().err
