"""Run one inference of a loaded network again and again on the same inputs, and time it without a profiler."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lenet_trt.cuda.driver import Pinned, Stream, ask, driver
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.runtimes.arrays import own_array
from lenet_trt.runtimes.protocol import DeviceRuntime, HostRuntime, PreparedCall

Inference: TypeAlias = Callable[[], None]

# Untraced timings: at most _MOST, as many as fit into the time, and at least _LEAST.
_MOST, _LEAST = 300, 10
_SECONDS = 2.0


def on_host(runtime: HostRuntime, arrays: Sequence[NDArray[Any]]) -> Inference:
    """Make an inference of a runtime that computes on the host."""

    def infer() -> None:
        runtime.run(arrays)

    return infer


class DeviceInference:
    """Run an inference on the GPU: put it into a stream and wait; with ``transfers`` copy from and to the host too."""

    def __init__(self, runtime: DeviceRuntime, arrays: Sequence[NDArray[Any]], transfers: bool) -> None:
        inputs = [own_array(array.shape, array.dtype.name) for array in arrays]
        for memory, array in zip(inputs, arrays, strict=True):
            memory.owner.write(array.reshape(-1))
        self._runtime, self._inputs, self._transfers = runtime, inputs, transfers
        self._stream = Stream()
        self._up = (
            [(memory.pointer, Pinned(array), array.nbytes) for memory, array in zip(inputs, arrays, strict=True)]
            if transfers
            else []
        )
        self.prepare()

    def prepare(self) -> None:
        """Prepare the call, again where one exists already."""
        self.call: PreparedCall = self._runtime.prepare(self._inputs)
        self._down = [
            (Pinned(np.zeros(output.shape, numpy_dtype(output.dtype))), output.pointer, output.nbytes)
            for output in (self.call.outputs if self._transfers else ())
        ]

    def __call__(self) -> None:
        """Run one inference and wait for its result."""
        cuda, stream = driver(), self._stream.handle
        for pointer, pinned, count in self._up:
            ask(cuda.cuMemcpyHtoDAsync(pointer, pinned.pointer, count, stream), "cannot copy to the GPU")
        self.call(stream)
        for pinned, pointer, count in self._down:
            ask(cuda.cuMemcpyDtoHAsync(pinned.pointer, pointer, count, stream), "cannot copy from the GPU")
        self._stream.synchronize()


def median_us(infer: Inference, warmup: int) -> float:
    """Return the median time of many inferences, one after the other, by the host's clock."""
    for _ in range(warmup):
        infer()
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(times) < _LEAST or (len(times) < _MOST and time.perf_counter() < end):
        begin = time.perf_counter()
        infer()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6
