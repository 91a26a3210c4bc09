"""Bad input to quantize: each kind has an error that says what was seen and what to do, and nothing is written."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.cli import main
from lenet_trt.export.idx import idx_bytes
from lenet_trt.export.lenet5 import SHIPPED, SHIPPED_INT8
from lenet_trt.export.mnist import DATA_DIR, IMAGE_FILE, LABEL_FILE, TEST
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.precision import convert

IMAGES = np.random.default_rng(5).integers(0, 256, (40, 28, 28)).astype(np.uint8)


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command in a folder with a LeNet-5, which has to fail and to write nothing; returns what it says."""
    monkeypatch.chdir(tmp_path)
    Path("lenet5.onnx").write_bytes(SHIPPED.read_bytes())
    np.save("train.npy", IMAGES)

    def run(*words: str, status: int = 1) -> str:
        before = sorted(Path().iterdir())
        assert main(["quantize", *words]) == status
        assert sorted(Path().iterdir()) == before
        return capsys.readouterr().err

    return run


def test_no_calibration_data(failed) -> None:
    said = failed("lenet5.onnx", status=2)
    assert "lenet5.onnx needs calibration data: name training images with --data" in said
    assert "missing.npy does not exist" in failed("lenet5.onnx", "--data", "missing.npy")
    Path("empty").mkdir()
    assert "empty has neither pictures" in failed("lenet5.onnx", "--data", "empty")
    assert "--data -: a choice is made" in failed("lenet5.onnx", "--data", "-", status=2)


def test_too_few_images_and_all_alike(failed) -> None:
    np.save("few.npy", IMAGES[:15])
    assert "there are 15 samples; calibration wants at least 16 that differ" in failed(
        "lenet5.onnx", "--data", "few.npy"
    )
    np.save("alike.npy", np.repeat(IMAGES[:3], 20, axis=0))
    assert "there are 60 samples, and only 3 of them differ" in failed("lenet5.onnx", "--data", "alike.npy")
    assert "there are 9 samples" in failed("lenet5.onnx", "--data", "train.npy", "--count", "9")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan(failed, value: float) -> None:
    pixels = np.random.default_rng(0).random((40, 1, 28, 28)).astype(np.float32)
    pixels[3, 0, 5, 7] = value
    np.savez("train.npz", images=pixels)
    said = failed("lenet5.onnx", "--data", "train.npz")
    assert f"the data of input images has {value} at [3, 0, 5, 7]; wanted numbers" in said


def test_a_float_model_that_gives_nan(failed) -> None:
    model = onnx.load(SHIPPED)
    weights = next(tensor for tensor in model.graph.initializer if tensor.name == "fc3.bias")
    weights.CopyFrom(numpy_helper.from_array(np.full(10, np.nan, np.float32), "fc3.bias"))
    onnx.save(model, "broken.onnx")
    assert "the float model gives NaN or infinity for train.npy" in failed("broken.onnx", "--data", "train.npy")


