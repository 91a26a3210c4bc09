"""TensorRT-RTX builds engines in which the outputs of plugins get several open sizes from an input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from lenet_trt.tensorrt.flavors import installed
from lenet_trt.tensorrt.sidecar import read_sidecar, sidecar_path

pytestmark = pytest.mark.skipif(not installed().get("rtx"), reason="TensorRT-RTX is not installed")


def model() -> onnx.ModelProto:
    """A layer norm, a softmax and a top-k of x [batch, sequence, 8]."""
    vector = [("scale", [1.0] * 8), ("bias", [0.5] * 8)]
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["norm"]),
        helper.make_node("Softmax", ["norm"], ["shares"]),
        helper.make_node("TopK", ["shares", "k"], ["values", "indices"]),
    ]
    graph = helper.make_graph(
        nodes,
        "rows",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence", 8])],
        [helper.make_tensor_value_info("values", TensorProto.FLOAT, ["batch", "sequence", 3])],
        [
            *(helper.make_tensor(name, TensorProto.FLOAT, [8], numbers) for name, numbers in vector),
            helper.make_tensor("k", TensorProto.INT64, [1], [3]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("route", ["python", "library"])
def test_tensorrt_rtx_builds_an_engine_with_an_open_batch_and_sequence(
    library: Callable[[str], Path], tmp_path: Path, route: str
) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    engine = tmp_path / "m.engine"
    shapes = [f"--{name}Shapes=x:{shape}" for name, shape in (("min", "1x1x8"), ("opt", "2x5x8"), ("max", "4x16x8"))]
    command = ["build", tmp_path / "m.onnx", "-o", engine, "--flavor", "rtx", "--sm", "8.6", *shapes]
    command += ["--plugins", "layer_norm,softmax,topk", "--plugin-route", route]
    command += ["--library", library("11.1")] if route == "library" else []
    done = subprocess.run([sys.executable, "-m", "lenet_trt.cli", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    sidecar = read_sidecar(sidecar_path(engine))
    assert [entry["kernel"] for entry in sidecar.plugins] == ["layer_norm", "softmax", "topk"]
    assert sidecar.tensors["x"]["profile"] == {"min": [1, 1, 8], "opt": [2, 5, 8], "max": [4, 16, 8]}
    assert sidecar.evaluation["difference"] < 1e-6
