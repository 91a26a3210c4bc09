"""Make the single layers of the suite ``engines``: layers of other people's networks at which TensorRT loses time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper, parser

from lenet_trt.bench.engine_tool import Arrays
from lenet_trt.kernel.shapes import Shape

_OPSET, _IR_VERSION = 17, 8
_SEED = 1
_HARD_SIGMOID = "HardSigmoid<alpha = 0.1666666716337204>"  # as torch's exporters write 1/6


@dataclass(frozen=True)
class SingleLayer:
    """Describe a layer as ONNX text: ``nodes`` compute ``y`` from ``inputs``, whose first axis is the batch.

    ``weights``: shapes of the constants. ``batches``: what is timed. ``checked``: the largest batch at which results
    are compared; TensorRT's program writes them as text. ``slow``: TensorRT's own layer takes many milliseconds.
    """

    title: str
    nodes: str
    inputs: Mapping[str, Shape]
    checked: int
    weights: Mapping[str, Shape] | None = None
    batches: Sequence[int] = (1, 32)
    slow: bool = False
    precisions: Sequence[str] = ("fp32", "fp16")

    @property
    def multiplies(self) -> bool:
        """Return whether TF32, TensorRT's default, could make the layer faster."""
        return any(name in self.nodes for name in ("Conv", "MatMul", "Gemm"))

    def model(self) -> onnx.ModelProto:
        """Return the layer as a model with an open batch."""
        declared = ", ".join(f"float[n, {', '.join(map(str, shape))}] {name}" for name, shape in self.inputs.items())
        # Shape inference says the output's shape.
        head = f'<ir_version: {_IR_VERSION}, opset_import: ["" : {_OPSET}]>'
        model = parser.parse_model(f"{head} layer ({declared}) => (float[n] y) {{ {self.nodes} }}")
        model.graph.output[0].type.tensor_type.ClearField("shape")
        random = np.random.default_rng(_SEED)
        for name, weight in (self.weights or {}).items():
            values = random.standard_normal(weight) / math.sqrt(math.prod(weight[1:]))
            model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(inferred, full_check=True)
        return inferred

    def drawn(self, batch: int) -> Arrays:
        """Return random inputs for a batch."""
        random = np.random.default_rng(batch)
        return {name: random.standard_normal((batch, *shape), np.float32) for name, shape in self.inputs.items()}


def expected(model: onnx.ModelProto, inputs: Arrays) -> NDArray[np.float64]:
    """Compute the layer's output with ONNX Runtime on the CPU, in float32."""
    from lenet_trt.runtimes.ort import OrtCpu

    return np.asarray(OrtCpu(model).run([array.astype(np.float32) for array in inputs.values()])[0], np.float64)


def _block_end(channels: int, side: int, *, residual: bool) -> SingleLayer:
    """Make a convolution of as many filters as channels and its ReLU, with or without a residual connection."""
    maps = (channels, side, side)
    return SingleLayer(
        f"Conv 3x3{' + residual' * residual} + ReLU, {channels}x{side}x{side}",
        "c = Conv<pads = [1, 1, 1, 1]>(x, w, b) " + ("s = Add(c, other) y = Relu(s)" if residual else "y = Relu(c)"),
        {"x": maps, **({"other": maps} if residual else {})},
        1,
        {"w": (channels, channels, 3, 3), "b": (channels,)},
        precisions=("fp32",),
    )


def _points(channels: int, side: int, filters: int, name: str = "", after: str = "") -> SingleLayer:
    """Make a convolution of 1x1 filters, and what is computed ``after`` it of its result c."""
    inputs = {"x": (channels, side, side)}
    return SingleLayer(
        f"Conv 1x1{name}, {channels}x{side}x{side} to {filters}",
        f"{'c' if after else 'y'} = Conv(x, w, b) {after}",
        {**inputs, "other": (filters, side, side)} if "other" in after else inputs,
        1,
        {"w": (filters, channels, 1, 1), "b": (filters,)},
        precisions=("fp32",),
    )


def _doubling(channels: int, side: int, planes: int) -> SingleLayer:
    """Make a transposed convolution that doubles images, as decoders have it."""
    return SingleLayer(
        f"ConvTranspose 2x2 stride 2, {channels}x{side}x{side} to {planes}",
        "y = ConvTranspose<strides = [2, 2]>(x, w, b)",
        {"x": (channels, side, side)},
        1,
        {"w": (channels, planes, 2, 2), "b": (planes,)},
        precisions=("fp32",),
    )


