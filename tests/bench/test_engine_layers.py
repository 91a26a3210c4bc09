"""The single layers of the suite ``engines``: each is replaced by one kernel, which computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from lenet_trt.bench.engine_layers import LAYERS, SingleLayer, expected
from lenet_trt.bench.engine_workloads import OURS, TF32, THEIRS, engine_workloads
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.examples import relative_error
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes

KERNELS = {
    "Softmax": "softmax",
    "LayerNormalization": "layer_norm",
    "GroupNorm": "group_norm",
    "TopK": "topk",
    "MatMul": "batched_matmul",
    "depthwise Conv": "depthwise_conv",
    "grouped Conv": "grouped_conv",
    "Conv 5x5": "few_filter_conv",
    "Conv 3x3 + residual": "many_channel_conv_add",
    "Conv 3x3 stride 2 + ReLU": "many_channel_conv",
    "Conv 3x3 + ReLU": "many_channel_conv",
    "Conv 1x1 + residual": "many_channel_conv_add",
    "Conv 1x1": "many_channel_conv",
    "Conv 9 taps": "many_channel_conv1d",
    "Linear": "linear",
    "Patches": "patch_embedding",
    "Attention": "attention",
    "Masked attention": "masked_attention",
    "ConvTranspose": "transposed_conv2x2",
    "Conv": "few_channel_conv",
    "AveragePool": "average_pool",
    "MaxPool": "max_pool",
    "GlobalAveragePool": "global_average_pool",
    "Gates": "squeeze_excite",
    "Concat + shuffle": "concat_shuffle",
    "Hard gates": "squeeze_excite",
}


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.title)
def test_one_kernel_replaces_a_layer_and_computes_the_same(layer: SingleLayer) -> None:
    model = layer.model()
    fused = fuse(model, "all").model
    (name,) = plugin_nodes(fused).values()
    assert name == KERNELS[next(title for title in KERNELS if layer.title.startswith(title))]
    assert len(fused.graph.node) <= 1 + sum(
        node.op_type in ("Cast", "Reshape", "Constant") for node in fused.graph.node
    )
    inputs = layer.drawn(1)
    assert relative_error(expected(fused, inputs), expected(model, inputs)) < 1e-5


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.title)
def test_what_is_compared_can_be_written_as_text(layer: SingleLayer) -> None:
    inputs = layer.drawn(layer.checked)
    assert expected(layer.model(), inputs).size <= 1_500_000
    assert all(len(array) == layer.checked <= max(layer.batches) for array in inputs.values())
    assert all(np.isfinite(array).all() for array in inputs.values())


def test_layers_with_products_are_timed_with_tf32_too() -> None:
    backends = {each.name: list(each.backends) for each in engine_workloads(SuiteOptions())}
    for title in ("Conv 1x1, 256x56x56 to 64, fp32", "Conv 9 taps, dilation 32, 64x2000, fp32"):
        assert backends[title] == [THEIRS, TF32, OURS]
    for title in ("depthwise Conv 3x3, 64x56x56, fp16", "Softmax over 50257, fp32", "MatMul 8x8x8, fp32"):
        assert backends[title] == [THEIRS, OURS]
