"""Which networks are one launch, and what is said where there is no GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.registry import kernel
from lenet_trt.runtimes.load import load


def test_a_network_on_the_host_has_no_latency_path(lenet5: Path) -> None:
    network = load(lenet5, "ort-cpu")
    with pytest.raises(LenetTrtError, match="a latency path needs a runtime on the GPU, and this network is on ONNX"):
        network.latency_path(np.zeros((1, 1, 28, 28), np.float32))


def test_a_fused_network_is_one_kernel_and_a_plain_one_is_not(lenet5: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from lenet_trt.runtimes.graph.torch_program import TorchProgram

    model = onnx.load(lenet5)
    whole = TorchProgram(fuse(model, ["lenet5"]).model, torch.device("cpu")).one_kernel()
    assert whole is not None
    declared, attributes, arguments = whole
    assert (declared.name, attributes) == ("lenet5", {})
    assert [isinstance(each, str) for each in arguments] == [not tensor.weight for tensor in declared.inputs]
    layers = fuse(model, ["conv5x5_bias_relu_pool2", "dense_bias_relu"]).model
    assert TorchProgram(layers, torch.device("cpu")).one_kernel() is None
    assert TorchProgram(model, torch.device("cpu")).one_kernel() is None


def test_the_variants_for_one_image_store_each_logit_once() -> None:
    declared = kernel("lenet5")
    for sm in (75, 80, 86, 89, 90, 100, 120):
        for types in declared.types:
            assert declared.bind_axes({"n": 1}, types).variant(sm, {"multiprocessors": 132}).stores_once, (
                sm,
                types.name,
            )
    # It stores first what tensor cores computed, and then corrects what was not accurate.
    assert not declared.variant("split").stores_once
