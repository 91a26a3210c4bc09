"""Declare ``dense_bias_relu``: a dense layer with bias and optional ReLU."""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MULTIPROCESSORS, Condition, ceil_div, maximum, minimum, remainder, size_of
from lenet_trt.kernel import INT32_MAX, MAX_GRID_Y, Attribute, Axis, Kernel, Launch, Tensor, Variant, float_types

from ..dense import declaration
from ..dense.declaration import blocks, inputs, n, outputs
from .pattern import PATTERNS

THREADS = (128, 1, 1)
FLOAT, HALF = ("fp32",), ("fp16", "bf16")
OF_WARPS = (8, 16)  # rows and features of a block whose warps compute dot products
odd = remainder(inputs, 2)


def reference(x: np.ndarray, w: np.ndarray, bias: np.ndarray, *, relu: int) -> np.ndarray:
    """Compute the product with bias, then ReLU if the attribute says so."""
    y = x @ w.T + bias
    return np.maximum(y, 0) if relu else y


def staged(name: str, tile: tuple[int, int], types: tuple[str, ...], prefer: Condition) -> Variant:
    """Make the variant whose blocks compute a tile of rows x features from shared memory."""
    rows, features = tile
    return declaration.staged(
        name,
        tile,
        f"tensor cores, {rows} rows x {features} features a block",
        (inputs * size_of("T")).multiple_of(4),
        entry=f"dense_bias_relu_staged_{rows}x{features}",
        types=types,
        prefer=prefer,
    )


# A larger tile reads less, and wants about a block for each multiprocessor. Floats are multiplied three times: so
# warps without tensor cores are good for more rows of them, and features that are not there cost more.
FLOAT_TILES = (
    staged(
        "staged_64x64",
        (64, 64),
        FLOAT,
        (n > 32) & (2 * blocks(64, 64) >= 3 * MULTIPROCESSORS) & (2 * ceil_div(outputs, 64) <= ceil_div(outputs, 32)),
    ),
    staged("staged_64x32", (64, 32), FLOAT, (n > 32) & (2 * blocks(64, 32) >= 3 * MULTIPROCESSORS)),
    staged("staged_32x32", (32, 32), FLOAT, blocks(*OF_WARPS) > 7 * MULTIPROCESSORS),
)
HALF_TILES = (
    staged(
        "staged_128x128_half",
        (128, 128),
        HALF,
        (n > 64) & (outputs > 64) & (2 * blocks(128, 128) >= MULTIPROCESSORS),
    ),
    staged("staged_64x64_half", (64, 64), HALF, (n > 32) & (outputs > 32) & (blocks(64, 64) >= MULTIPROCESSORS)),
    # At most 128 inputs, or enough rows.
    staged("staged_32x32_half", (32, 32), HALF, maximum(129 - inputs, blocks(*OF_WARPS) - 2 * MULTIPROCESSORS) > 0),
)

# Here no size that was timed, of 1 to 10,000 rows and 10 to 4,096 features, was slower than by cuBLAS without TF32.
# Claims that name n are for numbers of rows that are known when nodes are replaced. In 16 bits the kernel claims
# nothing: a network's last layers fit, and there a plugin costs TensorRT two reformats (docs/zoo.md).
FLOATS = size_of("T").equals(4)
CLAIMS = (
    FLOATS & (inputs <= 256) & (outputs <= maximum(4 * inputs, 64)),
    FLOATS & (n >= 2) & (inputs <= 4096) & (outputs <= 4096) & (outputs <= maximum(4 * inputs, 64)),
)


KERNEL = Kernel(
    name="dense_bias_relu",
    doc="y = Gemm(x, w, bias) with w [out, in], then ReLU or nothing",
    axes=(
        Axis("n", "rows"),
        Axis("in", "input features", static=True),
        Axis("out", "output features", static=True),
    ),
    inputs=(
        Tensor("x", (n, inputs), "T", "rows"),
        Tensor("w", (outputs, inputs), "T", "weights", weight=True),
        Tensor("bias", (outputs,), "T", "bias", weight=True),
    ),
    outputs=(Tensor("y", (n, outputs), "T", "results"),),
    types=float_types(),
    attributes=(Attribute("relu", (0, 1), "whether ReLU follows"),),
    variants=(
        Variant(
            "vector",
            Launch((ceil_div(outputs, 4), 1, 1), THREADS, extras=(n,)),
            "one row: a block four output features",
            entry="dense_bias_relu_vector",
            types=FLOAT,
            when=n.equals(1),
            prefer=inputs > 256,  # where warp_by4 is slower than cuBLAS
        ),
        *FLOAT_TILES,
        *HALF_TILES,
        Variant(
            "tensor_core",
            Launch((ceil_div(n, 16), ceil_div(outputs, 128), 1), (256, 1, 1), extras=(n,)),
            "tensor cores, 16 rows a block",
            source="tensor_core.cu",
            entry="dense_bias_relu_tensor",
            types=("fp16",),
            when=outputs <= MAX_GRID_Y * 128,
            # Rows of an odd number of elements are loaded by single elements, by all eight warps. A warp computes 8
            # features at a time, so with up to 16 features at most two warps have any that are there.
            prefer=(blocks(*OF_WARPS) > (2 + 8 * odd) * MULTIPROCESSORS) & (outputs > 16 * odd),
        ),
        Variant(
            "tile",
            Launch((ceil_div(n, 128), ceil_div(outputs, 32), 1), THREADS, extras=(n,)),
            "register tiles",
            source="tile.cu",
            types=FLOAT,
            when=outputs <= MAX_GRID_Y * 32,
            prefer=blocks(128, 32) > MULTIPROCESSORS,
        ),
        Variant(
            "warp_by4",
            Launch(
                (ceil_div(outputs, OF_WARPS[1]), minimum(ceil_div(n, OF_WARPS[0]), MAX_GRID_Y), 1),
                THREADS,
                extras=(n,),
            ),
            "a warp four output features of eight rows",
            entry="dense_bias_relu_by4",
        ),
    ),
    claims=CLAIMS,
    patterns=PATTERNS,
    reference=reference,
    # Rows are counted in 32 bits, by a warp to as many beyond the last as a grid takes at once.
    max_elements=INT32_MAX - OF_WARPS[0] * MAX_GRID_Y,
    examples=(
        {"n": 1, "in": 256, "out": 120},
        {"n": 7, "in": 120, "out": 84},
        {"n": 33, "in": 85, "out": 11},
        {"n": 133, "in": 84, "out": 10},
        {"n": 12_289, "in": 256, "out": 120},
        {"n": 8195, "in": 256, "out": 120},
        {"n": 515, "in": 85, "out": 131},
    ),
    flops=2 * n * inputs * outputs,
    source_dir=Path(__file__).parent,
)
