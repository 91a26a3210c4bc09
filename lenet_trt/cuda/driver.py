"""Wrap the CUDA driver, as far as kernels and their checks need it: context, memory, streams and graphs."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from lenet_trt.cuda.nvrtc import INSTALL
from lenet_trt.errors import LenetTrtError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Context:
    """Hold the current CUDA context; its ``key`` is never used again, even after it is destroyed."""

    key: int
    device: int
    sm: int
    multiprocessors: int

    @property
    def sizes(self) -> dict[str, int]:
        """Return the GPU's values for launch geometry, by the names of ``Dim``."""
        return {"multiprocessors": self.multiprocessors}


@cache
def driver() -> Any:
    """Return the driver's bindings, initialised.

    Raises:
        LenetTrtError: there is no NVIDIA driver here, or it sees no GPU.
    """
    try:
        from cuda.bindings import driver as bindings

        (status,) = bindings.cuInit(0)
    except ImportError as error:
        raise LenetTrtError(f"cuda-bindings cannot be imported ({error}): {INSTALL}") from error
    except RuntimeError as error:  # libcuda.so.1 is missing
        raise LenetTrtError("a CUDA GPU is needed, and there is no NVIDIA driver on this machine") from error
    if int(status) != 0:
        raise LenetTrtError(f"the NVIDIA driver answers {status.name}: it sees no CUDA GPU")
    return bindings


def ask(answer: tuple[Any, ...], what: str) -> Any:
    """Check what a driver call returns and unpack its value (a tuple, where it has several).

    Raises:
        LenetTrtError: the call failed; the message begins with ``what``.
    """
    status, *values = answer
    if int(status) != 0:
        _, text = driver().cuGetErrorString(status)
        reason = text.decode() if text else "unknown error"
        raise LenetTrtError(f"{what}: {status.name} ({reason})")
    return values[0] if len(values) == 1 else tuple(values)


def current_context() -> Context:
    """Return the current context; without one, device 0's primary context (of torch and TensorRT) becomes current."""
    cuda = driver()
    handle = ask(cuda.cuCtxGetCurrent(), "cannot ask for the CUDA context")
    if int(handle) == 0:
        device = ask(cuda.cuDeviceGet(0), "cannot use GPU 0")
        handle = ask(cuda.cuDevicePrimaryCtxRetain(device), "cannot use GPU 0")
        ask(cuda.cuCtxSetCurrent(handle), "cannot use GPU 0")
    key = ask(cuda.cuCtxGetId(handle), "cannot identify the CUDA context")
    device = ask(cuda.cuCtxGetDevice(), "cannot ask for the GPU in use")
    return Context(int(key), int(device), *_properties(int(device)))


def begin_context(device: int = 0) -> threading.Thread:
    """Begin to make a GPU's primary context in a separate thread, while the program goes on importing.

    This takes about 0.1 s, as long as importing NumPy. Code that needs the context earlier waits for it; where it
    cannot be made, the first use of the GPU says why. Like any use of CUDA, this must come after a fork.
    """

    def make() -> None:
        try:
            cuda = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return
        number, context = ctypes.c_int(), ctypes.c_void_p()
        if cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(number), device) == 0:
            cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), number)

    thread = threading.Thread(target=make, name="lenet-trt context", daemon=True)
    thread.start()
    return thread


def context_lost() -> str | None:
    """Return why nothing more can run in this process (a kernel accessed foreign memory), or None."""
    current_context()
    (status,) = driver().cuCtxSynchronize()
    return None if int(status) == 0 else str(status.name)


@contextmanager
def capture_safe() -> Iterator[None]:
    """Allow loading modules while this thread captures a CUDA graph; neither becomes part of it."""
    cuda = driver()
    relaxed = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    previous = ask(cuda.cuThreadExchangeStreamCaptureMode(relaxed), "cannot change the capture mode")
    try:
        yield
    finally:
        ask(cuda.cuThreadExchangeStreamCaptureMode(previous), "cannot change the capture mode")


def freed_with(owner: object, free: Callable[..., object], *handles: object) -> None:
    """Call ``free(*handles)`` when ``owner`` is destroyed; not when the interpreter ends, which frees everything."""
    weakref.finalize(owner, free, *handles).atexit = False


