"""Measure images per second from host memory, and what limits them: PCIe, computation or the host.

On a GPU the images lie in pinned memory as uint8 and go through several streams, so that copies run beside compute;
they are divided by 255 inside the captured graph. Each part also runs alone, and the slowest one is the limit.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.cuda.driver import Pinned, Stream, ask, driver
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.images.batches import batches
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.runtimes.arrays import own_array
from lenet_trt.runtimes.network import Network
from lenet_trt.runtimes.pixels import scaled_pixels

if TYPE_CHECKING:
    from lenet_trt.images.form import Form
    from lenet_trt.runtimes.protocol import DeviceRuntime

DEFAULT_BATCH = 2048
LANES = 3
# Each part is measured so often, taking turns, each time for so long.
_ROUNDS = 5
_ROUND_SECONDS = 0.2
# Images are repeated until there are so many bytes: more than any cache between memory and GPU.
_LEAST_BYTES = 64 << 20
_LIMITS = {
    "copies": "PCIe: the copies alone take longest",
    "compute": "compute: the network alone takes longest",
    "host": "the host: putting the work into the streams takes longest (a larger --batch puts in less)",
    "CPU": "the host: everything is computed on the CPU, one batch after the other",
}


@dataclass(frozen=True)
class Measured:
    """Hold images per second: the median, the slowest and the fastest of several rounds, and each part alone.

    ``bytes_per_image`` are copied to the device.
    """

    images_per_s: float
    slowest: float
    fastest: float
    limit: str
    alone: Mapping[str, float]
    batch: int
    streams: int
    bytes_per_image: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "images_per_s": self.images_per_s,
            "slowest": self.slowest,
            "fastest": self.fastest,
            "limit": self.limit,
            "alone": dict(self.alone),
            "batch": self.batch,
            "streams": self.streams,
            "bytes_per_image": self.bytes_per_image,
        }

    def lines(self) -> list[str]:
        """Return lines for people."""
        rounds = f"(median of {_ROUNDS} rounds, from {self.slowest:,.0f} to {self.fastest:,.0f})"
        lines = [f"{self.images_per_s:,.0f} images/s  {rounds}", f"limit: {_LIMITS[self.limit]}"]
        if self.streams:
            rate = self.images_per_s * self.bytes_per_image / 1e9
            lines.append(f"{self.streams} streams, batch {self.batch}, {rate:.2f} GB/s to the GPU")
            lines += [f"{part} alone: {value:,.0f} images/s" for part, value in self.alone.items()]
        else:
            lines.append(f"batch {self.batch}, no GPU involved")
        return lines


def pixels_of(sources: Sequence[str], form: Form) -> NDArray[np.uint8]:
    """Return all images of the sources at once.

    Shapes: [n, channels, height, width].
    """
    found = [batch.pixels for batch in batches(sources, form, 1 << 16)]
    if not found:
        raise LenetTrtError(f"{' '.join(sources)} holds no images")
    return np.concatenate(found)


def measure_throughput(network: Network, pixels: NDArray[np.uint8], batch: int | None = None) -> Measured:
    """Measure a network that takes images; ``batch`` None is what it is made for, else ``DEFAULT_BATCH``.

    Shapes: pixels [n, channels, height, width].

    Raises:
        UsageError: the network takes another batch.
        LenetTrtError: it fails.
    """
    fixed = network.inputs[0].axes[0]
    if isinstance(fixed, int) and batch not in (None, fixed):
        raise UsageError(f"--batch {batch}: the network takes batches of {fixed}")
    batch = network.inputs[0].batch(batch, DEFAULT_BATCH)
    device = network.on_device
    return _on_cpu(network, pixels, batch) if device is None else _on_gpu(device, pixels, batch)


def _on_cpu(network: Network, pixels: NDArray[np.uint8], batch: int) -> Measured:
    chunks = _chunks(pixels, batch, 1)
    network(chunks[0])

    def everything() -> int:
        for chunk in chunks:
            network(chunk)
        return len(chunks) * batch

    rates = _in_turns({"all": everything})["all"]
    return _measured(rates, "CPU", {}, batch, 0, pixels[0].nbytes)


def _on_gpu(runtime: DeviceRuntime, pixels: NDArray[np.uint8], batch: int) -> Measured:
    data = pixels if runtime.scales_images else scaled_pixels(runtime.inputs[0], pixels)
    pipeline = _Pipeline(runtime, _chunks(data, batch, LANES))
    try:
        everything = partial(pipeline.run, copy=True, compute=True)
        parts = {"copies": partial(pipeline.run, copy=True), "compute": partial(pipeline.run, compute=True)}
        rates = _in_turns({"all": everything, **parts})
        alone = {part: statistics.median(values) for part, values in rates.items() if part != "all"}
        alone["host"] = pipeline.host_rate()
    finally:
        pipeline.wait()
    limit = min(alone, key=lambda part: alone[part])
    return _measured(rates["all"], limit, alone, batch, LANES, data[0].nbytes)


class _Lane:
    """Hold a stream with a call and its input; lanes copy and compute at the same time."""

    def __init__(self, runtime: DeviceRuntime, chunk: NDArray[Any]) -> None:
        self.stream = Stream()
        self.input = own_array(chunk.shape, chunk.dtype.name)
        ask(driver().cuMemsetD8(self.input.pointer, 0, self.input.nbytes), "cannot clear memory")
        ask(driver().cuCtxSynchronize(), "earlier work on the GPU failed")
        self.call = runtime.prepare([self.input])
        self.output = self.call.outputs[0]


class _Pipeline:
    """Send all pinned images through the lanes in turn, and copy the results back."""

    def __init__(self, runtime: DeviceRuntime, chunks: NDArray[Any]) -> None:
        self._lanes = [_Lane(runtime, chunks[0]) for _ in range(LANES)]
        output = self._lanes[0].output
        self._images = Pinned(chunks)
        self.results = Pinned(np.zeros((len(chunks), *output.shape), numpy_dtype(output.dtype)))
        self._count = len(chunks) * len(chunks[0])
        self._sizes = chunks[0].nbytes, output.nbytes
        self._host_s: list[float] = []

    def run(self, *, copy: bool = False, compute: bool = False) -> int:
        """Send everything through once and return the number of images."""
        cuda = driver()
        size, result_size = self._sizes
        source, target = self._images.pointer, self.results.pointer
        begin = time.perf_counter()
        for index in range(len(self._images.array)):
            lane = self._lanes[index % LANES]
            stream = lane.stream.handle
            if copy:
                ask(cuda.cuMemcpyHtoDAsync(lane.input.pointer, source + index * size, size, stream), "cannot copy")
            if compute:
                lane.call(stream)
            if copy:
                answer = cuda.cuMemcpyDtoHAsync(target + index * result_size, lane.output.pointer, result_size, stream)
                ask(answer, "cannot copy")
        if copy and compute:
            self._host_s.append(time.perf_counter() - begin)
        self.wait()
        return self._count

    def host_rate(self) -> float:
        """Return the images per second that the host can put into the streams, from the runs with all parts."""
        return self._count / statistics.median(self._host_s)

    def wait(self) -> None:
        """Wait until all lanes are done."""
        for lane in self._lanes:
            lane.stream.synchronize()


def _chunks(pixels: NDArray[Any], batch: int, least: int) -> NDArray[Any]:
    """Return the images, repeated to whole batches.

    Shapes: [chunks, batch, channels, height, width].
    """
    wanted = max(least * batch, -(-min(_LEAST_BYTES, 8 * pixels.nbytes) // pixels[0].nbytes), len(pixels))
    count = -(-wanted // batch)
    indices = np.arange(count * batch) % len(pixels)
    return pixels[indices].reshape(count, batch, *pixels.shape[1:])


def _in_turns(parts: Mapping[str, Callable[[], int]]) -> dict[str, list[float]]:
    """Return images per second of each part, in rounds that take turns, so that a drift affects all parts."""
    rates: dict[str, list[float]] = {name: [] for name in parts}
    for part in parts.values():
        part()
    for _ in range(_ROUNDS):
        for name, part in parts.items():
            images = 0
            begin = time.perf_counter()
            while (elapsed := time.perf_counter() - begin) < _ROUND_SECONDS:
                images += part()
            rates[name].append(images / elapsed)
    return rates


def _measured(
    rates: Sequence[float], limit: str, alone: Mapping[str, float], batch: int, streams: int, bytes_per_image: int
) -> Measured:
    return Measured(statistics.median(rates), min(rates), max(rates), limit, alone, batch, streams, bytes_per_image)
