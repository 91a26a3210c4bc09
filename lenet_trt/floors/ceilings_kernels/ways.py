"""Provide what is timed for a ceiling: ways to move bytes or to compute, each with the amount of one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from lenet_trt.cuda.driver import Buffer, Context, Stream, ask, driver
from lenet_trt.cuda.launch import prepare
from lenet_trt.cuda.timing import Call
from lenet_trt.errors import LenetTrtError
from lenet_trt.floors.ceilings_kernels import COLUMNS, COPY, FMA, MMA, MMA8, READ, WRITE
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.examples import kernel_inputs, plain_inputs
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.kernel.variants import OLDEST_SM

LARGEST_BUFFER_BYTES = 2 << 30
# A buffer has at least this many times the L2 cache's size: parts of a smaller buffer would stay in the cache.
L2_TIMES = 4
RANDOM_BYTES = 64 << 20
# Threads and warps per multiprocessor: enough to keep it busy for several rounds of blocks.
FMA_THREADS, MMA_WARPS = 8 * 2048, 128
MATRIX = 8192
FILLED_BYTES = 1 << 30


@dataclass(frozen=True)
class Way:
    """Hold one way; ``amount`` is the bytes or operations of one call."""

    amount: float
    call: Call


Ways: TypeAlias = dict[str, Way]


class Buffers:
    """Hold two large pieces of device memory with random bits (zeros would need less power and allow higher clocks).

    Raises:
        LenetTrtError: too little GPU memory is free.
    """

    def __init__(self, context: Context) -> None:
        attribute = driver().CUdevice_attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
        l2_bytes = int(ask(driver().cuDeviceGetAttribute(attribute, context.device), "cannot ask for the L2 cache"))
        free = int(ask(driver().cuMemGetInfo(), "cannot ask for the free memory")[0])
        least = max(L2_TIMES * l2_bytes, RANDOM_BYTES)
        self.size = min(LARGEST_BUFFER_BYTES, free // 4) // RANDOM_BYTES * RANDOM_BYTES
        if self.size < least:
            raise LenetTrtError(
                f"{free >> 20} MiB of the GPU's memory are free; measuring its bandwidth beyond the L2 cache of "
                f"{l2_bytes >> 20} MiB needs {4 * least >> 20} MiB: end other programs that use the GPU"
            )
        self.source, self.target, self.result = Buffer(self.size), Buffer(self.size), Buffer(16)
        bits = np.random.default_rng(20).integers(0, 1 << 32, RANDOM_BYTES // 4, np.uint32)
        for buffer in (self.source, self.target):
            for offset in range(0, self.size, RANDOM_BYTES):
                buffer.write(bits, offset)


def bandwidths(buffers: Buffers, stream: Stream) -> dict[str, Ways]:
    """Return ways to read, write and copy: our kernels with each block count and cache hint, and the driver's."""
    source, target, size = buffers.source.pointer, buffers.target.pointer, buffers.size
    numbers = size // 4
    rows = numbers // COLUMNS
    rng = np.random.default_rng(21)
    vectors = _uploaded([rng.standard_normal(count, np.float32) for count in (rows, COLUMNS)])
    calls: dict[str, tuple[Kernel, dict[str, int], list[int], int]] = {
        "read": (READ, {"n": numbers}, [source, buffers.result.pointer], size),
        "write": (WRITE, {"rows": rows}, [*(vector.pointer for vector in vectors), target], size),
        "copy": (COPY, {"n": numbers}, [source, target], 2 * size),
    }
    found: dict[str, Ways] = {what: {} for what in calls}
    for what, (kernel, axes, pointers, amount) in calls.items():
        for hint in ("plain", "streaming"):
            bound = kernel.bind_axes(axes, kernel.types[0], {"hint": hint})
            found[what] |= _variants(bound, pointers, stream, amount, f"{hint}, ", keep=vectors)
    found["write"]["the driver's memset"] = Way(size, _memset(target, numbers, stream))
    found["copy"]["the driver's copy"] = Way(2 * size, _memcpy(target, source, size, stream))
    return found


def rates(stream: Stream, context: Context) -> dict[str, Ways]:
    """Return ways to compute: multiply-adds, and mma.sync in each type that has tensor cores here."""
    found = {"fp32": _filled(FMA, {"n": FMA_THREADS * context.multiprocessors}, "fp32", stream, "FMA, ")}
    axes = {"warps": MMA_WARPS * context.multiprocessors}
    for types in MMA.types if context.sm >= 80 else [MMA.types_named("fp16")]:
        found[types.name] = _filled(MMA, axes, types.name, stream, "mma.sync, ")
    for types in MMA8.types:
        if context.sm >= max(ELEMENT_TYPES[types.variables["T"]].lowest_sm, OLDEST_SM):
            found[types.name] = _filled(MMA8, axes, types.name, stream, "mma.sync, ")
    return found


