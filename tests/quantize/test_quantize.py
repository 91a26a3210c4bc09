"""Quantizing: the same result each time, layers that lose too much left as they are, and a record of all of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError
from lenet_trt.images.form import ImageOptions
from lenet_trt.onnx_model.ports import ports
from lenet_trt.onnx_model.precision import kinds_of
from lenet_trt.onnx_model.profiles import inputs_of
from lenet_trt.quantize.data import calibration_data
from lenet_trt.quantize.insert import layers_of, prepared, quantized_layers
from lenet_trt.quantize.record import read_record, record_path
from lenet_trt.quantize.request import QuantizeRequest
from lenet_trt.quantize.search import Judge
from lenet_trt.quantize.stage import Quantized, quantize
from lenet_trt.runtimes.ort import runner


def network(spoiled: float = 1.0) -> onnx.ModelProto:
    """A classifier of grey 8x8 images: a convolution, ReLU, pooling, two dense layers.

    ``spoiled``: one weight of the last layer is that many times the others; it meets an input that is always 0, so that
    a scale for the whole tensor would lose the others.
    """
    random = np.random.default_rng(1)
    tensors = {
        "conv.w": random.normal(size=(4, 1, 3, 3)).astype(np.float32) / 3,
        "conv.b": random.normal(size=4).astype(np.float32) / 9,
        "dense1.w": random.normal(size=(36, 16)).astype(np.float32) / 6,
        "dense2.w": random.normal(size=(16, 5)).astype(np.float32) / 4,
    }
    tensors["dense1.w"][:, 7] = -1  # after ReLU always 0
    tensors["dense2.w"][7] = spoiled
    nodes = [
        helper.make_node("Conv", ["x", "conv.w", "conv.b"], ["c"], name="conv", kernel_shape=[3, 3]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "dense1.w"], ["d"]),  # exporters leave names out
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("MatMul", ["e", "dense2.w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def images(count: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 8, 8)).astype(np.uint8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "small.onnx")
    np.save("train.npy", images(200))
    return tmp_path


def asked(**options: object) -> Quantized:
    wanted = {"onnx": Path("small.onnx"), "data": ("train.npy",), **options}
    return quantize(QuantizeRequest(**wanted), command=["lenet-trt", "quantize"])  # type: ignore[arg-type]


def test_every_layer_is_symmetric_with_a_scale_a_channel(folder: Path) -> None:
    found = asked()
    assert found.model == Path("small.int8.onnx")
    model = onnx.load(found.model)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in quantized_layers(model)] == ["Conv", "MatMul", "MatMul"]
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    zeros = [array for name, array in tensors.items() if name.endswith("zero_point")]
    assert {array.dtype for array in zeros} == {np.dtype(np.int8)}
    assert not any(array.any() for array in zeros)
    shapes = {name: array.shape for name, array in tensors.items() if name.endswith("_scale")}
    assert (shapes["conv.w_scale"], shapes["dense1.w_scale"], shapes["x_scale"]) == ((4,), (16,), ())
    # TensorRT joins a convolution, its bias and its ReLU only where nothing stands between them.
    makers = {output: node.op_type for node in model.graph.node for output in node.output}
    (relu, _) = (node for node in model.graph.node if node.op_type == "Relu")
    assert makers[relu.input[0]] == "Conv"
    assert "conv.b" in next(node for node in model.graph.node if node.op_type == "Conv").input  # in float


def test_the_same_images_and_seed_give_the_same_bytes(folder: Path) -> None:
    first = asked(output=Path("one.onnx"), count=64)
    again = asked(output=Path("two.onnx"), count=64)
    assert Path("one.onnx").read_bytes() == Path("two.onnx").read_bytes()
    assert not again.reused
    assert asked(output=Path("one.onnx"), count=64).reused
    other = asked(output=Path("one.onnx"), count=64, seed=21)
    assert not other.reused
    assert other.record.calibration.sha256 != first.record.calibration.sha256


def test_the_record_says_what_was_done(folder: Path) -> None:
    found = asked(keep=("conv",))
    record = read_record(record_path(found.model))
    assert record == found.record
    assert record.describes(found.model)
    assert record.kept == ["conv"]
    assert [(layer.op, layer.type) for layer in record.layers] == [
        ("Conv", "fp32"),
        ("MatMul", "int8"),
        ("MatMul", "int8"),
    ]
    assert record.calibration.samples == 200
    assert 0 < record.evaluation["difference"] < 0.05
    assert record.evaluation["data"] == "calibration data: train.npy"
    assert record.made["command"] == "lenet-trt quantize"
    found.model.write_bytes(found.model.read_bytes() + b"\0")
    assert not record.describes(found.model)


def test_what_is_in_float_again_is_in_the_file_as_before(folder: Path) -> None:
    model = onnx.load(asked(keep=("conv",)).model)
    conv = next(node for node in model.graph.node if node.name == "conv")
    assert list(conv.input) == ["x", "conv.w", "conv.b"]
    assert not [tensor.name for tensor in model.graph.initializer if tensor.name.startswith("conv.w_")]


@pytest.mark.parametrize(("narrow", "rest", "largest"), [("fp8", "fp32", 0.06), ("int8", "fp16", 0.03)])
def test_other_types(folder: Path, narrow: str, rest: str, largest: float) -> None:
    found = asked(narrow=narrow, rest=rest, max_change=10.0)
    model = onnx.load(found.model)
    assert kinds_of(model) >= {narrow, rest}
    x = (images(50, seed=9).reshape(-1, 1, 8, 8) / 255).astype(np.float32)
    (wanted,), (seen,) = (runner(each)({"x": x}) for each in (network(), model))
    error = float(np.linalg.norm(seen - wanted) / np.linalg.norm(wanted))
    assert 0 < error < largest


def outlier() -> onnx.ModelProto:
    """The same network, whose convolution reads pixels of which one, of no weight, is 3000 times too large."""
    model = network()
    model.graph.initializer.append(numpy_helper.from_array(blinding(), "blinding"))
    conv = model.graph.node[0]
    conv.input[0] = "seen"
    model.graph.node.insert(0, helper.make_node("Mul", ["x", "blinding"], ["seen"], name="blind"))
    weights = next(tensor for tensor in model.graph.initializer if tensor.name == "conv.w")
    array = numpy_helper.to_array(weights).copy()
    array[:, :, 0, 0] = 0
    weights.CopyFrom(numpy_helper.from_array(array, "conv.w"))
    return model


def blinding() -> np.ndarray:
    """The first pixel, which only the weight that is 0 meets."""
    factors = np.ones((1, 1, 8, 8), np.float32)
    factors[..., 0, 0] = 3000
    return factors


def test_a_layer_that_loses_too_much_stays_in_float(folder: Path) -> None:
    onnx.save(outlier(), "small.onnx")
    found = asked(max_change=5.0)
    assert found.record.kept == ["conv"]
    errors = {layer.node: layer.error for layer in found.record.layers}
    assert max(errors, key=lambda name: errors[name] or 0) == "conv"
    assert errors["conv"] > 0.2
    assert found.record.calibration.change <= 5.0
    assert [node.op_type for node in quantized_layers(onnx.load(found.model))] == ["MatMul", "MatMul"]


def test_nothing_can_be_quantized(folder: Path) -> None:
    onnx.save(outlier(), "small.onnx")
    model = prepared(onnx.load("small.onnx"))
    others = tuple(node.name for node in layers_of(model) if node.name != "conv")
    with pytest.raises(LenetTrtError, match=r"whichever layer is quantized, more than the 1% allowed changes .*conv"):
        asked(keep=others)
    assert not Path("small.int8.onnx").exists()


def test_nan_is_another_class_and_an_infinite_error(folder: Path) -> None:
    model, lost = network(), network(spoiled=np.nan)
    judge = Judge(model, calibration_data(("train.npy",), ports(model)[0], ImageOptions(), 200, 0), 64)
    assert (judge.change(model), judge.error(model)) == (0, 0)
    assert (judge.change(lost), judge.error(lost)) == (100, np.inf)


def narrow_range() -> onnx.ModelProto:
    """A classifier of the same images whose logits are beyond fp16, and far apart."""
    model = network()
    last = next(tensor for tensor in model.graph.initializer if tensor.name == "dense2.w")
    last.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(last) * np.float32(1e7), last.name))
    return model


def test_results_beyond_fp16_are_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(narrow_range(), "small.onnx")
    words = ["quantize", "small.onnx", "--data", "train.npy", "--fp16", "-o", "small.int8.onnx"]
    assert main(words) == 1
    assert "whichever layer is quantized, the outputs are NaN or infinite for train.npy" in capsys.readouterr().err
    assert main([*words, "--max-change", "100"]) == 1
    assert "fp16, gives NaN or infinity where the model given has numbers (calibration" in capsys.readouterr().err
    assert not Path("small.int8.onnx").exists()
    assert main([*words, "--max-change", "100", "--max-drop", "100"]) == 0
    assert "outputs are NaN or infinite" in capsys.readouterr().out
    record = read_record(record_path(Path("small.int8.onnx")))
    assert (record.evaluation["difference"], record.evaluation["infinite"]) == (None, "built")


def test_a_network_that_is_no_classifier_takes_arrays_by_name(folder: Path) -> None:
    nodes = [helper.make_node("MatMul", ["a", "w"], ["p"], name="product"), helper.make_node("Add", ["p", "b"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "two inputs",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, 8]) for name in "ab"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3, 8])],
        [numpy_helper.from_array(np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), "two.onnx")
    random = np.random.default_rng(3)
    np.savez("two.npz", a=random.normal(size=(40, 3, 8)).astype(np.float32), b=np.zeros((40, 3, 8), np.float32))
    record = asked(onnx=Path("two.onnx"), data=("two.npz",), max_change=3.0).record
    assert record.calibration.samples == 40
    assert 0 < record.calibration.change < 3
    assert not record.calibration.classes


def test_open_axes_besides_the_batch_are_given_sizes(folder: Path) -> None:
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "w"], ["y"], name="product")],
        "sequences",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", "sequence", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "sequence", 8])],
        [weight],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), "open.onnx")
    np.savez("open.npz", a=np.random.default_rng(3).normal(size=(40, 3, 8)).astype(np.float32))
    options = {"onnx": Path("open.onnx"), "data": ("open.npz",), "max_change": 3.0}
    found = asked(**options, sizes={"sequence": 3})
    assert inputs_of(onnx.load(found.model)) == {"a": ("n", 3, 8)}
    assert found.record.inputs["sizes"] == {"sequence": 3}
    assert asked(**options, sizes={"sequence": 3}).reused
    assert not asked(**options, sizes={"sequence": 3, "n": 40}).reused


def test_a_network_with_several_outputs_is_no_classifier(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked().record.calibration.classes
    model = network()
    model.graph.output.append(helper.make_tensor_value_info("e", TensorProto.FLOAT, ["n", 16]))
    onnx.save(model, "several.onnx")
    record = asked(onnx=Path("several.onnx"), max_change=5.0).record
    assert not record.calibration.classes
    assert 0 < record.calibration.change < 5
    assert main(["quantize", "several.onnx", "--data", "train.npy", "--max-change", "5"]) == 0
    assert f"the results change by {record.calibration.change:.2f}% in norm" in capsys.readouterr().out


def test_the_command_says_what_to_do_next(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", "small.onnx", "--data", "train.npy", "--fp8", "--max-change", "10"]) == 0
    said = capsys.readouterr().out
    assert "conv, MatMul_0, MatMul_1: fp8" in said
    assert "lenet-trt build small.fp8.onnx --sm 8.9" in said
    assert main(["quantize", "small.onnx", "--data", "train.npy", "--fp8", "--max-change", "10"]) == 0
    assert "up to date" in capsys.readouterr().out


def test_a_folder_of_pictures_and_one_like_mnists(folder: Path) -> None:
    from PIL import Image

    from lenet_trt.export.idx import idx_bytes

    Path("pictures").mkdir()
    for index, image in enumerate(images(40)):
        Image.fromarray(image).save(f"pictures/{index:03}.png")
    Path("mnist").mkdir()
    Path("mnist/train-images-idx3-ubyte").write_bytes(idx_bytes(images(40)))
    Path("mnist/t10k-images-idx3-ubyte").write_bytes(idx_bytes(images(40, seed=6)))
    np.save("forty.npy", images(40))
    hashes = {asked(data=(name,)).record.calibration.sha256 for name in ("pictures", "mnist", "forty.npy")}
    assert len(hashes) == 1  # the test images are left alone
    assert asked(data=("pictures",), count=20).record.calibration.samples == 20
