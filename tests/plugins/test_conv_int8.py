"""A convolution in integers: the kernel's own source, run on the CPU, its variants, and its places in LeNet-5."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernel_on_cpu import computed_on_cpu, needs_gcc
from lenet_trt.build.request import BuildRequest
from lenet_trt.build.stage import build
from lenet_trt.export import mnist
from lenet_trt.export.lenet5 import SHIPPED_INT8, lenet5_int8
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.examples import bounds, expected_outputs, kernel_inputs, plain_inputs
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.runtimes.ort import runner

KERNEL = registry.kernel("conv_int8")
# Each size once: with a pool or without, with ReLU or without.
SIZES = [
    bound
    for index, example in enumerate(KERNEL.examples)
    for bound in bounds(KERNEL)
    if all(bound.axes[axis.name] == example[axis.name] for axis in KERNEL.axes)
    and (bound.attributes["relu"], bound.attributes["pool"]) == ((1, 2), (0, 1), (1, 1), (0, 2))[index % 4]
]
H200 = {"multiprocessors": 132}


@needs_gcc
@pytest.mark.parametrize(
    "bound",
    [pytest.param(b, marks=pytest.mark.slow if i % 3 else []) for i, b in enumerate(SIZES)],
    ids=lambda bound: f"{bound.axes} {bound.attributes}",
)
def test_the_source_computes_the_reference(bound: Bound, tmp_path_factory: pytest.TempPathFactory) -> None:
    plain = plain_inputs(bound, np.random.default_rng(5))
    (wanted,) = expected_outputs(bound, plain)
    variants = [variant for variant in KERNEL.variants if bound.fits(variant)]
    assert variants
    for variant in variants:
        (found,) = computed_on_cpu(bound, variant, kernel_inputs(bound, plain), tmp_path_factory)
        assert (found == wanted).all(), variant.name


def test_the_sizes_are_all_examples_and_use_both_variants() -> None:
    assert len(SIZES) == len(KERNEL.examples)
    assert {bound.variant(90, H200).name for bound in SIZES} == {variant.name for variant in KERNEL.variants}


@pytest.mark.parametrize(
    ("n", "h", "w", "c", "k", "size", "stride", "pad", "pool", "variant"),
    [
        (16, 32, 30, 3, 9, 5, 1, 2, 1, "any_size"),
        (64, 32, 30, 3, 9, 5, 1, 2, 1, "tensor_core"),
        (256, 14, 20, 8, 8, 3, 2, 3, 1, "any_size"),
        (1024, 14, 20, 8, 8, 3, 2, 3, 1, "tensor_core"),
        (1, 14, 20, 8, 8, 3, 2, 3, 2, "tensor_core"),
        (1, 28, 28, 1, 6, 5, 1, 0, 2, "tensor_core"),
    ],
)
def test_few_products_for_few_images_take_a_thread_an_output(
    n: int, h: int, w: int, c: int, k: int, size: int, stride: int, pad: int, pool: int, variant: str
) -> None:
    attributes = {"relu": 1, "pool": pool, "size": size, "stride": stride, "pad": pad}
    bound = KERNEL.bind_axes({"n": n, "h": h, "w": w, "c": c, "k": k}, KERNEL.types[0], attributes)
    assert bound.variant(90, H200).name == variant


def test_examples_saturate_at_both_ends() -> None:
    for bound in SIZES:
        (wanted,) = expected_outputs(bound, plain_inputs(bound, np.random.default_rng(0)))
        assert wanted.max() == 127
        if not bound.attributes["relu"] and bound.attributes["pool"] == 1:
            assert wanted.min() == -128


def test_both_convolutions_of_lenet5_are_replaced() -> None:
    model = lenet5_int8()
    fused = fuse(model, [KERNEL])
    replaced = [[node.split()[0] for node in entry.replaced] for entry in fused.replacements]
    layer = ["DequantizeLinear", "DequantizeLinear", "Conv", "Relu", "MaxPool"]
    assert replaced == [[*layer, "QuantizeLinear"], [*layer, "Reshape", "QuantizeLinear"]]
    x = mnist.network_input(mnist.test_set()[0][:200])
    (wanted,), (found,) = (runner(each)({"images": x}) for each in (model, fused.model))
    assert (found == wanted).all()


def test_with_the_dense_layers_every_layer_but_the_last_is_ours() -> None:
    fused = fuse(lenet5_int8(), [KERNEL, registry.kernel("dense_int8")])
    assert sorted(plugin_nodes(fused.model).values()) == ["conv_int8"] * 2 + ["dense_int8"] * 2
    floats = {"Conv", "Relu", "MaxPool"} & {node.op_type for node in fused.model.graph.node}
    assert not floats


def test_tensorrt_rtx_builds_it_with_the_dense_layers(tmp_path: Path) -> None:
    asked = BuildRequest(
        onnx=SHIPPED_INT8,
        plugins="conv_int8,dense_int8",
        sms=("8.9",),
        output=tmp_path / "m.engine",
        flavor="rtx",
    )
    built = build(asked)
    assert [(entry["kernel"], entry["types"]) for entry in built.sidecar.plugins] == [
        *[("conv_int8", "int8")] * 2,
        *[("dense_int8", "int8")] * 2,
    ]
    assert built.sidecar.evaluation["correct"] == 9932
