"""What torch exports, against the shipped ONNX file and against torch itself (needs torch)."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from lenet_trt.export import lenet5_onnx, load_weights, mnist
from lenet_trt.export.accuracy import logits_of
from lenet_trt.export.geometry import parameter_shapes
from lenet_trt.export.lenet5 import SHIPPED

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
pytest.importorskip("onnxscript", reason="torch's exporter needs onnxscript")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "lenet5.onnx"
    made = lenet5_onnx(path, fresh=True)
    assert made.source == "exported"
    assert made.torch == metadata.version("torch")  # torch.__version__ may add its CUDA: 2.13.0+cu130
    return path


def torch_logits(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    from lenet_trt.export.model import lenet5_from_weights

    network = lenet5_from_weights({name: torch.from_numpy(value) for name, value in load_weights().items()})
    with torch.inference_mode():
        return logits_of(lambda pixels: network(torch.from_numpy(pixels)).numpy(), images)


def ort_logits(path: Path, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return logits_of(lambda pixels: session.run(None, {"images": pixels})[0], images)


def test_shipped_file_is_what_torch_exports(exported: Path) -> None:
    fresh, shipped = onnx.load(exported), onnx.load(SHIPPED)
    # Attributes may be written in another order by another torch; all else must be the same.
    for model in (fresh, shipped):
        for node in model.graph.node:
            attributes = sorted(node.attribute, key=lambda attribute: attribute.name)
            del node.attribute[:]
            node.attribute.extend(attributes)
    assert onnx.printer.to_text(fresh) == onnx.printer.to_text(shipped)


def test_export_is_the_same_each_time(exported: Path, tmp_path: Path) -> None:
    lenet5_onnx(tmp_path / "again.onnx", fresh=True)
    assert (tmp_path / "again.onnx").read_bytes() == exported.read_bytes()


def test_onnx_runtime_agrees_with_torch_on_every_test_image(exported: Path, test_split: mnist.Split) -> None:
    wanted = torch_logits(test_split.images)
    for path in (SHIPPED, exported):
        seen = ort_logits(path, test_split.images)
        np.testing.assert_array_equal(seen.argmax(axis=1), wanted.argmax(axis=1))
        assert np.abs(seen - wanted).max() <= 1e-4


def test_torch_network_has_the_declared_parameters() -> None:
    from lenet_trt.export.model import LeNet5

    state = LeNet5().state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == parameter_shapes()


def test_torch_that_cannot_export_falls_back_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no such opset")

    monkeypatch.setattr(torch.onnx, "export", fails)
    made = lenet5_onnx(tmp_path / "x.onnx")
    assert made.source == "shipped"
    assert "could not export LeNet-5: RuntimeError: no such opset" in made.reason
    assert made.reason in caplog.text
    assert (tmp_path / "x.onnx").read_bytes() == SHIPPED.read_bytes()