def _one_axis(channels: int, steps: int, taps: int, dilation: int = 1) -> SingleLayer:
    """Make a convolution along one axis of as many filters as channels, which keeps the number of steps."""
    pad = taps // 2 * dilation
    return SingleLayer(
        f"Conv {taps} taps{f', dilation {dilation}' if dilation > 1 else ''}, {channels}x{steps}",
        f"y = Conv<pads = [{pad}, {pad}], dilations = [{dilation}]>(x, w, b)",
        {"x": (channels, steps)},
        1,
        {"w": (channels, channels, taps), "b": (channels,)},
        precisions=("fp32",),
    )


def _linear(rows: int, inputs: int, outputs: int, *, gelu: bool = False) -> SingleLayer:
    """Make a dense layer over the last axis, as transformers have it, with or without GELU."""
    after = (
        "r = Constant<value = float {1.4142135}>() o = Constant<value = float {1.0}>() "
        "h = Constant<value = float {0.5}>() e = Div(s, r) f = Erf(e) g = Add(f, o) m = Mul(s, g) y = Mul(m, h)"
    )
    return SingleLayer(
        f"Linear {inputs} to {outputs}{' + GELU' * gelu} of {rows} rows",
        f"p = MatMul(x, w) {'s' if gelu else 'y'} = Add(p, b) {after * gelu}",
        {"x": (rows, inputs)},
        1,
        {"w": (inputs, outputs), "b": (outputs,)},
    )


def _vectors(inputs: int, outputs: int) -> SingleLayer:
    """Make a dense layer of one row an image, as what a step of a diffusion model or a classifier has."""
    return SingleLayer(
        f"Linear {inputs} to {outputs} of one row",
        "y = Gemm<transB = 1>(x, w, b)",
        {"x": (inputs,)},
        1,
        {"w": (outputs, inputs), "b": (outputs,)},
        batches=(1, 8, 16, 32),
        precisions=("fp16",),
    )


def _patches(side: int, size: int, outputs: int, *, tokens: bool) -> SingleLayer:
    """Make a convolution of filters as large as their stride, channels last; ``tokens``: patches along one axis."""
    across = side // size
    folded = f"t = Constant<value = int64[3] {{0, {outputs}, {across * across}}}>() r = Reshape(c, t)"
    last = f"{folded} y = Transpose<perm = [0, 2, 1]>(r)" if tokens else "y = Transpose<perm = [0, 2, 3, 1]>(c)"
    return SingleLayer(
        f"Patches {size}x{size}, 3x{side}x{side} to {outputs}",
        f"c = Conv<strides = [{size}, {size}]>(x, w, b) {last}",
        {"x": (3, side, side)},
        1,
        {"w": (outputs, 3, size, size), "b": (outputs,)},
        precisions=("fp32",),
    )


def _attention(
    title: str,
    queries: int,
    heads: int,
    depth: int,
    *,
    masked: bool = False,
    batches: Sequence[int] = (1, 32),
    precisions: Sequence[str] = ("fp32", "fp16"),
) -> SingleLayer:
    """Make an attention whose heads lie side by side in a token, as a dense layer leaves them, with a mask or not."""
    swapped = "Transpose<perm = [0, 2, 1, 3]>"
    scaled = f"scale = Constant<value = float {{{depth**-0.5}}}>() scores = Mul(products, scale)"
    shares = "sums = Add(scores, mask) shares = Softmax(sums)" if masked else "shares = Softmax(scores)"
    return SingleLayer(
        f"{'Masked attention' if masked else 'Attention'} {title}",
        f"a = {swapped}(q) b = Transpose<perm = [0, 2, 3, 1]>(k) c = {swapped}(v) products = MatMul(a, b) {scaled} "
        f"{shares} found = MatMul(shares, c) y = {swapped}(found)",
        dict.fromkeys("qkv", (queries, heads, depth)),
        1,
        {"mask": (heads, queries, queries)} if masked else None,
        batches=batches,
        precisions=precisions,
    )


def _gate(channels: int, side: int, hidden: int, *, hard: bool = False) -> SingleLayer:
    """Make a squeeze and excite by ``hidden`` channels: with SiLU and sigmoid, or with ReLU and a hard sigmoid."""
    between = "h = Relu(a)" if hard else "s = Sigmoid(a) h = Mul(a, s)"
    gate = f"{_HARD_SIGMOID if hard else 'Sigmoid'}(g)"
    return SingleLayer(
        f"{'Hard gates' if hard else 'Gates'} by {hidden}, {channels}x{side}x{side}",
        f"m = GlobalAveragePool(x) a = Conv(m, w, b) {between} g = Conv(h, v, c) scale = {gate} y = Mul(x, scale)",
        {"x": (channels, side, side)},
        1,
        {"w": (hidden, channels, 1, 1), "b": (hidden,), "v": (channels, hidden, 1, 1), "c": (channels,)},
        precisions=("fp32",),
    )