def test_data_of_another_form(failed) -> None:
    np.save("wide.npy", IMAGES[:, :, :14])
    assert "wanted grey images [n, 28, 28]" in failed("lenet5.onnx", "--data", "wide.npy")
    np.savez("other.npz", images=np.zeros((40, 1, 14, 14), np.float32))
    assert "images is float32 [40, 1, 14, 14]; wanted images float32 [n, 1, 28, 28]" in failed(
        "lenet5.onnx", "--data", "other.npz"
    )
    np.savez("unnamed.npz", pictures=np.zeros((40, 1, 28, 28), np.float32))
    said = failed("lenet5.onnx", "--data", "unnamed.npz")
    assert (
        "unnamed.npz has pictures; wanted an array for each input: images float32 [n, 1, 28, 28], or one array" in said
    )
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "w"], ["y"])],
        "words",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
        [numpy_helper.from_array(np.eye(8, dtype=np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), "words.onnx")
    assert "are no images: give --data an .npz" in failed("words.onnx", "--data", "train.npy", status=2)
    np.savez("words.npz", b=np.zeros((40, 8), np.float32))
    assert "words.npz has b; wanted an array for each input: a float32" in failed("words.onnx", "--data", "words.npz")


def test_labels_that_do_not_fit(failed) -> None:
    np.save("test.npy", IMAGES[::-1, ::-1])
    np.save("labels.npy", np.arange(39) % 10)
    judged = ("lenet5.onnx", "--data", "train.npy", "--images", "test.npy", "--labels")
    assert "labels.npy has 39 labels, and there are more images; wanted a label for each" in failed(
        *judged, "labels.npy"
    )
    np.save("labels.npy", np.arange(40) % 11)
    assert "there is a label 10; the model has 10 classes" in failed(*judged, "labels.npy")
    assert "--labels needs --images" in failed("lenet5.onnx", "--data", "train.npy", "--labels", "labels.npy", status=2)
    assert "nobody says what the images of test.npy show" in failed(*judged[:-1], status=2)


def test_the_images_that_judge_do_not_calibrate(failed) -> None:
    test_images = str(DATA_DIR / (IMAGE_FILE.format(split=TEST) + ".gz"))
    said = failed("lenet5.onnx", "--data", test_images, "--count", "100")
    assert "100 of the 100 calibration images are also in MNIST's test set" in said
    np.save("labels.npy", np.arange(40) % 10)
    said = failed("lenet5.onnx", "--data", "train.npy", "--images", "train.npy", "--labels", "labels.npy")
    assert "40 of the 40 calibration images are also in images of train.npy" in said


def test_the_test_images_under_a_training_name_are_found_out(failed) -> None:
    Path("mnist").mkdir()
    packed = (DATA_DIR / (IMAGE_FILE.format(split=TEST) + ".gz")).read_bytes()
    Path("mnist/train-images-idx3-ubyte").write_bytes(gzip.decompress(packed))
    assert "are also in MNIST's test set" in failed("lenet5.onnx", "--data", "mnist")


def test_calibration_labels_beside_the_images_have_to_fit(failed) -> None:
    Path("train-images-idx3-ubyte").write_bytes(idx_bytes(IMAGES))
    Path(LABEL_FILE.format(split="train")).write_bytes(idx_bytes(np.zeros(39, np.uint8)))
    assert "has 40 images and train-labels-idx1-ubyte beside it 39" in failed(
        "lenet5.onnx", "--data", "train-images-idx3-ubyte"
    )


def test_models_that_cannot_be_quantized(failed) -> None:
    data = ("--data", "train.npy")
    quantized = onnx.load(SHIPPED_INT8)
    onnx.save(quantized, "again.onnx")
    said = failed("again.onnx", *data, status=2)
    assert "the model is quantized already (it has QuantizeLinear, DequantizeLinear): give the float model" in said
    onnx.save(convert(onnx.load(SHIPPED), "fp16"), "half.onnx")
    assert "the model computes in fp16: give the float32 model" in failed("half.onnx", *data, status=2)
    onnx.save(fuse(onnx.load(SHIPPED), "lenet5").model, "fused.onnx")
    assert "the model has plugin nodes (" in failed("fused.onnx", *data, status=2)


def test_a_qoperator_model(failed) -> None:
    tensors = {"s": np.float32(0.1), "z": np.int8(0), "w": np.ones((8, 8), np.int8)}
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"]),
            helper.make_node("QLinearMatMul", ["q", "s", "z", "w", "s", "z", "s", "z"], ["p"]),
            helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
        ],
        "integers",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), "qoperator.onnx")
    said = failed("qoperator.onnx", "--data", "train.npy", status=2)
    assert "quantized already (it has QuantizeLinear, QLinearMatMul, DequantizeLinear)" in said
    assert main(["build", "qoperator.onnx", "-o", "q.engine"]) == 1


def test_layers_that_are_not_there(failed) -> None:
    data = ("lenet5.onnx", "--data", "train.npy", "--keep")
    assert "--keep conv9: there is no such layer with weights; there are conv1, conv2, fc1" in failed(
        *data, "conv9", status=2
    )
    assert "nothing is left to quantize" in failed(*data, "conv1", "conv2", "fc1", "fc2", "fc3", status=2)
    graph = helper.make_graph(
        [helper.make_node("Relu", ["a"], ["y"])],
        "none",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), "none.onnx")
    assert "the model has no layer that is quantized" in failed("none.onnx", "--data", "train.npy", status=2)


def test_files_of_others_stay(failed) -> None:
    Path("mine.onnx").write_bytes(SHIPPED.read_bytes())
    words = ("lenet5.onnx", "--data", "train.npy", "--max-drop", "100", "--max-change", "100", "-o")
    assert "mine.onnx is there already, and this command did not make it" in failed(*words, "mine.onnx")
    assert Path("mine.onnx").read_bytes() == SHIPPED.read_bytes()
    assert "is an input of this command" in failed(*words, "lenet5.onnx", status=2)
    assert "wanted the name of a file that ends in .onnx" in failed(*words, "out.engine", status=2)


def test_the_gate(failed) -> None:
    noise = np.random.default_rng(1).integers(0, 3, (40, 28, 28)).astype(np.uint8)  # almost black: scales are too small
    np.save("dark.npy", noise)
    said = failed("lenet5.onnx", "--data", "dark.npy", "--max-change", "100")
    assert "points of accuracy (9934 -> " in said
    assert "more than the 0.2 allowed; nothing was written. Leave more layers in fp32" in said
