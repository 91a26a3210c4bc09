"""Define what a backend is to the suites: it is described, opened once, and made ready for each batch of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lenet_trt.runtimes.arrays import DeviceArray, own_array

Processor: TypeAlias = Literal["CPU", "GPU"]
Precision: TypeAlias = Literal["fp32", "fp16", "int8"]

# The largest relative error of the logits, in norm, of a right implementation; int8 counts against the float network.
TOLERANCES: Mapping[Precision, float] = {"fp32": 1e-5, "fp16": 5e-3, "int8": 3e-2}
# Images that the reference computes at once: its float64 tensors take 0.1 MB per image.
_PIECE = 1000


@dataclass(frozen=True)
class LabelledBatch:
    """Hold a batch and the right answers for it.

    Shapes: host [n, 1, 28, 28] float32 or, quantized, int8; exact [n, 10] float64 (the logits in float64), labels [n]
    uint8.
    """

    host: NDArray[Any]
    exact: NDArray[np.float64]
    labels: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.host)

    @cached_property
    def device(self) -> DeviceArray:
        """Return the images in the GPU's memory, where every backend reads them."""
        from lenet_trt.cuda.driver import ask, driver

        array = own_array(self.host.shape, self.host.dtype.name)
        ask(driver().cuMemcpyHtoD(array.pointer, self.host.ctypes.data, self.host.nbytes), "cannot copy to the GPU")
        return array

    @cached_property
    def quantized(self) -> LabelledBatch:
        """Return the same batch with one byte a pixel, as the shipped int8 network quantizes its input."""
        from lenet_trt.kernel.registry import part
        from lenet_trt.kernel.saturate import quantize

        scale = part("lenet5_int8", "trained").trained()["x_scale"]  # type: ignore[union-attr]
        return LabelledBatch(quantize(self.host, scale, "int8"), self.exact, self.labels)


def mnist(count: int) -> LabelledBatch:
    """Return ``count`` MNIST test images; after the last image it begins with the first one again."""
    host, exact, labels = _test_set()
    if count == len(host):
        return LabelledBatch(host, exact, labels)
    index = np.arange(count) % len(host)
    return LabelledBatch(host[index], exact[index], labels[index])


@cache
def _test_set() -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.uint8]]:
    from lenet_trt.export.mnist import network_input, test_set
    from lenet_trt.export.weights import load_weights
    from lenet_trt.kernel.registry import kernel

    pixels, labels = test_set()
    host = network_input(pixels)
    declared = kernel("lenet5")
    shipped = load_weights()
    weights = [shipped[t.name.replace("_", ".")].astype(np.float64) for t in declared.inputs if t.weight]
    pieces = (host[start : start + _PIECE].astype(np.float64) for start in range(0, len(host), _PIECE))
    return host, np.concatenate([np.asarray(declared.reference(piece, *weights)) for piece in pieces]), labels


class Ready(Protocol):
    """Define a backend that is ready for a batch."""

    @property
    def details(self) -> Mapping[str, Any]:
        """Return plain values for the backend's row."""

    def __call__(self) -> None:
        """Classify the images where they lie, and return when the logits are complete."""

    def logits(self) -> NDArray[np.float32]:
        """Classify the images once more and return the logits [n, 10]; none is left from an earlier call."""


class Session(Protocol):
    """Define an open backend: its weights are where it computes."""

    def prepare(self, images: LabelledBatch) -> Ready:
        """Make a batch ready: compile and capture what it needs.

        Raises:
            Exception: the batch cannot be made ready; the message says why.
        """

    def close(self) -> None:
        """Release what the session holds."""


@dataclass(frozen=True)
class Backend:
    """Describe a way to run the network.

    ``what``: one line that says how the backend works. ``open``: opens it, or raises an error that says why it cannot
    run here. ``host_too``: it is on the GPU and is also timed with images in host memory. ``batches``: the batches at
    which it is measured by default, where preparing one takes long. ``quick``: --quick takes it.
    """

    name: str
    what: str
    place: Processor
    open: Callable[[], Session]
    precision: Precision = "fp32"
    host_too: bool = False
    batches: tuple[int, ...] | None = None
    quick: bool = True
