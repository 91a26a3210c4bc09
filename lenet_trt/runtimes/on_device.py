"""Run calls on the GPU: keep them for shapes and addresses, put them into the caller's stream, move their data."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lenet_trt.cuda.driver import Stream, ask, current_context, driver, freed_with
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.runtimes.arrays import ONE_CONTEXT, DeviceArray, check_memory, own_array, raw_stream
from lenet_trt.runtimes.libraries import Library, library_of
from lenet_trt.runtimes.protocol import DeviceRuntime, PreparedCall

CallKey: TypeAlias = tuple[Any, ...]

# The calls that are kept: for this many shapes with their own inputs, and for this many addresses of the caller. A call
# for an address is replaced when it was not used for this many calls: making a call costs as much as thousands of the
# copies that it saves.
_KEPT_SHAPES = 8
_KEPT_ADDRESSES = 16
_IDLE_CALLS = 4096
_LOOK_EVERY = 64
_SEEN_ADDRESSES = 1024


def single(results: Sequence[Any]) -> Any:
    """Return one result by itself, and several as a tuple."""
    return results[0] if len(results) == 1 else tuple(results)


class Prepared:
    """Hold a call on fixed memory: ``prepared()`` puts it into its stream, and each call overwrites ``outputs``."""

    def __init__(self, call: PreparedCall, stream: int, outputs: Any, inputs: Sequence[Any]) -> None:
        self.stream = stream
        self.outputs = outputs
        self._call = call
        self._inputs = inputs  # kept alive

    def __call__(self) -> None:
        """Put the call into the stream, once more."""
        self._call(self.stream)


def _wait_and_destroy(event: Any) -> None:
    """Wait for the event, until which the call's memory may be in use, and destroy it."""
    driver().cuEventSynchronize(event)
    driver().cuEventDestroy(event)


class _Ordered:
    """Hold a call that several streams use in turns: each stream waits for the stream before it."""

    def __init__(self, call: PreparedCall, inputs: Sequence[DeviceArray]) -> None:
        self.call = call
        self.owned = inputs
        self.inputs = [(own.pointer, own.nbytes) for own in inputs]
        self.outputs = [(output, output.pointer, output.nbytes) for output in call.outputs]
        self._done = ask(driver().cuEventCreate(driver().CUevent_flags.CU_EVENT_DISABLE_TIMING), "cannot make an event")
        freed_with(self, _wait_and_destroy, self._done)
        self._record = driver().cuEventRecord
        self._stream: int | None = None
        self.last_used = 0

    def begin(self, stream: int) -> None:
        if stream != self._stream:
            if self._stream is not None:
                ask(driver().cuStreamWaitEvent(stream, self._done, 0), "cannot wait in a stream")
            self._stream = stream

    def end(self, stream: int) -> None:
        (status,) = self._record(self._done, stream)
        if status != 0:
            ask((status,), "cannot record an event")