def libraries(stream: Stream) -> tuple[dict[str, tuple[str, Way]], str | None]:
    """Return torch's ways by purpose: large products by cuBLAS, and filling memory; or why there are none."""
    try:
        import torch
    except ImportError:
        return {}, "torch is not installed"
    if not torch.cuda.is_available():
        return {}, "the torch installed here has no CUDA"
    outer = torch.cuda.ExternalStream(stream.handle)
    settings = torch.backends.cuda.matmul

    def product(left: Any, right: Any, tf32: bool = False) -> Call:
        out = torch.empty_like(left)

        def call() -> None:
            before = settings.allow_tf32
            settings.allow_tf32 = tf32
            try:
                with torch.cuda.stream(outer), torch.no_grad():
                    torch.matmul(left, right, out=out)
            finally:
                settings.allow_tf32 = before

        return call

    a, b = torch.randn(2, MATRIX, MATRIX, device="cuda").unbind()
    calls = {
        "fp32": product(a, b),
        "tf32": product(a, b, tf32=True),
        "fp16": product(a.half(), b.half()),
        "bf16": product(a.bfloat16(), b.bfloat16()),
    }
    calls |= _products_of_8_bits(torch, outer)
    found = {name: ("cuBLAS", Way(2 * MATRIX**3, call)) for name, call in calls.items()}
    block = torch.empty(FILLED_BYTES // 4, device="cuda")

    def fill() -> None:
        with torch.cuda.stream(outer):
            block.fill_(1.234)

    found["write"] = ("torch's fill", Way(FILLED_BYTES, fill))
    torch.cuda.synchronize()
    return found, None


def _products_of_8_bits(torch: Any, outer: Any) -> dict[str, Call]:
    """Return products of int8 and float8 by cuBLAS, as far as this torch and this GPU have them."""
    a, b = torch.randn(2, MATRIX, MATRIX, device="cuda").unbind()
    one = torch.ones((), device="cuda")
    found: dict[str, Call] = {}

    def add(name: str, product: Callable[[Any, Any], Any], *of: Any) -> None:
        def call() -> None:
            with torch.cuda.stream(outer), torch.no_grad():
                product(*of)

        try:
            call()
        except (AttributeError, RuntimeError, ValueError):  # as each release says that it has none
            return
        found[name] = call

    small = [each.mul(40).clamp(-127, 127).to(torch.int8) for each in (a, b)]
    add("int8", lambda x, y: torch._int_mm(x, y.t()), *small)
    if hasattr(torch, "float8_e4m3fn"):
        options = {"out_dtype": torch.bfloat16, "use_fast_accum": True}
        narrow = [each.to(torch.float8_e4m3fn) for each in (a, b)]
        add("fp8", lambda x, y: torch._scaled_mm(x, y.t(), one, one, **options), *narrow)
    return found


def _variants(bound: Bound, pointers: Sequence[int], stream: Stream, amount: float, prefix: str, keep: object) -> Ways:
    """Return the call by each variant; ``keep`` is memory that must live as long as the calls."""

    def way(launch: Callable[[Sequence[int], int], None]) -> Way:
        def call(_keep: object = keep) -> None:
            launch(pointers, stream.handle)

        return Way(amount, call)

    return {f"{prefix}{v.name}": way(prepare(bound, v)) for v in bound.kernel.variants}


def _filled(kernel: Kernel, axes: Mapping[str, int], types: str, stream: Stream, prefix: str) -> Ways:
    """Return the call by each variant, on random inputs in memory of its own."""
    bound = kernel.bind_axes(axes, kernel.types_named(types))
    inputs = kernel_inputs(bound, plain_inputs(bound, np.random.default_rng(22)))
    if kernel is FMA:
        inputs[1] = bounded_factors(inputs[1])
    (shape,) = bound.output_shapes
    memory = [*_uploaded(inputs), Buffer(4 * math.prod(shape))]
    return _variants(bound, [each.pointer for each in memory], stream, bound.flops, prefix, keep=memory)


def bounded_factors(values: np.ndarray) -> np.ndarray:
    """Return factors slightly above -1: the chains stay bounded, and alternate for long before they settle."""
    return (-0.9999 + 0.009 * np.abs(np.tanh(values))).astype(np.float32)


def _uploaded(arrays: Sequence[np.ndarray]) -> list[Buffer]:
    buffers = []
    for array in arrays:
        buffers.append(Buffer(array.nbytes))
        buffers[-1].write(array)
    return buffers


def _memset(target: int, numbers: int, stream: Stream) -> Call:
    pattern = 0x3F9E0652
    return lambda: ask(driver().cuMemsetD32Async(target, pattern, numbers, stream.handle), "cannot set memory")


def _memcpy(target: int, source: int, size: int, stream: Stream) -> Call:
    return lambda: ask(driver().cuMemcpyDtoDAsync(target, source, size, stream.handle), "cannot copy on the GPU")