def _shuffle(channels: int, side: int) -> SingleLayer:
    """Make a join of two branches whose channels are shuffled, as in ShuffleNetV2."""
    shape = (channels, side, side)
    divided, joined = f"0, 2, {channels}, {side}, {side}", f"0, {2 * channels}, {side}, {side}"
    return SingleLayer(
        f"Concat + shuffle, 2 of {channels}x{side}x{side}",
        f"d = Constant<value = int64[5] {{{divided}}}>() j = Constant<value = int64[4] {{{joined}}}>() "
        "c = Concat<axis = 1>(x, other) g = Reshape(c, d) t = Transpose<perm = [0, 2, 1, 3, 4]>(g) y = Reshape(t, j)",
        {"x": shape, "other": shape},
        1,
        precisions=("fp32",),
    )


def _group_norm(channels: int, side: int, groups: int) -> SingleLayer:
    """Make a norm of groups of channels and SiLU, as torch's exporters write it."""
    ones, zeros = (", ".join([number] * groups) for number in ("1.0", "0.0"))
    maps = f"0, {channels}, {side}, {side}"
    return SingleLayer(
        f"GroupNorm {groups} + SiLU, {channels}x{side}x{side}",
        f"d = Constant<value = int64[3] {{0, {groups}, -1}}>() j = Constant<value = int64[4] {{{maps}}}>() "
        f"o = Constant<value = float[{groups}] {{{ones}}}>() z = Constant<value = float[{groups}] {{{zeros}}}>() "
        "g = Reshape(x, d) h = InstanceNormalization<epsilon = 1e-5>(g, o, z) r = Reshape(h, j) "
        "p = Mul(r, scale) a = Add(p, shift) s = Sigmoid(a) y = Mul(a, s)",
        {"x": (channels, side, side)},
        1,
        {"scale": (channels, 1, 1), "shift": (channels, 1, 1)},
    )


