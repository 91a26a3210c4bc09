"""Batches on the GPU: every backend reads the same memory and works in the same stream."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.benchmarks.backends.protocol import Images
from lenet_trt.device import Pinned, Stream, ask, driver
from lenet_trt.runtimes.arrays import DeviceArray
from lenet_trt.runtimes.libraries import TORCH
from lenet_trt.runtimes.protocol import DeviceRuntime


@cache
def stream() -> Stream:
    """The stream in which all backends of this process work."""
    # A stream must be destroyed while the driver's bindings are still there.
    atexit.register(stream.cache_clear)
    return Stream()


class OnGpu:
    """A batch that ``submit`` puts into the stream.

    ``output`` is where the logits lie; None: in the torch tensor that ``submit`` returns. ``self_waiting``: it waits
    for the GPU by itself, so that its work cannot be timed on the GPU alone.
    """

    def __init__(
        self,
        images: Images,
        submit: Callable[[], Any],
        output: DeviceArray | None,
        details: Mapping[str, Any] | None = None,
        self_waiting: bool = False,
    ) -> None:
        self.details = details or {}
        self.submit = submit
        self.self_waiting = self_waiting
        self._images = images
        self._output = output
        self._wait = stream().synchronize

    def __call__(self) -> None:
        """Put the work into the stream and wait for it."""
        self.submit()
        self._wait()

    def logits(self) -> NDArray[np.float32]:
        """Fill the logits with NaN, compute them and copy them to the host."""
        before = self._output
        if before is None:  # torch most often takes the same memory again
            before = TORCH.view(self.submit())
            self._wait()
        ask(driver().cuMemsetD8(before.pointer, 0xFF, before.nbytes), "cannot fill memory")
        ask(driver().cuCtxSynchronize(), "cannot fill memory")
        del before
        output = self._logits_of(self.submit())
        self._wait()
        found = np.empty(output.shape, np.dtype(output.dtype))
        ask(driver().cuMemcpyDtoH(found.ctypes.data, output.pointer, found.nbytes), "cannot copy from the GPU")
        return found.astype(np.float32)

    def from_host(self) -> Callable[[], None]:
        """The same, from images in pinned host memory to logits there: both copies and the wait are in the call."""
        given = Pinned(self._images.host)
        taken = Pinned(np.empty(self._images.exact.shape, np.float32))
        device, handle, cuda = self._images.device, stream().handle, driver()

        def call() -> None:
            answer = cuda.cuMemcpyHtoDAsync(device.pointer, given.pointer, device.nbytes, handle)
            ask(answer, "cannot copy to the GPU")
            output = self._logits_of(self.submit())
            answer = cuda.cuMemcpyDtoHAsync(taken.pointer, output.pointer, output.nbytes, handle)
            ask(answer, "cannot copy from the GPU")
            self._wait()

        return call

    def _logits_of(self, submitted: Any) -> DeviceArray:
        return TORCH.view(submitted) if self._output is None else self._output


class RuntimeSession:
    """A runtime that prepares calls on the GPU: the graph runtime, ONNX Runtime with CUDA, TensorRT."""

    def __init__(
        self, runtime: DeviceRuntime, details: Mapping[str, Any] | None = None, self_waiting: bool = False
    ) -> None:
        self._runtime = runtime
        self._details = details or {}
        self._self_waiting = self_waiting

    def prepare(self, images: Images) -> OnGpu:
        """Make a call ready that reads the images where they lie."""
        call = self._runtime.prepare([images.device])
        outputs: Sequence[DeviceArray] = call.outputs
        handle = stream().handle
        return OnGpu(images, lambda: call(handle), outputs[0], self._details, self._self_waiting)

    def close(self) -> None:
        """Let go of the runtime."""
        self._runtime.close()
