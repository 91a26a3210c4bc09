"""ONNX Runtime computes quantized models as ONNX defines them, without optimisations of its own that change answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from lenet_trt.export import mnist
from lenet_trt.export.lenet5 import lenet5_int8
from lenet_trt.onnx_model.quantization import at_opset, in_float8
from lenet_trt.runtimes.ort import OrtCpu


@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_it_is_what_onnx_says(kind: str) -> None:
    model = at_opset(lenet5_int8(), 21)  # the reference has no older Q/DQ
    model = in_float8(model) if kind == "fp8" else model
    images = mnist.network_input(mnist.test_set()[0][:30])
    (wanted,) = ReferenceEvaluator(model).run(None, {"images": images})
    (found,) = OrtCpu(model).run([images])
    assert np.linalg.norm(found - wanted) < 1e-5 * np.linalg.norm(wanted)


def test_biases_stay_in_float(tmp_path: Path) -> None:
    network = OrtCpu(lenet5_int8(), profile=tmp_path / "trace")
    network.run([mnist.network_input(mnist.test_set()[0][:1])])
    text = network.end_profile().read_text()
    assert "conv2" in text
    assert "QLinearConv" not in text
    assert "bias_dq" not in text
