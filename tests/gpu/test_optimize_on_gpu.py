"""On a GPU ``optimize`` finds by itself what the kernels are for, and leaves models that are right and faster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lenet_trt.build.evaluate import random_inputs
from lenet_trt.cli import main
from lenet_trt.export.cases import ConvCase, MatMulCase, conv_onnx, matmul_onnx
from lenet_trt.kernel.shapes import Shape
from lenet_trt.onnx_model.read import load_model
from lenet_trt.runtimes.load import load
from lenet_trt.runtimes.ort import runner

pytest.importorskip("torch")


def optimized(model: Path, *options: str) -> dict[str, Any]:
    """Run the verb as people do, and read its record."""
    assert main(["optimize", str(model), "--runtime", "graph", *options]) == 0
    return json.loads((model.with_name(f"{model.stem}.optimized") / "optimize.json").read_text())


def kernels_of(entry: dict[str, Any]) -> list[str]:
    return [piece["kernel"] for piece in entry["plan"]]


def agrees(record: dict[str, Any], model: Path, shapes: dict[str, Shape]) -> None:
    """The fused file that was left computes what ONNX Runtime computes of the model."""
    fused = model.with_name(f"{model.stem}.optimized") / record["models"][-1]["path"]
    inputs = random_inputs(load_model(model), shapes)
    (wanted,) = runner(load_model(model))(inputs)
    network = load(fused, "graph")
    found = network(*inputs.values())
    network.close()
    assert np.linalg.norm(found - wanted) <= 1e-5 * np.linalg.norm(wanted)


def test_the_matmul_is_found_and_cured(tmp_path: Path) -> None:
    model = tmp_path / "matmul.onnx"
    matmul_onnx(model, MatMulCase())
    record = optimized(model)
    (entry,) = record["chosen"]
    assert kernels_of(entry) == ["batched_matvec"]
    assert entry["times_faster"] > 3
    before, after = record["batches"][0]["observed"]
    assert before["findings"][0]["node"] == "matmul"
    assert before["findings"][0]["recoverable_us"] > 0.5 * before["end_to_end_us"]
    assert after["ledger"]["total"]["inefficiency_us"] < 0.3 * before["ledger"]["total"]["inefficiency_us"]
    agrees(record, model, {})


def test_lenet5_becomes_faster_at_every_batch_size(tmp_path: Path, lenet5: Path) -> None:
    model = tmp_path / "lenet5.onnx"
    model.write_bytes(lenet5.read_bytes())
    record = optimized(model, "--batch", "1,32")
    for entry in record["chosen"]:
        assert entry["plan"], "a plugin at each"
        assert entry["times_faster"] > 1.5
    kept = [trial for outcome in record["batches"] for trial in outcome["trials"] if trial["kept"]]
    assert all(trial["new"]["high_us"] < trial["old"]["low_us"] for trial in kept)
    assert all(trial["accuracy"]["correct"] >= trial["accuracy"]["plain_correct"] - 2 for trial in kept)
    agrees(record, model, {"images": (5, 1, 28, 28)})


def test_the_conv_layer_becomes_faster(tmp_path: Path) -> None:
    model = tmp_path / "conv.onnx"
    conv_onnx(model, ConvCase(batch=1000))
    record = optimized(model)
    (entry,) = record["chosen"]
    assert kernels_of(entry) == ["conv5x5_bias"]
    assert entry["times_faster"] > 1.5
    agrees(record, model, {})
