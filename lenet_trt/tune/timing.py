"""Time the variants of a call in turns, on device memory of its own: neither torch nor TensorRT is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from lenet_trt.cuda.driver import Buffer, Stream, ask, current_context, driver
from lenet_trt.cuda.environment import environment
from lenet_trt.cuda.hold import memory_hold
from lenet_trt.cuda.launch import prepare
from lenet_trt.cuda.statistics import Stats
from lenet_trt.cuda.timing import Timed, TimingPlan, time_in_turns
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.examples import SEED, kernel_inputs, plain_inputs
from lenet_trt.kernel.layouts import LAYOUTS
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.kernel.variants import Variant

FIRST = TimingPlan(rounds=5, warmup=1, burst=8, settle=3, tolerance=0.05, budget_s=0.2)
AGAIN = TimingPlan(rounds=10, warmup=2, burst=8, settle=4, tolerance=0.02, budget_s=0.5)
_MOST_SETS = 8
_UNIT = 256  # each tensor begins at a multiple of so many bytes


class VariantBench:
    """Hold what all timings on the GPU share: a stream, memory, and what keeps the GPU busy before a timing."""

    def __init__(self) -> None:
        self.context = current_context()
        self._l2_bytes = int(str(environment()["l2_bytes"]))
        self._stream = Stream()
        self._hold = memory_hold(self._stream.handle)
        self._memory = Buffer(_UNIT)

    def time(
        self, bound: Bound, variants: Sequence[Variant], drawn: Sequence[bytes], plan: TimingPlan
    ) -> dict[str, Stats]:
        """Time variants of a call in turns; ``drawn``: bytes of each input, which are repeated to its size.

        Raises:
            LenetTrtError: a variant cannot be launched.
        """
        launchers = {variant.name: prepare(bound, variant) for variant in variants}
        sizes = [*tensor_bytes(bound), max(launcher.workspace_bytes for launcher in launchers.values())]
        sets = min(_MOST_SETS, math.ceil(2 * self._l2_bytes / max(sum(sizes), 1)) + 1)
        places = self._placed(sizes, drawn, sets)
        contenders = {}
        for name, launcher in launchers.items():
            count = len(sizes) if launcher.workspace_bytes else len(sizes) - 1
            calls = [partial(launcher, pointers[:count], self._stream.handle) for pointers in places]
            contenders[name] = Timed(calls)
        return time_in_turns(contenders, self._stream.handle, self._hold, plan)

    def _placed(self, sizes: Sequence[int], drawn: Sequence[bytes], sets: int) -> list[list[int]]:
        """Return the addresses of the tensors of each input set; the inputs are filled."""
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + -(-size // _UNIT) * _UNIT)
        whole = starts.pop()
        if self._memory.size_bytes < whole * sets:
            self._memory = Buffer(_UNIT)  # the old memory goes before the new one is there
            self._memory = Buffer(whole * sets)
        base = self._memory.pointer
        for index, content in enumerate(drawn):
            array = np.frombuffer(content, np.uint8)[: sizes[index]]
            self._memory.write(array, starts[index])
            _repeat(base + starts[index], array.size, sizes[index])
        for number in range(1, sets):
            _copy(base + number * whole, base, starts[len(drawn)])
        ask(driver().cuStreamSynchronize(0), "cannot copy on the GPU")  # the stream of the timings would not wait
        return [[base + number * whole + start for start in starts] for number in range(sets)]


def _repeat(address: int, filled: int, size: int) -> None:
    """Repeat the first bytes of a piece of device memory until it is full."""
    while 0 < filled < size:
        step = min(filled, size - filled)
        _copy(address + filled, address, step)
        filled += step


def _copy(to: int, start: int, size: int) -> None:
    if size:
        ask(driver().cuMemcpyDtoD(to, start, size), "cannot copy on the GPU")


def drawn_inputs(bound: Bound) -> list[bytes]:
    """Draw the inputs of a call, as they lie in memory."""
    arrays = kernel_inputs(bound, plain_inputs(bound, np.random.default_rng(SEED)))
    return [
        LAYOUTS[tensor.layout].store(array, 0).tobytes()
        for tensor, array in zip(bound.kernel.inputs, arrays, strict=True)
    ]


def tensor_bytes(bound: Bound) -> list[int]:
    """Return the bytes of each input and output."""
    shapes = (*bound.stored_input_shapes, *bound.stored_output_shapes)
    dtypes = (*bound.input_dtypes, *bound.output_dtypes)
    return [math.prod(shape) * ELEMENT_TYPES[dtype].size_bytes for shape, dtype in zip(shapes, dtypes, strict=True)]


def medians(times: Mapping[str, Stats]) -> str:
    """Write the medians for people, the fastest first."""
    ordered = sorted(times.items(), key=lambda entry: entry[1].median_us)
    return ", ".join(f"{name} {stats.median_us:.1f}" for name, stats in ordered)
