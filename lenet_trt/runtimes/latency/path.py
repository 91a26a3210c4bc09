"""Prepare a network for one request at a time: with the fewest steps that its runtime allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.cuda import direct
from lenet_trt.cuda.driver import Stream, ask, driver
from lenet_trt.cuda.mapped import Mapped
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.ports import Port
from lenet_trt.runtimes.arrays import DeviceArray, own_array
from lenet_trt.runtimes.latency.exchange import Exchange
from lenet_trt.runtimes.latency.ring import Ring
from lenet_trt.runtimes.latency.single import SingleKernel
from lenet_trt.runtimes.on_device import single
from lenet_trt.runtimes.pixels import scaled_pixels
from lenet_trt.runtimes.protocol import DeviceRuntime, SharedMemoryRuntime


class LatencyPath:
    """Answer requests of one shape: ``path(image)`` takes host arrays and returns new ones, as the network does.

    ``steps`` says what one request makes the GPU do. Python's lock is held while a request runs, so that no other
    thread of the program delays it. Close it, or use it in a ``with`` block: it holds pinned memory.
    """

    def __init__(self, ports: Sequence[Port], exchange: Exchange | Ring, steps: str) -> None:
        self.exchange = exchange
        self.steps = steps
        self._ports = tuple(ports)
        self._facts = [(array.shape, array.dtype) for array in exchange.inputs]
        self._closed = False
        self._one = exchange.one
        self._shape, self._dtype = exchange.inputs[0].shape, exchange.inputs[0].dtype

    def __call__(self, *batch: Any) -> Any:
        """Answer one request; return one array, or a tuple of several.

        Raises:
            LenetTrtError: the arrays are not like those for which the path was made, or the GPU fails.
        """
        if self._one is not None and len(batch) == 1:
            array = batch[0]
            if type(array) is np.ndarray and array.dtype is self._dtype and array.shape == self._shape:
                return self._one(array)
        if self._closed:
            raise LenetTrtError("the latency path is closed: make another one")
        return single(self.exchange(*self._converted(batch)))

    def close(self) -> None:
        """Release the memory; the path cannot be called afterwards."""
        self._closed = True
        self._one = None
        self.exchange = _CLOSED

    def __enter__(self) -> LatencyPath:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _converted(self, batch: Sequence[Any]) -> list[NDArray[Any]]:
        """Return arrays of the path's types: pixels are divided by 255."""
        if len(batch) != len(self._ports):
            names = ", ".join(port.name for port in self._ports)
            raise LenetTrtError(f"the network takes {len(self._ports)} inputs ({names}), not {len(batch)}")
        arrays = []
        for port, given, (shape, dtype) in zip(self._ports, batch, self._facts, strict=True):
            array = np.asarray(given)
            port.check(array.shape, array.dtype.name)
            if array.dtype != dtype:
                array = scaled_pixels(port, array)
            if array.shape != shape or array.dtype != dtype:
                raise LenetTrtError(
                    f"{port.name} is {array.dtype} {list(array.shape)}, and this latency path is for {dtype} "
                    f"{list(shape)}: make another one for it"
                )
            arrays.append(array)
        return arrays


_CLOSED = Exchange((), (), lambda: None, lambda: True)


def open_path(runtime: DeviceRuntime, batch: Sequence[NDArray[Any]]) -> LatencyPath:
    """Make the shortest path for requests like this one: one kernel, or one CUDA graph, or calls with copies.

    Raises:
        LenetTrtError: the network does not take the arrays, or fails on them.
    """
    call, plain = one_kernel(runtime, batch)
    if call is not None:
        return one_launch(runtime.inputs, call, plain)
    if isinstance(runtime, SharedMemoryRuntime):
        return _one_graph(runtime, batch if runtime.scales_images else plain)
    return _with_copies(runtime, plain)


def one_kernel(runtime: DeviceRuntime, batch: Sequence[NDArray[Any]]) -> tuple[SingleKernel | None, list[NDArray[Any]]]:
    """Return the network's call where it is one kernel whose answer can be watched, and the arrays that it takes."""
    plain = [scaled_pixels(port, array) for port, array in zip(runtime.inputs, batch, strict=True)]
    if not isinstance(runtime, SharedMemoryRuntime):
        return None, plain
    return runtime.one_kernel([(array.shape, array.dtype.name) for array in plain]), plain


