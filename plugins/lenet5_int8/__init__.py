"""Declare ``lenet5_int8``: all of LeNet-5 with Q/DQ at the input of each layer, in integers and in one launch."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Dim, axes, ceil_div, minimum
from lenet_trt.export.geometry import CLASSES, IMAGE_SHAPE, flops_per_image
from lenet_trt.kernel import Axis, Kernel, Launch, Packing, Tensor, Types, Variant
from lenet_trt.kernel.saturate import quantize, scaled

from ..conv5x5.declaration import convolve
from ..maxpool2 import reference as pool
from .fragments import CHANNELS, LAYERS, NUMBERS, QUAD, QUADS, SCALES, SHAPES, folded, pack, unpack
from .pattern import PATTERNS

(n,) = axes("n")
# Up to these numbers of images an H200, which has 132 multiprocessors, was fastest with 1, 2 and 4 images a block
# (docs/kernels/lenet5_int8.md); the last one lies between two sizes that were measured.
MOST_BY_1, MOST_BY_2, MOST_BY_4 = MULTIPROCESSORS, 2 * MULTIPROCESSORS, 6 * MULTIPROCESSORS
# Scales with which sums of random integers fill the range of the next layer, and some of it is cut.
INPUT_STEP, CONV1_STEP, WEIGHT_STEP = (0.05, 0.1), (0.002, 0.006), (0.0005, 0.002)
# The shared memory of the tensor-core variant in bytes; the source has the layout and asserts the sum.
WARPS, ROUND = 16, 96
PIXELS, MAP, FEATURES, HIDDEN1, HIDDEN2 = 784 + 32, 12 * 80, 256 + 16, 128 + 16, 96 + 16


def reference(x: np.ndarray, x_scale: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Compute the network as Q/DQ defines it: exact sums of integers, each scaled, rounded and cut.

    A float32 number multiplies a sum and another is added, with one rounding (see ``fragments.folded``).
    """
    plain = dict(zip((tensor.name for tensor in PLAIN), (x_scale, *others), strict=True))
    plain |= {name: array.astype(np.float32) for name, array in plain.items() if not name.endswith("_weight")}
    if x.dtype.kind == "f":  # NaN counts as the smallest number
        x = quantize(np.where(np.isnan(x), -np.inf, x).astype(np.float32), plain["x_scale"], "int8")
    values = x.astype(np.float64)
    for layer in LAYERS:
        factor, addend = folded(plain, layer)
        matrix = plain[f"{layer}_weight"].astype(np.float64)
        if matrix.ndim == 4:  # the pool of sums is that of the numbers: scales are positive
            values = pool(convolve(values, matrix, np.zeros(len(matrix))))
            factor, addend = factor[:, None, None], addend[:, None, None]
        else:
            values = values.reshape(len(values), -1) @ matrix.T
        values = scaled(values, factor, addend)
        if layer != LAYERS[-1]:
            values = np.clip(np.rint(values), 0, 127)
    return values


def many_images(name: str, types: str, arrival_bytes: int) -> Variant:
    """Make a variant with a warp an image; the next image arrives in shared memory of its own."""
    return Variant(
        name,
        Launch(
            (minimum(ceil_div(n, 4), MULTIPROCESSORS), 1, 1),
            (32 * WARPS, 1, 1),
            extras=(n,),
            shared_bytes=WARPS * (16 + PIXELS + arrival_bytes + MAP) + ROUND * (FEATURES + HIDDEN1 + HIDDEN2),
        ),
        "a warp an image, for many images",
        source="tensor_core.cu",
        entry="lenet5_int8_tensor_core",
        min_sm=80,
        types=(types,),
        prefer=n > MOST_BY_4,
    )


def block(images: int, most: Dim | None) -> Variant:
    """Make the variant with ``images`` images a block, preferred up to ``most`` images in all."""
    return Variant(
        f"block{images}",
        Launch((ceil_div(n, images), 1, 1), (256, 1, 1), extras=(n,)),
        f"a block {images} image{'s' if images > 1 else ''}, for few images",
        source="block.cu",
        prefer=None if most is None else n <= most,
    )


PLAIN = (
    Tensor("x_scale", (), "float32", "of the pixels", weight=True, positive=INPUT_STEP),
    *(Tensor(name, shape, "int8", "as torch stores it", weight=True) for name, shape in SHAPES.items()),
    *(
        Tensor(name, (), "float32", "of a layer's integer inputs", weight=True, positive=INPUT_STEP)
        for name in SCALES[1:]
    ),
    *(
        tensor
        for layer in LAYERS
        for tensor in (
            Tensor(
                f"{layer}_scale",
                (CHANNELS[layer],),
                "float32",
                "of each output",
                weight=True,
                positive=CONV1_STEP if layer == LAYERS[0] else WEIGHT_STEP,
            ),
            Tensor(f"{layer}_bias", (CHANNELS[layer],), "float32", "bias", weight=True),
        )
    ),
)

KERNEL = Kernel(
    name="lenet5_int8",
    doc="LeNet-5 in int8: DequantizeLinear before, QuantizeLinear behind each Conv, Relu, MaxPool and Gemm, Relu",
    axes=(Axis("n", "images"),),
    inputs=(
        Tensor("x", (n, *IMAGE_SHAPE), "TX", "images: quantized pixels, or floats"),
        Tensor("weights", (QUADS * QUAD,), "int8", "operands of the products (fragments.py)", weight=True),
        Tensor("numbers", (NUMBERS,), "float32", "folded scales and biases, then the plain ones", weight=True),
    ),
    outputs=(Tensor("y", (n, CLASSES), "float32", "logits"),),
    # Integers are exact, and each float operation is the reference's: not a bit may differ.
    types=(
        Types("int8", {"TX": "int8"}, tolerance=0.0),
        Types("int8_io_fp32", {"TX": "float32"}, tolerance=0.0),
    ),
    variants=(
        many_images("tensor_core", "int8", PIXELS),
        many_images("tensor_core_io_fp32", "int8_io_fp32", 4 * 784),
        block(1, MOST_BY_1),
        block(2, MOST_BY_2),
        block(4, None),
    ),
    packing=Packing(plain=PLAIN, pack=pack, unpack=unpack),
    patterns=PATTERNS,
    reference=reference,
    examples=({"n": 1}, {"n": 5}, {"n": 33}, {"n": 101}, {"n": 259}, {"n": 1024}, {"n": 4099}),
    flops=flops_per_image() * n,
    source_dir=Path(__file__).parent,
)
