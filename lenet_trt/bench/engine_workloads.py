"""Make what the suite ``engines`` builds: LeNet-5, the MatMul and Conv cases, and a call of every kernel alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
from numpy.typing import NDArray

from lenet_trt.bench.engine_calls import IR_VERSION, OPSET, call_inputs, call_outputs, largest_call
from lenet_trt.bench.engine_layers import LAYERS
from lenet_trt.bench.engine_layers import expected as layer_expected
from lenet_trt.bench.engine_lenet5 import lenet5_model, quantized_lenet5_model
from lenet_trt.bench.engine_tool import Arrays, EngineModel, Outputs, with_plugins
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.export.geometry import IMAGE_SHAPE, INPUT
from lenet_trt.kernel.attributes import AttributeValue
from lenet_trt.kernel.shapes import Shape
from lenet_trt.tensorrt.engine import BuildOptions

BATCHES = (1, 32, 256, 1024, 10_000)
QUICK_BATCHES = (1, 1024)
LARGEST = 10_000
ITERATIONS = 200
# TensorRT's own MatMul takes a quarter of a second.
SLOW_ITERATIONS = 5
CHECKED_CONV = 64
OURS, THEIRS = "lenet_trt in TensorRT", "TensorRT"
TF32, LEVEL_5, EXTERNAL = f"{THEIRS}, TF32", f"{THEIRS}, level 5", f"{THEIRS}, cuBLAS and cuDNN"
# The options of each backend's build: TensorRT at its most exact, and with more freedom. EXTERNAL has further kernels.
BACKENDS: Mapping[str, BuildOptions] = {
    THEIRS: BuildOptions(),
    TF32: BuildOptions(tf32=True),
    LEVEL_5: BuildOptions(optimization_level=5),
    EXTERNAL: BuildOptions(),
    OURS: BuildOptions(),
}
KERNEL_PREFIX = "kernel "
_PRECISIONS = ("fp32", "fp16")


@dataclass(frozen=True)
class EngineWorkload:
    """Describe a network whose engines are compared: TensorRT builds ``model`` as it is, and with our kernels.

    ``backends``: names in ``BACKENDS``, each with the batches at which it is measured. ``draw`` makes the inputs of a
    batch, ``expected`` the output in float64, or all outputs in the model's order. ``checked`` maps a batch to the one
    whose results are compared: the output of a large batch is too large to be written as text. ``largest``: the largest
    batch of the engine of ours.
    ``slow``: TensorRT's own layer takes many milliseconds, so the builder times each tactic once.
    """

    name: str
    model: EngineModel
    backends: Mapping[str, Sequence[int]]
    draw: Callable[[int], Arrays]
    expected: Callable[[Arrays], Outputs | NDArray[np.float64]]
    checked: Callable[[int], int] = lambda batch: batch
    batched: bool = True
    largest: int = LARGEST
    slow: bool = False

    def wanted(self, inputs: Arrays) -> Outputs:
        """Return the outputs in float64, in the model's order."""
        found = self.expected(inputs)
        return [found] if isinstance(found, np.ndarray) else found

    def shapes(self, batch: int) -> dict[str, Shape]:
        """Return the shape of each input at a batch size; empty where shapes are fixed."""
        if not self.batched:
            return {}
        sizes = {v.name: [dim.dim_value for dim in v.type.tensor_type.shape.dim] for v in self.model.typed.graph.input}
        return {name: (batch, *each[1:]) for name, each in sizes.items()}


def engine_workloads(options: SuiteOptions) -> Iterator[EngineWorkload]:
    """Make the workloads one after the other."""
    yield from _lenet5(options)
    yield from _quantized_lenet5(options)
    yield from _matmul(options)
    yield from _convolutions(options)
    yield from _quantized_convolutions(options)
    yield from _single_layers()
    yield from _kernels()


def _images(batch: int) -> Arrays:
    return {INPUT: np.random.default_rng(batch).random((batch, *IMAGE_SHAPE), np.float32)}


def _lenet5(options: SuiteOptions) -> Iterator[EngineWorkload]:
    from lenet_trt.kernel.registry import kernel

    exact = lenet5_model("fp32")
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in exact.typed.graph.initializer}

    def logits(inputs: Arrays) -> NDArray[np.float64]:
        arrays = [weights[tensor.name.replace("_", ".")] for tensor in kernel("lenet5").inputs[1:]]
        return np.asarray(kernel("lenet5").reference(*(a.astype(np.float64) for a in (inputs["images"], *arrays))))

    every = _batches(options)
    some = tuple(batch for batch in every if batch in (1, 1024))
    backends = {THEIRS: every, TF32: every, LEVEL_5: some, **_best(options, every), OURS: every}
    yield EngineWorkload("LeNet-5 fp32", exact, backends, _images, logits)
    backends = {THEIRS: every, **_best(options, every), OURS: every}
    yield EngineWorkload("LeNet-5 fp16", lenet5_model("fp16"), backends, _images, logits)


