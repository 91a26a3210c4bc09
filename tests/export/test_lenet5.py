"""The shipped LeNet-5, without torch: weights, graph, accuracy, and how its ONNX is handed out."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper
from safetensors.numpy import save_file

from lenet_trt.errors import LenetTrtError
from lenet_trt.export import Provenance, lenet5_fingerprint, lenet5_onnx, load_weights, mnist
from lenet_trt.export import lenet5 as lenet5_module
from lenet_trt.export.accuracy import accuracy
from lenet_trt.export.geometry import LENET5, Flatten, layer_shapes, parameter_shapes
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.export.weights import WEIGHTS, weights_record_path
from lenet_trt.files import sha256_file

OPERATORS = {"Conv": "Conv", "Relu": "Relu", "MaxPool": "MaxPool", "Flatten": "Reshape", "Linear": "Gemm"}


@pytest.fixture(scope="module")
def shipped() -> onnx.ModelProto:
    return onnx.load(SHIPPED)


def ort_network(path: Path) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda pixels: session.run(None, {"images": pixels})[0]


def axes(value: onnx.ValueInfoProto) -> list[int | str]:
    return [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]


def test_weights_and_record_belong_together() -> None:
    record = json.loads(weights_record_path(WEIGHTS).read_text())
    assert record["sha256"] == sha256_file(WEIGHTS)
    assert record["command"].startswith("lenet-trt train ")
    assert record["test_accuracy"] >= 0.99
    assert record["seconds"] < 300
    assert record["training_images"] + record["validation_images"] == 60_000
    assert {name: value.shape for name, value in load_weights().items()} == parameter_shapes()


def test_shipped_export_holds_the_shipped_weights(shipped: onnx.ModelProto) -> None:
    weights = load_weights()
    initializers = {tensor.name: numpy_helper.to_array(tensor) for tensor in shipped.graph.initializer}
    np.testing.assert_array_equal(initializers.pop("flatten.shape"), [-1, 256])
    assert initializers.keys() == weights.keys()
    for name, value in weights.items():
        assert initializers[name].dtype == np.float32
        assert initializers[name].tobytes() == value.tobytes(), name


def test_shipped_graph_is_the_declared_network(shipped: onnx.ModelProto) -> None:
    onnx.checker.check_model(shipped, full_check=True)
    graph = shipped.graph
    assert [(node.name, node.op_type) for node in graph.node] == [
        (layer.name, OPERATORS[type(layer).__name__]) for layer in LENET5
    ]
    (images,), (logits,) = graph.input, graph.output
    assert (images.name, axes(images)) == ("images", ["n", 1, 28, 28])
    assert (logits.name, axes(logits)) == ("logits", ["n", 10])
    inferred = {value.name: axes(value) for value in (*graph.value_info, logits)}
    assert inferred == {
        node.output[0]: ["n", *shape] for node, shape in zip(graph.node, layer_shapes().values(), strict=True)
    }
    value = "images"
    for node, layer in zip(graph.node, LENET5, strict=True):
        own = (
            ["flatten.shape"]
            if isinstance(layer, Flatten)
            else [name for name in parameter_shapes() if name.startswith(f"{layer.name}.")]
        )
        assert list(node.input) == [value, *own]
        (value,) = node.output
    assert value == "logits"


def test_shipped_graph_says_nothing_of_where_it_was_made(shipped: onnx.ModelProto) -> None:
    graph = shipped.graph
    everything = (shipped, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer)
    assert not any(part.doc_string or part.metadata_props for part in everything)
    assert not shipped.functions
    data = SHIPPED.read_bytes()
    assert not any(word in data for word in (b"site-packages", b".py", b"/usr", b"/home", b"torch"))
    assert len(data) < 200_000


def test_shipped_files_reach_99_percent(test_split: mnist.Split) -> None:
    assert accuracy(ort_network(SHIPPED)) >= 0.99


@pytest.mark.parametrize("n", [0, 1, 3])
def test_batch_is_dynamic(n: int) -> None:
    assert ort_network(SHIPPED)(np.zeros((n, 1, 28, 28), np.float32)).shape == (n, 10)


def test_shipped_file_is_handed_out_as_it_is(tmp_path: Path) -> None:
    made = lenet5_onnx(tmp_path / "folder" / "x.onnx", fresh=False)
    assert made == Provenance(
        "shipped", "the shipped graph was requested", sha256_file(SHIPPED), sha256_file(WEIGHTS), None
    )
    assert (tmp_path / "folder" / "x.onnx").read_bytes() == SHIPPED.read_bytes()


def test_without_torch_the_shipped_file_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lenet5_module, "_NEEDED", ("torch", "a_package_that_nobody_has"))
    made = lenet5_onnx(tmp_path / "x.onnx")
    assert made.source == "shipped"
    assert "pip install 'lenet-trt[export]'" in made.reason
    with pytest.raises(LenetTrtError, match="needs torch and onnxscript"):
        lenet5_onnx(tmp_path / "x.onnx", fresh=True)


def test_other_weights_go_into_the_shipped_graph(tmp_path: Path) -> None:
    weights = {name: value + np.float32(0.25) for name, value in load_weights().items()}
    save_file(weights, tmp_path / "w.safetensors")
    made = lenet5_onnx(tmp_path / "x.onnx", weights=tmp_path / "w.safetensors", fresh=False)
    assert made.weights_sha256 == sha256_file(tmp_path / "w.safetensors")
    assert made.onnx_sha256 == sha256_file(tmp_path / "x.onnx") != sha256_file(SHIPPED)
    model = onnx.load(tmp_path / "x.onnx")
    seen = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert all(seen[name].tobytes() == value.tobytes() for name, value in weights.items())


def test_fingerprint_follows_the_weights_and_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = lenet5_fingerprint()
    assert lenet5_fingerprint() == first
    assert lenet5_fingerprint(fresh=False) != first
    save_file({name: -value for name, value in load_weights().items()}, tmp_path / "w.safetensors")
    assert lenet5_fingerprint(weights=tmp_path / "w.safetensors") != first
    monkeypatch.setattr(lenet5_module, "torch_version", lambda: "0.0")
    assert lenet5_fingerprint() != first


def broken(**changes: NDArray[np.generic] | None) -> dict[str, NDArray[np.generic]]:
    weights = dict(load_weights()) | {name.replace("_", "."): value for name, value in changes.items()}
    return {name: value for name, value in weights.items() if value is not None}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (broken(fc3_bias=None), r"fc3\.bias is absent, wanted F32 \[10\]"),
        (broken(fc4_bias=np.zeros(3, np.float32)), r"fc4\.bias is F32 \[3\], wanted absent"),
        (broken(fc3_bias=np.zeros(11, np.float32)), r"fc3\.bias is F32 \[11\], wanted F32 \[10\]"),
        (broken(fc3_bias=np.zeros(10, np.float16)), r"fc3\.bias is F16 \[10\], wanted F32 \[10\]"),
        (broken(fc3_bias=np.full(10, np.nan, np.float32)), r"NaN or infinity in fc3\.bias"),
    ],
)
def test_wrong_weights_are_refused(tmp_path: Path, weights: dict[str, NDArray[np.generic]], message: str) -> None:
    save_file(weights, tmp_path / "w.safetensors")
    with pytest.raises(LenetTrtError, match=message):
        lenet5_onnx(tmp_path / "x.onnx", weights=tmp_path / "w.safetensors")
    assert not (tmp_path / "x.onnx").exists()


def test_files_that_are_no_weights(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(SHIPPED.read_bytes()[:1000])
    with pytest.raises(LenetTrtError, match="is not a safetensors file"):
        load_weights(tmp_path / "w")
    with pytest.raises(LenetTrtError, match="cannot be read"):
        load_weights(tmp_path / "absent")
    with pytest.raises(LenetTrtError, match="is not a regular file"):
        load_weights(tmp_path)
    header = json.dumps({"x": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    (tmp_path / "w").write_bytes(struct.pack("<Q", len(header)) + header + bytes(2))
    with pytest.raises(LenetTrtError, match=r"x is BF16 \[1\], wanted absent|conv1\.bias is absent"):
        load_weights(tmp_path / "w")
    with (tmp_path / "w").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(LenetTrtError, match="holds another network"):
        load_weights(tmp_path / "w")


def test_importing_the_package_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, lenet_trt.export; "
        "print(sorted({'torch', 'onnx', 'numpy', 'onnxruntime'} & set(sys.modules))); "
        "import lenet_trt.export.lenet5, lenet_trt.export.accuracy, lenet_trt.export.cases, lenet_trt.train; "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "False"]
