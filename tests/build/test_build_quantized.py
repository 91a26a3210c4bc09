"""Engines of quantized models: LeNet-5 from the shipped one, and what is refused before TensorRT sees it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from lenet_trt.build.request import BuildRequest
from lenet_trt.build.stage import build
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.export import mnist
from lenet_trt.export.lenet5 import SHIPPED, SHIPPED_INT8
from lenet_trt.export.weights import load_weights
from lenet_trt.onnx_model.precision import convert, kinds_of
from lenet_trt.onnx_model.quantization import at_opset
from lenet_trt.quantize.record import read_record, record_path
from lenet_trt.runtimes.ort import runner
from lenet_trt.tensorrt import capabilities
from lenet_trt.tensorrt.flavors import select

FP32_RIGHT = 9934  # of MNIST's 10,000 test images
ALLOWED = 10  # 0.1 points


def request(tmp_path: Path, **options: object) -> BuildRequest:
    return BuildRequest(**{"output": tmp_path / "m.engine", "flavor": "rtx", **options})  # type: ignore[arg-type]


def test_the_shipped_model_belongs_to_the_shipped_weights() -> None:
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(SHIPPED_INT8).graph.initializer}
    weights = load_weights()
    for name, wanted in weights.items():
        assert tensors[name].tobytes() == wanted.tobytes()
        if name.endswith(".weight"):
            largest = np.abs(wanted).max(axis=tuple(range(1, wanted.ndim)))
            assert np.allclose(tensors[f"{name}_scale"] * 127, largest, rtol=1e-6)
    record = read_record(record_path(SHIPPED_INT8))
    assert record.describes(SHIPPED_INT8)
    assert record.kept == []
    assert record.calibration.samples == 512


def test_other_weights_than_the_shipped_ones_are_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = onnx.load(SHIPPED_INT8)
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "fc2.bias")
    bias.CopyFrom(numpy_helper.from_array(np.zeros(84, np.float32), "fc2.bias"))
    monkeypatch.setattr("lenet_trt.export.lenet5.SHIPPED_INT8", tmp_path / "other.onnx")
    onnx.save(model, tmp_path / "other.onnx")
    with pytest.raises(LenetTrtError, match=r"other.onnx has another fc2.bias than .*lenet-trt quantize --int8"):
        build(request(tmp_path, precision="int8"))


@pytest.mark.parametrize(
    ("precision", "sms"),
    [
        ("int8", ()),
        pytest.param("int8", ("8.0", "8.6"), marks=pytest.mark.slow),
        pytest.param("int8", ("8.9", "12.0", "12.1"), marks=pytest.mark.slow),
        ("fp8", ("8.9", "12.0", "12.1")),
    ],
)
def test_lenet5(tmp_path: Path, precision: str, sms: tuple[str, ...]) -> None:
    built = build(request(tmp_path, precision=precision, sms=sms))
    evaluation = built.sidecar.evaluation
    assert evaluation["correct_before"] == FP32_RIGHT
    assert abs(evaluation["correct"] - FP32_RIGHT) <= ALLOWED
    model = onnx.load(tmp_path / "m.engine.onnx")
    assert precision in kinds_of(model)
    assert build(request(tmp_path, precision=precision, sms=sms)).reused
    images, labels = mnist.test_set()
    (logits,) = runner(model)({"images": mnist.network_input(images[:1000])})
    assert (logits.argmax(axis=1) == labels[:1000]).mean() > 0.98


def test_the_rest_in_fp16_runs_on_turing_too(tmp_path: Path) -> None:
    built = build(request(tmp_path, onnx=SHIPPED_INT8, precision="fp16", sms=("7.5",)))
    assert kinds_of(onnx.load(tmp_path / "m.engine.onnx")) >= {"int8", "fp16"}
    assert built.sidecar.evaluation["correct"] >= FP32_RIGHT - ALLOWED
    with pytest.raises(UsageError, match=r"no fp32 matrix product.*7\.5: quantize the model with --fp16"):
        build(request(tmp_path, precision="int8", sms=("7.5",)))


@pytest.mark.parametrize("sms", [(), ("7.5",), ("8.0",), ("8.6", "8.9")])
def test_fp8_where_the_target_has_none(tmp_path: Path, sms: tuple[str, ...]) -> None:
    lowest = sms[0] if sms else "8.0"
    with pytest.raises(UsageError, match=rf"has no fp8 on compute capability {lowest} \(it starts at 8\.9\)"):
        build(request(tmp_path, precision="fp8", sms=sms))
    assert not list(tmp_path.iterdir())


def test_other_models_have_to_be_calibrated(tmp_path: Path) -> None:
    model = tmp_path / "my.onnx"
    model.write_bytes(SHIPPED.read_bytes())
    with pytest.raises(
        UsageError, match=r"--int8: .*my.onnx has to be calibrated .*lenet-trt quantize .*my.onnx --int8"
    ):
        build(request(tmp_path, precision="int8", onnx=model))


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_a_model_that_is_quantized_already_says_its_types_itself(tmp_path: Path, precision: str) -> None:
    said = rf"--{precision}: .* is quantized already \(it has QuantizeLinear.*leave --{precision} out"
    with pytest.raises(UsageError, match=said):
        build(request(tmp_path, precision=precision, onnx=SHIPPED_INT8))


def test_asymmetric_zero_points_are_refused_before_tensorrt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.load(SHIPPED_INT8)
    zero = next(tensor for tensor in model.graph.initializer if tensor.name == "images_zero_point")
    zero.CopyFrom(numpy_helper.from_array(np.asarray(-128, np.int8), zero.name))
    onnx.save(model, tmp_path / "asymmetric.onnx")
    monkeypatch.delattr("lenet_trt.build.stage.engine_from_onnx")
    with pytest.raises(LenetTrtError, match=r"zero point images_zero_point is -128; TensorRT takes symmetric"):
        build(request(tmp_path, onnx=tmp_path / "asymmetric.onnx"))


def test_bf16_has_no_scales(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--bf16: the model is quantized"):
        build(request(tmp_path, onnx=SHIPPED_INT8, precision="bf16"))


def test_a_release_without_scales_in_fp16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = replace(capabilities.capabilities("rtx", "1.7"), half_scales=False)
    monkeypatch.setitem(capabilities.RELEASES, "rtx", {(1, 7): older})
    onnx.save(convert(at_opset(onnx.load(SHIPPED_INT8), 19), "fp16"), tmp_path / "half.onnx")
    with pytest.raises(UsageError, match=rf"TensorRT-RTX {select('rtx').version} takes scales in fp32 alone"):
        build(request(tmp_path, onnx=tmp_path / "half.onnx"))
    # The builder may compute the rest in fp16; the model keeps its scales.
    build(request(tmp_path, onnx=SHIPPED_INT8, precision="fp16"))
    assert "fp16" not in kinds_of(onnx.load(tmp_path / "m.engine.onnx"))


def test_the_plugin_of_a_quantized_network_is_the_quantized_one(tmp_path: Path) -> None:
    built = build(request(tmp_path, precision="int8", plugins="auto", sms=("8.9",)))
    assert [(entry["kernel"], entry["types"]) for entry in built.sidecar.plugins] == [("lenet5_int8", "int8_io_fp32")]
    assert built.sidecar.evaluation["correct"] == 9932
    assert json.loads((tmp_path / "m.json").read_text())["inputs"]["precision"] == "int8"