class Buffer:
    """Hold device memory of a fixed size; it is freed with the object."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        current_context()
        handle = ask(driver().cuMemAlloc(max(size_bytes, 1)), f"cannot allocate {size_bytes} bytes on the GPU")
        self.pointer = int(handle)
        freed_with(self, driver().cuMemFree, self.pointer)

    def write(self, array: np.ndarray, offset: int = 0) -> None:
        """Copy a contiguous array to ``offset`` bytes from the start, and wait until it is there."""
        if array.nbytes:
            ask(driver().cuMemcpyHtoD(self.pointer + offset, array.ctypes.data, array.nbytes), "cannot copy to the GPU")
            # With pageable memory the call returns once the data is staged; a non-blocking stream would not wait.
            ask(driver().cuStreamSynchronize(0), "cannot copy to the GPU")

    def read(self) -> np.ndarray:
        """Copy all bytes back, as uint8."""
        import numpy as np

        host = np.empty(self.size_bytes, np.uint8)
        if self.size_bytes:
            ask(driver().cuMemcpyDtoH(host.ctypes.data, self.pointer, self.size_bytes), "cannot copy from the GPU")
        return host


class Pinned:
    """Hold host memory that cannot be paged out, so that copies run at full speed beside other work.

    ``array``: the memory, which is freed with the object.
    """

    def __init__(self, like: np.ndarray) -> None:
        import numpy as np

        current_context()
        size = max(like.nbytes, 1)
        self.pointer = int(ask(driver().cuMemHostAlloc(size, 0), f"cannot pin {size} bytes of host memory"))
        memory = (ctypes.c_uint8 * like.nbytes).from_address(self.pointer)
        self.array: np.ndarray = np.ctypeslib.as_array(memory).view(like.dtype).reshape(like.shape)
        self.array[...] = like
        freed_with(self, driver().cuMemFreeHost, self.pointer)


class Stream:
    """Hold a new stream that does not wait for the default one; it is destroyed with the object.

    ``first``: its kernels begin before those of other streams that wait for room on the GPU.
    """

    def __init__(self, first: bool = False) -> None:
        current_context()
        flag = driver().CUstream_flags.CU_STREAM_NON_BLOCKING
        least, greatest = ask(driver().cuCtxGetStreamPriorityRange(), "cannot ask for the priorities of streams")
        priority = greatest if first else least
        self._stream = ask(driver().cuStreamCreateWithPriority(flag, priority), "cannot make a stream")
        self.handle = int(self._stream)
        freed_with(self, driver().cuStreamDestroy, self._stream)

    def synchronize(self) -> None:
        """Wait for everything in the stream.

        Raises:
            LenetTrtError: work in the stream failed.
        """
        ask(driver().cuStreamSynchronize(self._stream), "the work in the stream failed")

    @contextmanager
    def capture(self) -> Iterator[CudaGraph]:
        """Record what is put into the stream, instead of running it.

        The capture has the strictest mode: until it ends, allocations and synchronisations of this thread fail.
        """
        cuda = driver()
        mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
        ask(cuda.cuStreamBeginCapture(self._stream, mode), "cannot begin a graph capture")
        graph = CudaGraph()
        try:
            yield graph
        finally:
            graph.finish(cuda.cuStreamEndCapture(self._stream))


class CudaGraph:
    """Hold a captured CUDA graph: ``kernel_nodes`` of its ``nodes`` are kernel launches."""

    def __init__(self) -> None:
        self.nodes = self.kernel_nodes = 0
        self._executable: Any = None

    def finish(self, answer: tuple[Any, ...]) -> None:
        """Take the result of the end of the capture, and make an executable graph of it."""
        cuda = driver()
        graph = ask(answer, "the graph capture failed")
        _, count = ask(cuda.cuGraphGetNodes(graph, 0), "cannot list the graph's nodes")
        nodes, _ = ask(cuda.cuGraphGetNodes(graph, count), "cannot list the graph's nodes") if count else ([], 0)
        kernel = cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
        kinds = [ask(cuda.cuGraphNodeGetType(node), "cannot read a graph node") for node in nodes]
        self.nodes, self.kernel_nodes = len(kinds), sum(kind == kernel for kind in kinds)
        self._executable = ask(cuda.cuGraphInstantiate(graph, 0), "cannot instantiate the graph")
        freed_with(self, cuda.cuGraphExecDestroy, self._executable)
        ask(cuda.cuGraphDestroy(graph), "cannot destroy a graph")

    @property
    def executable(self) -> int:
        """Return the handle of the executable graph."""
        return int(self._executable)

    def replay(self, stream: Stream) -> None:
        """Put the recorded work into ``stream``."""
        ask(driver().cuGraphLaunch(self._executable, stream.handle), "cannot launch the graph")


def multiprocessors_of(device: int) -> int:
    """Return how many multiprocessors a GPU has."""
    return _properties(device)[1]


@cache
def _properties(device: int) -> tuple[int, int]:
    """Return the architecture (90 for compute capability 9.0) and the number of multiprocessors."""
    cuda = driver()
    attribute = cuda.CUdevice_attribute
    major, minor, multiprocessors = (
        int(ask(cuda.cuDeviceGetAttribute(which, device), "cannot read the GPU's properties"))
        for which in (
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        )
    )
    return major * 10 + minor, multiprocessors
