"""Models with more weights than one file can have, here a small limit: how they are written, fused and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError
from lenet_trt.onnx_model import large
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.read import load_model

LAYERS, WIDTH, ROWS = 4, 96, 200
SOME_WEIGHTS = 3 * 2 * (WIDTH + 1) * WIDTH  # bytes of three layers in fp16
NAME = "model.onnx"


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "MOST_BYTES", SOME_WEIGHTS)


def model_of(layers: int = LAYERS, dtype: str = "float16") -> onnx.ModelProto:
    """Return dense layers with ReLU."""
    rng, size = np.random.default_rng(7), f"{dtype}[{ROWS}, {WIDTH}]"
    nodes = [
        f"m{i} = MatMul({'x' if i == 0 else f'y{i - 1}'}, w{i}) a{i} = Add(m{i}, b{i}) y{i} = Relu(a{i})"
        for i in range(layers)
    ]
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g ({size} x) => ({size} y{layers - 1}) {{ {" ".join(nodes)} }}'
    )
    for i in range(layers):
        for name, shape in ((f"w{i}", (WIDTH, WIDTH)), (f"b{i}", (WIDTH,))):
            values = (rng.standard_normal(shape) / np.sqrt(WIDTH)).astype(np.float32)
            half = values.astype(np.float16) if dtype == "float16" else values
            model.graph.initializer.append(numpy_helper.from_array(half, name))
    return model


def written(folder: Path, model: onnx.ModelProto) -> Path:
    """Write a model as exporters do, with its weights beside it."""
    path = folder / NAME
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def results(path: Path) -> np.ndarray:
    """Run a file, as other programs do."""
    x = np.random.default_rng(8).standard_normal((ROWS, WIDTH)).astype(np.float16)
    (y,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return y.astype(np.float32)


def test_weights_lie_in_a_file_beside_the_model(tmp_path: Path) -> None:
    path, model = tmp_path / NAME, model_of()
    large.write_model(path, model)
    onnx.checker.check_model(path, full_check=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == [NAME, f"{NAME}.data"]
    assert path.stat().st_size < SOME_WEIGHTS / 4
    read = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    for tensor in model.graph.initializer:
        np.testing.assert_array_equal(read[tensor.name], numpy_helper.to_array(tensor))
    assert model == model_of()


def test_a_smaller_model_is_one_file(tmp_path: Path) -> None:
    path, model = tmp_path / NAME, model_of(1)
    large.write_model(path, model)
    assert list(tmp_path.iterdir()) == [path]
    assert onnx.load(path) == model


def test_a_model_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    model = model_of()
    model.graph.initializer[0].dims[:] = [WIDTH // 2, 2 * WIDTH]
    with pytest.raises(LenetTrtError, match="is not valid ONNX"):
        load_model(written(tmp_path, model), large=True)


@pytest.mark.parametrize("embed", [False, True])
def test_fuse_writes_what_others_can_read(embed: bool, tmp_path: Path) -> None:
    source = written(tmp_path, model_of())
    output, copy = tmp_path / "out" / "fused.onnx", tmp_path / "out" / "fused.trt.onnx"
    words = ["fuse", str(source), "--plugins", "linear_half", "--sm", "9.0", "-o", str(output), *["--embed"] * embed]
    assert main(words) == 0
    models = [output, copy] if embed else [output]
    assert sorted(output.parent.iterdir()) == sorted([*models, *map(large.weights_path, models)])
    assert len(plugin_nodes(onnx.load(output))) == LAYERS
    np.testing.assert_allclose(results(output), results(source), rtol=0, atol=4e-3)
    assert main(words) == 0, "its own files are replaced"


# The weights of three layers could lie in one file, but not when they are packed.
@pytest.mark.parametrize("layers", [3, LAYERS])
def test_weights_of_another_model_are_not_replaced(
    layers: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = written(tmp_path, model_of(layers))
    other = tmp_path / "fused.onnx.data"
    other.write_bytes(b"theirs")
    assert main(["fuse", str(source), "--sm", "9.0", "-o", str(tmp_path / "fused.onnx")]) == 1
    assert f"{other} is there already" in capsys.readouterr().err
    assert other.read_bytes() == b"theirs"


def test_a_device_has_no_place_for_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuse", str(written(tmp_path, model_of())), "--sm", "9.0", "-o", "/dev/null"]) == 2
    assert "weights of more than 2 GB are written beside it" in capsys.readouterr().err


def test_a_model_of_floats_is_converted_to_one_file(tmp_path: Path) -> None:
    source = written(tmp_path, model_of(2, "float"))
    output = tmp_path / "out" / "fused.onnx"
    assert main(["fuse", str(source), "--fp16", "--plugins", "linear_half", "--sm", "9.0", "-o", str(output)]) == 0
    assert list(output.parent.iterdir()) == [output]


def test_other_commands_say_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", str(written(tmp_path, model_of())), "-o", str(tmp_path / "x.engine")]) == 1
    said = capsys.readouterr().err
    assert "this command takes at most" in said
    assert "lenet-trt fuse --embed" in said
