"""Fusing what real exporters write: torch's two, tf2onnx and onnx-simplifier."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run

EXPORTED = Path(__file__).parents[1] / "exported"
CONVOLUTION, DENSE = "conv5x5_bias_relu_pool2", "dense_bias_relu"


def assert_fuses(model: onnx.ModelProto, wanted: list[str], images: np.ndarray) -> None:
    fused = fuse(model, "auto").model
    onnx.checker.check_model(fused, full_check=True)
    assert [node.op_type for node in fused.graph.node if node.domain == DOMAIN] == wanted
    for count in (1, len(images)):
        np.testing.assert_allclose(run(fused, images[:count])[0], run(model, images[:count])[0], atol=2e-6)
    again = fuse(fused, "auto").model
    assert again.SerializeToString() == fused.SerializeToString()


def random_images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("opset", [13, 18])
def test_tf2onnx(opset: int) -> None:
    model = onnx.load(EXPORTED / f"tf2onnx-opset{opset}.onnx")
    assert "Transpose" in {node.op_type for node in model.graph.node}  # channels last
    assert_fuses(model, [CONVOLUTION, "conv5x5_bias", DENSE, DENSE], random_images(3, 16, 18, 1))


def test_onnx_simplifier() -> None:
    model = onnx.load(EXPORTED / "onnxsim.onnx")
    assert_fuses(model, [CONVOLUTION, DENSE], random_images(3, 1, 16, 18))


torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")


class Written(torch.nn.Module):  # type: ignore[misc, name-defined]
    """One network in the ways that people write it."""

    def __init__(self, flatten: str, bias: bool, pool_first: bool) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 6, 5, bias=bias)
        self.conv2 = torch.nn.Conv2d(6, 16, 5, bias=bias)
        self.dropout = torch.nn.Dropout(0.5)
        self.fc1 = torch.nn.Linear(256, 120, bias=bias)
        self.fc2 = torch.nn.Linear(120, 84, bias=bias)
        self.fc3 = torch.nn.Linear(84, 10, bias=bias)
        self.flatten, self.pool_first = flatten, pool_first

    def forward(self, x: Any) -> Any:
        functional = torch.nn.functional
        for conv in (self.conv1, self.conv2):
            if self.pool_first:
                x = functional.relu(functional.max_pool2d(conv(x), 2))
            else:
                x = functional.max_pool2d(functional.relu(conv(x)), 2)
        if self.flatten == "flatten":
            x = torch.flatten(x, 1)
        elif self.flatten == "batch":
            x = x.view(x.size(0), -1)
        else:
            x = x.reshape(-1, 16 * 4 * 4)
        x = self.dropout(functional.relu(self.fc1(x)))
        return self.fc3(functional.relu(self.fc2(x)))


@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.parametrize(
    ("flatten", "bias", "pool_first"),
    [("flatten", True, False), ("batch", True, True), ("features", False, True)],
)
def test_torch(flatten: str, bias: bool, pool_first: bool, dynamo: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = Written(flatten, bias, pool_first).eval()
    path = tmp_path / "network.onnx"
    images = random_images(3, 1, 28, 28)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter says that it is old
        if dynamo:
            sizes: Any = {"dynamic_shapes": {"x": {0: torch.export.Dim("n")}}}
        else:
            sizes = {"dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}}
        torch.onnx.export(
            network,
            (torch.from_numpy(images),),
            str(path),
            dynamo=dynamo,
            input_names=["x"],
            output_names=["y"],
            **({"external_data": False, "verbose": False} if dynamo else {}),
            **sizes,
        )
    assert_fuses(onnx.load(path), ["lenet5"], images)
