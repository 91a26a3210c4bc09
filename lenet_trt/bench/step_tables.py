"""How the numbered steps are launched; each step's header says what it is about."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lenet_trt.bench.steps import Step, StepLaunch
from lenet_trt.kernel.dims import DimLike, axes, ceil_div, product, size_of
from lenet_trt.kernel.registry import kernel as kernel_named

THREADS = 256
PACK_BYTES = 16


@dataclass(frozen=True)
class Ladder:
    """The steps of one kernel."""

    kernel: str
    steps: tuple[Step, ...]


(n,) = axes("n")


def _outputs(source: str, entry: str, outputs: DimLike, *arguments: str | DimLike) -> StepLaunch:
    """A thread an output."""
    return StepLaunch(f"steps/{source}", entry, (ceil_div(outputs, THREADS), 1, 1), THREADS, arguments)


def _images(source: str, entry: str, block: int, *arguments: str | DimLike) -> StepLaunch:
    """A block an image."""
    return StepLaunch(f"steps/{source}", entry, (n, 1, 1), block, arguments)


_GLOBAL = "01_one_thread_an_output.cu"
_CONSTANT = "02_constant_memory.cu"
_SHARED = "03_shared_memory.cu"
_POOLED = {"p1": (n, 6, 12, 12), "p2": (n, 256), "h1": (n, 120), "h2": (n, 84)}
_LINEAR = (
    _outputs(_GLOBAL, "linear_relu", n * 120, "p2", "fc1_weight", "fc1_bias", n, 256, 120, "h1"),
    _outputs(_GLOBAL, "linear_relu", n * 84, "h1", "fc2_weight", "fc2_bias", n, 120, 84, "h2"),
    _outputs(_GLOBAL, "linear", n * 10, "h2", "fc3_weight", "fc3_bias", n, 84, 10, "y"),
)
_LENET5_1 = Step(
    "1: a thread an output",
    (
        _outputs(_GLOBAL, "conv5x5_relu", n * 6 * 24 * 24, "x", "conv1_weight", "conv1_bias", n, 1, 28, 6, "c1"),
        _outputs(_GLOBAL, "maxpool2x2", n * 6 * 12 * 12, "c1", n * 6, 24, "p1"),
        _outputs(_GLOBAL, "conv5x5_relu", n * 16 * 8 * 8, "p1", "conv2_weight", "conv2_bias", n, 6, 12, 16, "c2"),
        _outputs(_GLOBAL, "maxpool2x2", n * 16 * 4 * 4, "c2", n * 16, 8, "p2"),
        *_LINEAR,
    ),
    buffers={"c1": (n, 6, 24, 24), "c2": (n, 16, 8, 8), **_POOLED},
)
_WEIGHTS = ("conv1_weight", "conv1_bias", "conv2_weight", "conv2_bias")
_LENET5_ARGUMENTS = (
    *(f"{layer}_{part}" for layer in ("conv1", "conv2", "fc1", "fc2", "fc3") for part in ("weight", "bias")),
)

LENET5 = Ladder(
    "lenet5",
    (
        replace(_LENET5_1, name="1: a thread an output, a sync after each launch", sync=True),
        _LENET5_1,
        Step(
            "2: filters in constant memory, pool fused",
            (
                _images(_CONSTANT, "conv1_relu_pool_constant", 960, "x", n, "p1"),
                _images(_CONSTANT, "conv2_relu_pool_constant", 512, "p1", n, "p2"),
                *_LINEAR,
            ),
            buffers=_POOLED,
            constants={name: name for name in _WEIGHTS},
        ),
        Step(
            "3: shared memory, a warp a row",
            (
                _images(_SHARED, "conv1_relu_pool_shared", THREADS, "x", "conv1_weight", "conv1_bias", n, "p1"),
                _images(_SHARED, "conv2_relu_pool_shared", THREADS, "p1", "conv2_weight", "conv2_bias", n, "p2"),
                _images(_SHARED, "linear_relu_shared", THREADS, "p2", "fc1_weight", "fc1_bias", n, 256, 120, "h1"),
                _images(_SHARED, "linear_relu_shared", THREADS, "h1", "fc2_weight", "fc2_bias", n, 120, 84, "h2"),
                _images(_SHARED, "linear_shared", THREADS, "h2", "fc3_weight", "fc3_bias", n, 84, 10, "y"),
            ),
            buffers=_POOLED,
        ),
        Step(
            "4: one launch, a block an image",
            (_images("04_whole_network.cu", "lenet5_whole_network", THREADS, "x", *_LENET5_ARGUMENTS, n, "y"),),
        ),
    ),
)

h, w, k = axes("h w k")
_CONV_ARGUMENTS: tuple[str | DimLike, ...] = ("x", "w", "bias", n, "y")
_PIXELS = (h - 4) * (w - 4)


def _conv(name: str, source: str, entry: str, *grid: DimLike, constants: dict[str, str] | None = None) -> Step:
    x, y = (*grid, 1)[:2]
    launch = StepLaunch(f"steps/{source}", entry, (x, y, 1), THREADS, _CONV_ARGUMENTS)
    return Step(name, (launch,), constants=constants or {})


def _as_variant(name: str, kernel: str, variant: str, source: str, entry: str) -> Step:
    """A step that is launched as a variant of the product is."""
    launch = kernel_named(kernel).variant(variant).launch
    step = StepLaunch(source, entry, launch.grid, launch.block[0], _CONV_ARGUMENTS, launch.shared_bytes)
    return Step(name, (step,))


CONV = Ladder(
    "conv5x5_bias",
    (
        _conv(
            "1: a thread an output", "01_global_memory.cu", "conv5x5_bias_step01", ceil_div(n * k * _PIXELS, THREADS)
        ),
        _conv(
            "2: filters in constant memory",
            "02_constant_memory.cu",
            "conv5x5_bias_step02",
            ceil_div(n * _PIXELS, THREADS),
            k,
            constants={"conv5x5_bias_weights": "w"},
        ),
        _conv("3: images in shared memory", "03_shared_tile.cu", "conv5x5_bias_step03", n),
        _as_variant(
            "4: tiles in registers", "conv5x5_bias", "ffma", "steps/04_register_tile.cu", "conv5x5_bias_step04"
        ),
        _as_variant(
            "5: tensor cores, split floats", "conv5x5_bias", "split", "steps/05_tensor_cores.cu", "conv5x5_bias_step05"
        ),
    ),
)
CONV_POOL = Ladder(
    "conv5x5_bias_relu_pool2",
    (
        _as_variant(
            "6: ReLU and max-pool fused",
            "conv5x5_bias_relu_pool2",
            "split",
            "../conv5x5_bias/steps/06_fused_pool.cu",
            "conv5x5_bias_step06",
        ),
    ),
)

outer, broadcast, inner, rows = axes("outer broadcast inner rows")
_ROWS = product((outer, broadcast, inner, rows))
_LANES = k * size_of("T") // PACK_BYTES


def _matvec(name: str, source: str, entry: str, threads: DimLike) -> Step:
    arguments = ("a", "x", outer, broadcast, inner, rows, "y")
    grid: tuple[DimLike, DimLike, DimLike] = (ceil_div(threads, THREADS), 1, 1)
    return Step(name, (StepLaunch(f"steps/{source}", entry, grid, THREADS, arguments),))


MATMUL = Ladder(
    "batched_matvec",
    (
        _matvec("1: a thread a row", "01_thread_a_row.cu", "batched_matvec_step01", _ROWS),
        _matvec("2: a warp a row", "02_warp_a_row.cu", "batched_matvec_step02", _ROWS * 32),
        _matvec("3: 16-byte loads", "03_wide_loads.cu", "batched_matvec_step03", _ROWS * _LANES),
        _matvec("4: four rows in flight", "04_rows_in_flight.cu", "batched_matvec_step04", ceil_div(_ROWS, 4) * _LANES),
    ),
)

LADDERS: tuple[Ladder, ...] = (LENET5, CONV, CONV_POOL, MATMUL)
