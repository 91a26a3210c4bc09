"""LeNet-5 in integers: the kernels' own source run on the CPU, the reference's rounding, and its place in models."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from onnx import numpy_helper

from kernel_on_cpu import computed_on_cpu, needs_gcc
from lenet_trt.export import mnist
from lenet_trt.export.lenet5 import lenet5_int8
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import expected_outputs, kernel_inputs, plain_inputs
from lenet_trt.kernel.saturate import quantize, scaled
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.quantization import with_quantized_input
from lenet_trt.plugins.lenet5_int8 import fragments
from lenet_trt.plugins.lenet5_int8.trained import trained
from lenet_trt.runtimes.ort import runner
from lenet_trt.tensorrt.library.embed import embedded

KERNEL = registry.kernel("lenet5_int8")
# Batches that leave the last block, the last round and the last tile of rows partly empty, and one that fills a round.
CASES = [
    ("block1", "int8", 2),
    ("block2", "int8_io_fp32", 3),
    ("block4", "int8", 7),
    ("block4", "int8_io_fp32", 6),
    ("tensor_core", "int8", 177),
    ("tensor_core_io_fp32", "int8_io_fp32", 21),
]


@needs_gcc
@pytest.mark.parametrize(("variant", "types", "n"), CASES)
def test_the_source_computes_the_reference_to_the_last_bit(
    variant: str, types: str, n: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bound = KERNEL.bind_axes({"n": n}, KERNEL.types_named(types))
    plain = plain_inputs(bound, np.random.default_rng(n))
    if types == "int8_io_fp32":  # also numbers half way between two integers, and others that no integer can hold
        pixels = plain[0].reshape(-1)
        pixels[:64] = (np.arange(64, dtype=np.float32) - 32 + 0.5) * plain[1]
        pixels[64:70] = np.inf, -np.inf, np.nan, 3e38, -3e38, 0
    (wanted,) = expected_outputs(bound, plain)
    checks = f"static_assert(lenet5_int8::kQuads == {fragments.QUADS});\n"
    checks += f"static_assert(lenet5_int8::kFc3Pairs + 2 * lenet5_int8::kTileOutputs == {fragments.PAIR_NUMBERS});\n"
    (found,) = computed_on_cpu(bound, KERNEL.variant(variant), kernel_inputs(bound, plain), tmp_path_factory, checks)
    assert (found == wanted).all()


def test_every_variant_and_type_runs_on_the_cpu() -> None:
    run = {variant for variant, _, _ in CASES}
    assert run == {variant.name for variant in KERNEL.variants}
    assert {types for _, types, _ in CASES} == {types.name for types in KERNEL.types}


def layer_values(monkeypatch: pytest.MonkeyPatch, plain: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the values between layers before they are rounded."""
    seen: list[np.ndarray] = []
    original = np.rint
    monkeypatch.setattr(np, "rint", lambda values: seen.append(np.asarray(values)) or original(values))
    KERNEL.reference(*plain)
    return seen


def test_examples_round_saturate_and_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = KERNEL.bind_axes({"n": 33}, KERNEL.types_named("int8"))
    plain = plain_inputs(bound, np.random.default_rng(20))
    values = layer_values(monkeypatch, plain)
    assert len(values) == len(fragments.LAYERS) - 1
    for layer in values:
        between = (layer > 0) & (layer < 127)
        assert (layer < 0).any()
        assert between.mean() > 0.2
    assert sum((layer > 127.5).any() for layer in values) >= 2