def one_launch(ports: Sequence[Port], call: SingleKernel, arrays: Sequence[NDArray[Any]]) -> LatencyPath:
    """Launch one kernel for a request: it reads and writes the host's memory itself.

    It is a CUDA graph of one node: on an H200 a request took 10.4 us so, and 13.1 us by cuLaunchKernelEx.
    """
    inputs = [Mapped(array.shape, array.dtype) for array in arrays]
    answers = [Mapped(shape, numpy_dtype(dtype)) for shape, dtype in call.outputs]
    stream = Stream(first=True)
    launch = call.placed([each.pointer for each in inputs], [each.pointer for each in answers])
    launch(stream.handle)  # loads the kernel, which a capture may not
    stream.synchronize()
    replay = _captured(lambda: launch(stream.handle), stream, keep=call)
    return LatencyPath(ports, _exchange(inputs, answers, replay, stream), f"one launch of {call.bound.kernel.name}")


def _one_graph(runtime: SharedMemoryRuntime, arrays: Sequence[NDArray[Any]]) -> LatencyPath:
    """Launch one CUDA graph for a request: it copies the request in, computes, and copies the answer out."""
    inputs = [Mapped(array.shape, array.dtype) for array in arrays]
    answers: list[Mapped] = []

    def like(outputs: Sequence[DeviceArray]) -> list[DeviceArray]:
        answers.extend(Mapped(output.shape, numpy_dtype(output.dtype)) for output in outputs)
        return [_on_gpu(each) for each in answers]

    stream = Stream(first=True)
    call = runtime.prepare([_on_gpu(each) for each in inputs], like)
    exchange = _exchange(inputs, answers, lambda: call(stream.handle), stream)
    return LatencyPath(runtime.inputs, exchange, "one CUDA graph")


def _with_copies(runtime: DeviceRuntime, arrays: Sequence[NDArray[Any]]) -> LatencyPath:
    """Copy, call and copy for a request: as one CUDA graph where the runtime's work can be captured."""
    inputs = [Mapped(array.shape, array.dtype) for array in arrays]
    places = [own_array(array.shape, array.dtype.name) for array in arrays]
    for place in places:  # the first run must read numbers
        ask(driver().cuMemsetD8(place.pointer, 0, max(place.nbytes, 1)), "cannot clear memory")
    ask(driver().cuCtxSynchronize(), "earlier work on the GPU failed")
    call = runtime.prepare(places)
    answers = [Mapped(output.shape, numpy_dtype(output.dtype)) for output in call.outputs]
    stream = Stream(first=True)

    def submit() -> None:
        for given, place in zip(inputs, places, strict=True):
            _copy(place.pointer, given.pointer, place.nbytes, stream)
        call(stream.handle)
        for answer, output in zip(answers, call.outputs, strict=True):
            _copy(answer.pointer, output.pointer, output.nbytes, stream)

    launch: Callable[[], None] = submit
    steps = "copies and a call"
    if not runtime.waits:
        try:
            launch = _captured(submit, stream, keep=(places, call))
            steps = "one CUDA graph"
        except LenetTrtError as error:
            steps = f"copies and a call, which cannot be captured in a CUDA graph ({error})"
    return LatencyPath(runtime.inputs, _exchange(inputs, answers, launch, stream), steps)


def _captured(submit: Callable[[], None], stream: Stream, keep: object) -> Callable[[], None]:
    """Return the launch of what a function puts into a stream; it keeps alive what the work uses."""
    with stream.capture() as graph:
        submit()
    what = "cannot launch the network's CUDA graph"
    return direct.graph_launch(graph.executable, stream.handle, what, keep=(graph, stream, keep))


def _exchange(
    inputs: Sequence[Mapped], answers: Sequence[Mapped], launch: Callable[[], None], stream: Stream
) -> Exchange:
    done = direct.stream_done(stream.handle, "the network's work on the GPU failed")
    return Exchange([each.array for each in inputs], [each.array for each in answers], launch, done)


def _on_gpu(memory: Mapped) -> DeviceArray:
    return DeviceArray(memory.pointer, memory.shape, memory.dtype.name, memory)


def _copy(target: int, source: int, count: int, stream: Stream) -> None:
    if count:
        ask(driver().cuMemcpyAsync(target, source, count, stream.handle), "cannot copy between host and GPU")