def _best(options: SuiteOptions, batches: Sequence[int]) -> dict[str, Sequence[int]]:
    """Return TensorRT's other ways to choose kernels, with their batches, where ``--best-peers`` asks for them."""
    return dict.fromkeys((LEVEL_5, EXTERNAL), batches) if options.best_peers else {}


def _quantized_lenet5(options: SuiteOptions) -> Iterator[EngineWorkload]:
    """Yield the shipped int8 network: alone, with fp16 allowed for the rest, and with images of one byte a pixel."""
    from lenet_trt.kernel.registry import kernel, part

    plain = part("lenet5_int8", "trained").trained()  # type: ignore[union-attr]
    reference = kernel("lenet5_int8").reference

    def logits(inputs: Arrays) -> NDArray[np.float64]:
        return np.asarray(reference(inputs["images"], *plain.values()))

    def pixels(batch: int) -> Arrays:
        return {INPUT: np.random.default_rng(batch).integers(0, 128, (batch, *IMAGE_SHAPE), np.int8)}

    backends = dict.fromkeys((THEIRS, OURS), _batches(options))
    for what, model, drawn in (
        ("", quantized_lenet5_model(in_bytes=False), _images),
        (", fp16 allowed", quantized_lenet5_model(in_bytes=False, half=True), _images),
        (", one byte a pixel", quantized_lenet5_model(in_bytes=True), pixels),
    ):
        yield EngineWorkload(f"LeNet-5 int8{what}", model, backends, drawn, logits)


def _batches(options: SuiteOptions) -> tuple[int, ...]:
    batches = options.batches or (QUICK_BATCHES if options.quick else BATCHES)
    return tuple(batch for batch in batches if batch <= LARGEST)


def _matmul(options: SuiteOptions) -> Iterator[EngineWorkload]:
    from lenet_trt.export.cases import MatMulCase, matmul_model

    product = matmul_model(MatMulCase())
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in product.graph.input}
    # The search of level 5 would take longer than a build may.
    backends = (THEIRS, EXTERNAL, OURS) if options.best_peers else (THEIRS, OURS)
    for precision, dtype in (("fp32", np.float32), ("fp16", np.float16)):

        def operands(_: int, dtype: type[np.generic] = dtype) -> Arrays:
            random = np.random.default_rng(0)
            return {name: random.standard_normal(shape, np.float32).astype(dtype) for name, shape in shapes.items()}

        yield EngineWorkload(
            f"MatMul {precision}",
            _in_precision(product, precision),
            dict.fromkeys(backends, (1,)),
            operands,
            lambda inputs: np.matmul(*(array.astype(np.float64) for array in inputs.values())),
            batched=False,
            slow=True,
        )


def _convolutions(options: SuiteOptions) -> Iterator[EngineWorkload]:
    from lenet_trt.export.cases import ConvCase, conv_model

    for title, case in (
        ("Conv", ConvCase(batch=None)),
        ("Conv + ReLU + pool", ConvCase(batch=None, activation="relu", pool=True)),
    ):
        layer = conv_model(case)
        for precision, dtype in (("fp32", np.float32), ("fp16", np.float16)):
            model = _in_precision(layer, precision)
            backends = (THEIRS, *[TF32] * (precision == "fp32"), *_best(options, ()), OURS)

            def drawn(batch: int, dtype: type[np.generic] = dtype) -> Arrays:
                return {"images": _images(batch)["images"].astype(dtype)}

            yield EngineWorkload(
                f"{title} {precision}",
                model,
                dict.fromkeys(backends, (LARGEST,)),
                drawn,
                _convolution(model.typed, pooled=case.pool),
                checked=lambda batch: CHECKED_CONV,
            )