def with_exact_scales(bound, rng: np.random.Generator) -> list[np.ndarray]:
    """Inputs whose scales are powers of two, so that float32 is exact and many numbers are half way between two."""
    plain = plain_inputs(bound, rng)
    for index, tensor in enumerate(KERNEL.plain_inputs):
        if tensor.positive:
            plain[index] = np.float32(2.0) ** np.round(np.log2(plain[index]))
        elif tensor.name.endswith("_bias"):
            plain[index] = np.round(plain[index] * 64) / 64
        elif tensor.name.endswith("_weight"):
            plain[index] = (plain[index] // 16 * 4).astype(np.int8)  # few bits: sums of their products are exact
    return [array.astype(np.float32) if array.dtype.kind == "f" else array for array in plain]


def test_halves_are_rounded_to_even_as_onnx_runtime_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from lenet_trt.fuse.pattern_model import pattern_model

    bound = KERNEL.bind_axes({"n": 21}, KERNEL.types_named("int8"))
    plain = with_exact_scales(bound, np.random.default_rng(3))
    values = layer_values(monkeypatch, plain)
    assert all(((layer % 1 == 0.5) & (layer > 0) & (layer < 127)).any() for layer in values)
    model = pattern_model(bound, KERNEL.patterns[1])
    for tensor in model.graph.initializer:
        position = [each.name for each in KERNEL.plain_inputs].index(tensor.name)
        tensor.CopyFrom(numpy_helper.from_array(plain[position], tensor.name))
    (wanted,) = runner(model)({"x": plain[0]})
    assert (KERNEL.reference(*plain).astype(np.float32) == wanted).all()


def test_sums_are_scaled_with_one_rounding() -> None:
    rng = np.random.default_rng(7)
    sums = rng.integers(-(2**22), 2**22, 3000).astype(np.float64)
    factor = (rng.random(3000) * 2.0 ** rng.integers(-30, 3, 3000)).astype(np.float32)
    # Some addends make the float64 sum lie half way between two float32 numbers, with a rest on either side.
    addend = (rng.normal(size=3000) * 2.0 ** rng.integers(-20, 20, 3000)).astype(np.float32)
    addend[:1000] = np.float32(2.0**30)
    found = scaled(sums, factor, addend)
    for number, total in zip(found, zip(sums, factor, addend, strict=True), strict=True):
        exact = Fraction(total[0]) * Fraction(float(total[1])) + Fraction(float(total[2]))
        nearest = np.float32(number)
        distance = abs(Fraction(float(nearest)) - exact)
        for other in (np.nextafter(nearest, np.float32(np.inf)), np.nextafter(nearest, np.float32(-np.inf))):
            assert distance <= abs(Fraction(float(other)) - exact)


@pytest.mark.parametrize(("rewrite", "types"), [(lambda m: m, "int8_io_fp32"), (with_quantized_input, "int8")])
def test_it_replaces_the_whole_shipped_network(rewrite, types: str) -> None:
    model = rewrite(lenet5_int8())
    fused_model = fuse(model)
    assert [entry.types for entry in fused_model.replacements] == [types]
    assert list(plugin_nodes(fused_model.model).values()) == ["lenet5_int8"]
    assert len(fused_model.model.graph.node) == 1
    pixels, labels = mnist.test_set()
    x = mnist.network_input(pixels)
    if types == "int8":
        (scale,) = (numpy_helper.to_array(each) for each in model.graph.initializer if each.name == "images_scale")
        x = quantize(x, scale, "int8")
    (found,) = runner(fused_model.model)({"images": x})
    assert (found.argmax(axis=1) == labels).sum() == 9932
    (wanted,) = runner(model)({"images": x[:500]})
    assert (found[:500] == wanted).all()


def test_the_reference_is_the_network_up_to_the_order_of_float_sums() -> None:
    model = lenet5_int8()
    x = mnist.network_input(mnist.test_set()[0][:1000])
    (wanted,) = runner(model)({"images": x})
    found = KERNEL.reference(x, *trained().values())
    different = np.abs(found - wanted).max(axis=1) > 1e-4
    assert different.sum() <= 3, "a sum half way between two integers may fall to either"
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).all()


def test_the_copy_for_tensorrt_carries_every_variant() -> None:
    copy = embedded(fuse(lenet5_int8()).model, ["sm_75", "sm_90"])
    (node,) = copy.graph.node
    assert node.op_type == "Kernel"
    assert len(node.input) == len(KERNEL.inputs)
