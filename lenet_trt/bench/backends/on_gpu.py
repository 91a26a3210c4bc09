"""Hold batches on the GPU: every backend reads the same memory and works in the same stream."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.bench.backends.protocol import LabelledBatch
from lenet_trt.cuda.driver import Pinned, Stream, ask, driver
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.runtimes.arrays import DeviceArray
from lenet_trt.runtimes.libraries import TORCH
from lenet_trt.runtimes.protocol import DeviceRuntime


@cache
def stream() -> Stream:
    """Return the stream in which all backends of this process work."""
    # A stream must be destroyed while the driver's bindings are still there.
    atexit.register(stream.cache_clear)
    return Stream()


@dataclass(frozen=True)
class Memory:
    """Describe where an array of a library lies, from its first element to its last; its rows may be padded.

    Units: ``strides`` and ``nbytes`` in bytes.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Return the bytes from the first element to the end of the last one, padding between rows included."""
        steps = zip(self.shape, self.strides, strict=True)
        return sum((length - 1) * stride for length, stride in steps) + self.dtype.itemsize

    def seen_in(self, copied: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the array inside a copy of these bytes."""
        return np.ndarray(self.shape, self.dtype, copied.data, strides=self.strides)


def memory_of(array: Any) -> Memory:
    """Find where a torch tensor or our own array lies; max-autotune puts rows of 10 into memory for 12.

    Nothing is copied: a copy would be one more kernel, which the library itself does not need.
    """
    if isinstance(array, DeviceArray):
        dense = np.empty(array.shape, numpy_dtype(array.dtype))
        return Memory(array.pointer, array.shape, dense.strides, dense.dtype)
    dtype = numpy_dtype(str(array.dtype).removeprefix("torch."))
    strides = tuple(stride * dtype.itemsize for stride in array.stride())
    return Memory(array.data_ptr(), tuple(array.shape), strides, dtype)


class OnGpu:
    """Run a batch that ``submit`` puts into the stream.

    ``output``: where the logits lie; None: in the torch tensor that ``submit`` returns. ``self_waiting``: ``submit``
    waits for the GPU itself, so that its work cannot be timed on the GPU alone.
    """

    def __init__(
        self,
        images: LabelledBatch,
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
        if before is None:  # torch usually takes the same memory again
            before = self.submit()
            self._wait()
        memory = memory_of(before)
        ask(driver().cuMemsetD8(memory.pointer, 0xFF, memory.nbytes), "cannot fill memory")
        ask(driver().cuCtxSynchronize(), "cannot fill memory")
        del before
        output = self._output_of(self.submit())
        self._wait()
        memory = memory_of(output)
        copied = np.empty(memory.nbytes, np.uint8)
        ask(driver().cuMemcpyDtoH(copied.ctypes.data, memory.pointer, memory.nbytes), "cannot copy from the GPU")
        return memory.seen_in(copied).astype(np.float32)

    def from_host(self) -> Callable[..., NDArray[Any]]:
        """Return a call from images in pinned host memory to logits there, with both copies and the wait.

        The result lies in that memory for as long as the call is kept. Images that are given to the call are first
        copied into the pinned memory.
        """
        given = Pinned(self._images.host)
        submit, output_of = self.submit, self._output_of
        memory = memory_of(output_of(submit()))
        self._wait()
        taken = Pinned(np.empty(memory.nbytes, np.uint8))
        logits = memory.seen_in(taken.array)
        pointer_of = TORCH.pointer if self._output is None else lambda _: memory.pointer
        device, handle, cuda = self._images.device, stream().handle, driver()

        def call(images: NDArray[Any] | None = None) -> NDArray[Any]:
            if images is not None:
                given.array[...] = images
            answer = cuda.cuMemcpyHtoDAsync(device.pointer, given.pointer, device.nbytes, handle)
            ask(answer, "cannot copy to the GPU")
            output = submit()  # keeps the tensor alive until all is done
            answer = cuda.cuMemcpyDtoHAsync(taken.pointer, pointer_of(output), memory.nbytes, handle)
            ask(answer, "cannot copy from the GPU")
            self._wait()
            return logits

        return call

    def _output_of(self, submitted: Any) -> Any:
        return submitted if self._output is None else self._output


class RuntimeSession:
    """Wrap a runtime that prepares calls on the GPU: the graph runtime, ONNX Runtime with CUDA, TensorRT.

    ``in_bytes``: it takes images of one byte a pixel.
    """

    def __init__(
        self,
        runtime: DeviceRuntime,
        details: Mapping[str, Any] | None = None,
        self_waiting: bool = False,
        in_bytes: bool = False,
    ) -> None:
        self._runtime = runtime
        self._details = details or {}
        self._self_waiting = self_waiting
        self._in_bytes = in_bytes

    def prepare(self, images: LabelledBatch) -> OnGpu:
        """Make a call ready that reads the images where they lie."""
        images = images.quantized if self._in_bytes else images
        call = self._runtime.prepare([images.device])
        outputs: Sequence[DeviceArray] = call.outputs
        handle = stream().handle
        return OnGpu(images, lambda: call(handle), outputs[0], self._details, self._self_waiting)

    def close(self) -> None:
        """Release the runtime."""
        self._runtime.close()