_MAPS, _IMAGES = {"x": (64, 56, 56)}, {"x": (3, 224, 224)}
LAYERS = (
    SingleLayer("Softmax over 50257", "y = Softmax<axis = -1>(x)", {"x": (50257,)}, 2),
    SingleLayer("Softmax 6x196x196", "y = Softmax<axis = -1>(x)", {"x": (6, 196, 196)}, 1),
    SingleLayer(
        "LayerNormalization 196x768",
        "y = LayerNormalization<axis = -1, epsilon = 1e-6>(x, scale, shift)",
        {"x": (196, 768)},
        1,
        {"scale": (768,), "shift": (768,)},
    ),
    # Of the U-Net of Stable Diffusion.
    *(_group_norm(*sizes) for sizes in ((640, 32, 32), (1280, 16, 32))),
    SingleLayer(
        "TopK 100 of 50257",
        "k = Constant<value = int64[1] {100}>() y, where = TopK<axis = -1>(x, k)",
        {"x": (50257,)},
        32,
        precisions=("fp32",),
    ),
    SingleLayer(
        "MatMul 8x8x8", "y = MatMul(a, b)", {"a": (8, 8), "b": (8, 8)}, 100, batches=(6250, 200_000), slow=True
    ),
    SingleLayer(
        "MatMul 49x32x49", "y = MatMul(a, b)", {"a": (49, 32), "b": (32, 49)}, 64, batches=(192, 6144), slow=True
    ),
    SingleLayer(
        "depthwise Conv 7x7, 64x56x56",
        "y = Conv<group = 64, pads = [3, 3, 3, 3]>(x, w, b)",
        _MAPS,
        1,
        {"w": (64, 1, 7, 7), "b": (64,)},
    ),
    SingleLayer(
        "depthwise Conv 3x3, 64x56x56",
        "y = Conv<group = 64, pads = [1, 1, 1, 1]>(x, w, b)",
        _MAPS,
        1,
        {"w": (64, 1, 3, 3), "b": (64,)},
    ),
    SingleLayer(
        "grouped Conv 3x3, 8 groups, 64x56x56",
        "y = Conv<group = 8, pads = [1, 1, 1, 1]>(x, w, b)",
        _MAPS,
        1,
        {"w": (64, 8, 3, 3), "b": (64,)},
    ),
    SingleLayer(
        "Conv 7x7 stride 2 + ReLU, 3x224x224 to 64",
        "c = Conv<strides = [2, 2], pads = [3, 3, 3, 3]>(x, w, b) y = Relu(c)",
        _IMAGES,
        1,
        {"w": (64, 3, 7, 7), "b": (64,)},
    ),
    SingleLayer(
        "Conv 3x3 stride 2, 3x224x224 to 32",
        "y = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w, b)",
        _IMAGES,
        1,
        {"w": (32, 3, 3, 3), "b": (32,)},
    ),
    SingleLayer(
        "Conv 3x3 stride 2 + HardSwish, 3x224x224 to 16",
        f"c = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w, b) h = {_HARD_SIGMOID}(c) y = Mul(c, h)",
        _IMAGES,
        1,
        {"w": (16, 3, 3, 3), "b": (16,)},
    ),
    SingleLayer(
        "Conv 5x5, 64x56x56 to 8",
        "y = Conv<pads = [2, 2, 2, 2]>(x, w, b)",
        _MAPS,
        1,
        {"w": (8, 64, 5, 5), "b": (8,)},
        precisions=("fp32",),
    ),
    *(_block_end(channels, side, residual=True) for channels, side in ((64, 56), (256, 14), (512, 7))),
    *(_block_end(channels, side, residual=False) for channels, side in ((32, 160), (64, 112), (128, 64), (512, 16))),
    SingleLayer(
        "Conv 3x3 stride 2 + ReLU, 128x28x28 to 256",
        "c = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w, b) y = Relu(c)",
        {"x": (128, 28, 28)},
        1,
        {"w": (256, 128, 3, 3), "b": (256,)},
        precisions=("fp32",),
    ),
    # Of ResNet-50, ShuffleNetV2 and EfficientNet-B0.
    _points(256, 56, 64),
    _points(64, 56, 256, " + residual + ReLU", "s = Add(c, other) y = Relu(s)"),
    _points(58, 28, 58, " + ReLU", "y = Relu(c)"),
    _points(112, 14, 672, " + SiLU", "s = Sigmoid(c) y = Mul(c, s)"),
    # Of EfficientNet-B0 and MobileNetV3.
    *(_gate(*sizes) for sizes in ((32, 112, 8), (144, 56, 6), (480, 14, 20), (1152, 7, 48))),
    _gate(960, 7, 240, hard=True),
    _shuffle(58, 28),
    # The first and the last dilation of AudioConvolutions (zoo/sequences.py).
    *(_one_axis(64, 2000, 9, dilation) for dilation in (1, 32)),
    *(_doubling(*sizes) for sizes in ((64, 56, 64), (256, 32, 128))),
    _linear(197, 768, 2304),
    _linear(197, 3072, 768),
    _linear(784, 192, 768),
    _linear(196, 384, 1536, gelu=True),
    # Of DiT-XL/2, ResNet-50 and a language model.
    *(_vectors(*sizes) for sizes in ((1152, 1152), (1152, 6912), (2048, 1000), (4096, 4096))),
    # Of ViT-Ti and Swin-T.
    _patches(224, 16, 192, tokens=True),
    _patches(224, 4, 96, tokens=False),
    _attention("of 197 tokens, 3 heads of 64", 197, 3, 64),
    _attention("of 197 tokens, 12 heads of 64", 197, 12, 64),
    _attention("of 128 words, 4 heads of 64", 128, 4, 64),
    # Of the U-Net of Stable Diffusion 1.5, for an image of 512x512, and of SigLIP.
    _attention("of 4096 pixels, 8 heads of 40", 4096, 8, 40, batches=(1, 8), precisions=("fp16",)),
    _attention("of 1024 pixels, 8 heads of 80", 1024, 8, 80, batches=(1, 8), precisions=("fp16",)),
    _attention("of 729 patches, 16 heads of 72", 729, 16, 72, precisions=("fp16",)),
    # A Swin's windows: 64 an image in the first stage.
    _attention("of windows of 49, 3 heads of 32", 49, 3, 32, masked=True, batches=(64, 2048)),
    SingleLayer(
        "AveragePool 3x3, 64x56x56", "y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x)", _MAPS, 1
    ),
    SingleLayer(
        "MaxPool 3x3 stride 2, 64x112x112",
        "y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x)",
        {"x": (64, 112, 112)},
        1,
    ),
    SingleLayer("GlobalAveragePool 64x56x56", "y = GlobalAveragePool(x)", _MAPS, 32),
)