def _quantized_convolutions(options: SuiteOptions) -> Iterator[EngineWorkload]:
    """Yield LeNet-5's convolutions between Q/DQ, each with its ReLU and pool, from int8 to int8."""
    from lenet_trt.fuse.pattern_model import pattern_model
    from lenet_trt.kernel.examples import SEED, plain_inputs
    from lenet_trt.kernel.registry import kernel

    declared = kernel("conv_int8")
    attributes: dict[str, AttributeValue] = {"relu": 1, "pool": 2, "size": 5, "stride": 1, "pad": 0}
    pattern = next(p for p in declared.patterns if p.views is None and p.attributes.items() <= attributes.items())
    for name, axes in (("Conv1", {"h": 28, "w": 28, "c": 1, "k": 6}), ("Conv2", {"h": 12, "w": 12, "c": 6, "k": 16})):
        bound = declared.bind_axes({"n": CHECKED_CONV, **axes}, declared.types[0], attributes)
        model = pattern_model(bound, pattern, OPSET)
        model.ir_version = IR_VERSION
        weights = plain_inputs(bound, np.random.default_rng(SEED))[1:]

        def drawn(batch: int, shape: Shape = bound.input_shapes[0][1:]) -> Arrays:
            return {"x": np.random.default_rng(batch).integers(-128, 128, (batch, *shape), np.int8)}

        def expected(inputs: Arrays, weights: Sequence[NDArray[np.generic]] = weights) -> NDArray[np.float64]:
            return np.asarray(declared.reference(inputs["x"], *weights, **attributes), np.float64)

        flags = ("inputIOFormats=int8:chw", "outputIOFormats=int8:chw")
        yield EngineWorkload(
            f"{name} + ReLU + pool int8",
            EngineModel(model, with_plugins(model, [declared]), int8=True, weak=model, weak_flags=flags),
            dict.fromkeys((THEIRS, *_best(options, ()), OURS), (LARGEST,)),
            drawn,
            expected,
            checked=lambda batch: CHECKED_CONV,
        )


def _in_precision(model: onnx.ModelProto, precision: str, plugins: str = "auto") -> EngineModel:
    """Return the model in a precision, with its inputs and outputs in that precision too, and with these plugins."""
    from lenet_trt.onnx_model.precision import half_inputs_and_outputs

    if precision == "fp32":
        return EngineModel(model, with_plugins(model, plugins))
    half = half_inputs_and_outputs(model)
    formats = ",".join(["fp16:chw"] * len(model.graph.input))
    flags = (f"inputIOFormats={formats}", "outputIOFormats=fp16:chw")
    return EngineModel(half, with_plugins(half, plugins), half=True, weak=model, weak_flags=flags)


def _convolution(model: onnx.ModelProto, *, pooled: bool) -> Callable[[Arrays], NDArray[np.float64]]:
    from lenet_trt.kernel.registry import kernel

    arrays = [onnx.numpy_helper.to_array(tensor).astype(np.float64) for tensor in model.graph.initializer]
    filters, bias = sorted(arrays, key=lambda array: -array.ndim)
    name, choice = ("conv5x5_bias_relu_pool2", {}) if pooled else ("conv5x5_bias", {"activation": "none"})
    reference = kernel(name).reference
    return lambda inputs: np.asarray(reference(inputs["images"].astype(np.float64), filters, bias, **choice))


def _single_layers() -> Iterator[EngineWorkload]:
    """Yield each layer in its precisions; the reference is ONNX Runtime on the CPU."""
    for layer in LAYERS:
        single = layer.model()
        for precision in layer.precisions:
            # Also where auto leaves the layer to TensorRT in a network, for what stands around it there.
            model = _in_precision(single, precision, "all")
            inputs, dtype = layer.drawn, np.float16 if precision == "fp16" else np.float32
            also_tf32 = precision == "fp32" and layer.multiplies and not layer.slow

            def drawn(batch: int, inputs: Callable[[int], Arrays] = inputs, dtype: type[np.generic] = dtype) -> Arrays:
                return {name: array.astype(dtype) for name, array in inputs(batch).items()}

            yield EngineWorkload(
                f"{layer.title}, {precision}",
                model,
                dict.fromkeys((THEIRS, *[TF32] * also_tf32, OURS), layer.batches),
                drawn,
                partial(layer_expected, single),
                checked=partial(min, layer.checked),
                largest=max(layer.batches),
                slow=layer.slow,
            )


def _kernels() -> Iterator[EngineWorkload]:
    """Yield a declared example of each kernel with a pattern: the largest whose result can be compared."""
    from lenet_trt.kernel.registry import kernels

    for kernel in kernels().values():
        for types in (types for types in kernel.types if types.name in _PRECISIONS):
            found = largest_call(kernel, types.name)
            if found is None:
                continue
            bound, model = found
            sizes = " ".join(f"{name}={size}" for name, size in bound.axes.items())
            yield EngineWorkload(
                f"{KERNEL_PREFIX}{kernel.name} {types.name} ({sizes})",
                EngineModel(model, with_plugins(model, [kernel]), half=types.name == "fp16"),
                dict.fromkeys((THEIRS, OURS), (1,)),
                partial(call_inputs, bound),
                partial(call_outputs, bound),
                batched=False,
            )