class OnDevice:
    """Keep prepared calls for shapes and addresses, and move data in and out of them."""

    def __init__(self, implementation: DeviceRuntime) -> None:
        self.implementation = implementation
        self.scales_images = implementation.scales_images
        self._lock = threading.Lock()
        self._threads = threading.local()
        self._by_shape: OrderedDict[CallKey, _Ordered] = OrderedDict()
        self._by_address: dict[CallKey, _Ordered] = {}
        self._seen: OrderedDict[CallKey, None] = OrderedDict()
        self._calls = 0
        self._own_stream: Stream | None = None
        self._copy = driver().cuMemcpyDtoDAsync
        self._context = current_context().key

    def call(self, libraries: Sequence[Library], batch: Sequence[Any], stream: Any) -> list[Any]:
        """Run arrays on the GPU; the results are new arrays of the last input's library."""
        views = [library.view(array) for library, array in zip(libraries, batch, strict=True)]
        handle = libraries[-1].stream(batch[-1]) if stream is None else raw_stream(stream)
        key = tuple(library.key(array) for library, array in zip(libraries, batch, strict=True))
        self._enter()
        with self._lock:
            ordered, direct = self._find(key, views, handle)
            return self._run(ordered, () if direct else views, libraries[-1], handle, stream is None)

    def known(self, batch: Sequence[Any], stream: Any) -> list[Any] | None:
        """Run arrays at addresses for which a call is prepared; return None where there is none."""
        key = []
        library = None
        for array in batch:
            library = library_of(array)
            if library is None:
                return None
            key.append(library.key(array))
        ordered = self._by_address.get(tuple(key))
        if ordered is None or library is None:
            return None
        handle = library.stream(batch[-1]) if stream is None else raw_stream(stream)
        self._enter()
        with self._lock:
            return self._run(ordered, (), library, handle, stream is None)

    def _run(
        self, ordered: _Ordered, copied: Sequence[DeviceArray], library: Library, stream: int, current: bool
    ) -> list[Any]:
        self._calls += 1
        ordered.last_used = self._calls
        ordered.begin(stream)
        for view, (pointer, count) in zip(copied, ordered.inputs, strict=False):
            self._move(pointer, view.pointer, count, stream)
        ordered.call(stream)
        results = []
        for output, pointer, count in ordered.outputs:
            result = library.empty(output, None if current else stream)
            self._move(library.pointer(result), pointer, count, stream)
            results.append(result)
        ordered.end(stream)
        return results

    def from_host(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Run arrays of the host, and wait for the results."""
        self._enter()
        self._check_context()
        key = tuple((array.shape, array.dtype.name) for array in arrays)
        cuda = driver()
        with self._lock:
            if self._own_stream is None:
                self._own_stream = Stream()
            stream = self._own_stream
            ordered = self._for_shape(key)
            ordered.begin(stream.handle)
            for array, (pointer, count) in zip(arrays, ordered.inputs, strict=True):
                if count:
                    answer = cuda.cuMemcpyHtoDAsync(pointer, array.ctypes.data, count, stream.handle)
                    ask(answer, "cannot copy to the GPU")
            ordered.call(stream.handle)
            results = []
            for output, pointer, count in ordered.outputs:
                result = np.empty(output.shape, numpy_dtype(output.dtype))
                if count:
                    answer = cuda.cuMemcpyDtoHAsync(result.ctypes.data, pointer, count, stream.handle)
                    ask(answer, "cannot copy from the GPU")
                results.append(result)
            ordered.end(stream.handle)
            stream.synchronize()
        return results

    def prepared(self, libraries: Sequence[Library], batch: Sequence[Any], stream: Any) -> Prepared:
        """Return a call on the caller's memory, which only the caller uses."""
        views = [library.view(array) for library, array in zip(libraries, batch, strict=True)]
        handle = libraries[-1].stream(batch[-1]) if stream is None else raw_stream(stream)
        self._enter()
        with self._lock:
            call = self._prepare(views, handle)
        outputs = [libraries[-1].wrap(output) for output in call.outputs]
        return Prepared(call, handle, single(outputs), views)

    def forget(self) -> None:
        """Free every call that is kept."""
        with self._lock:
            self._by_address.clear()
            self._by_shape.clear()

    def _enter(self) -> None:
        """Make sure that this thread has a CUDA context."""
        if not hasattr(self._threads, "ready"):
            current_context()
            self._threads.ready = True

    def _check_context(self) -> None:
        if current_context().key != self._context:
            raise LenetTrtError(f"this thread uses another CUDA context than the network: {ONE_CONTEXT}")

    def _find(self, key: CallKey, views: Sequence[DeviceArray], stream: int) -> tuple[_Ordered, bool]:
        """Return the call for new addresses: one with its own inputs, and from the second time on one with these."""
        if key not in self._seen:
            self._check_context()
            for port, view in zip(self.implementation.inputs, views, strict=True):
                port.check(view.shape, view.dtype, images=self.scales_images)
                check_memory(view)
            self._seen[key] = None
            if len(self._seen) > _SEEN_ADDRESSES:
                self._seen.popitem(last=False)
            return self._for_shape(tuple([(view.shape, view.dtype) for view in views])), False
        if not self._room():
            return self._for_shape(tuple([(view.shape, view.dtype) for view in views])), False
        ordered = self._by_address[key] = _Ordered(self._prepare(views, stream), ())
        return ordered, True

    def _room(self) -> bool:
        """Return whether one more call for an address can be kept; an idle call is removed for it."""
        if len(self._by_address) < _KEPT_ADDRESSES:
            return True
        if self._calls % _LOOK_EVERY:
            return False
        oldest = min(self._by_address, key=lambda key: self._by_address[key].last_used)
        if self._calls - self._by_address[oldest].last_used < _IDLE_CALLS:
            return False
        del self._by_address[oldest]
        return True

    def _for_shape(self, key: CallKey) -> _Ordered:
        ordered = self._by_shape.get(key)
        if ordered is None:
            own = [own_array(shape, dtype) for shape, dtype in key]
            for array in own:  # the first run must read numbers
                if array.nbytes:
                    ask(driver().cuMemsetD8(array.pointer, 0, array.nbytes), "cannot clear memory")
            ask(driver().cuCtxSynchronize(), "earlier work on the GPU failed")
            ordered = self._by_shape[key] = _Ordered(self.implementation.prepare(own), own)
            if len(self._by_shape) > _KEPT_SHAPES:
                self._by_shape.popitem(last=False)
        else:
            self._by_shape.move_to_end(key)
        return ordered

    def _prepare(self, views: Sequence[DeviceArray], stream: int) -> PreparedCall:
        for port, view in zip(self.implementation.inputs, views, strict=True):
            port.check(view.shape, view.dtype, images=self.scales_images)
            check_memory(view)
        ask(driver().cuStreamSynchronize(stream), "the caller's work before this failed")
        return self.implementation.prepare(views)

    def _move(self, target: int, source: int, count: int, stream: int) -> None:
        if count:
            (status,) = self._copy(target, source, count, stream)
            if status != 0:
                ask((status,), "cannot copy on the GPU")
