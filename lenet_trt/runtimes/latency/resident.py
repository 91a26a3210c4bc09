"""Start a kernel that stays on the GPU and answers requests from a ring in the host's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.cuda import direct
from lenet_trt.cuda.compile import compile_for_launch
from lenet_trt.cuda.driver import Stream, ask, current_context, driver
from lenet_trt.cuda.launch import load_function
from lenet_trt.cuda.mapped import Mapped
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.ports import Port
from lenet_trt.runtimes.latency.path import LatencyPath
from lenet_trt.runtimes.latency.ring import CONTROL_WORDS, SLOTS, Ring
from lenet_trt.runtimes.latency.single import SingleKernel

# An answer begins a line of the processor's cache, which nothing else is written to.
_ANSWER_ELEMENTS = 16
_LONGEST_MS = 60_000


class ResidentPath(LatencyPath):
    """Answer requests of one shape by a kernel that stays on the GPU.

    The first request starts the kernel. It ends by itself when the host was silent for some time, and after its
    lifetime; the next request starts it again, which takes as long as a launch. Close the path, or use it in a
    ``with`` block.
    """

    def __init__(self, ports: Sequence[Port], ring: Ring, steps: str) -> None:
        super().__init__(ports, ring, steps)
        self.ring = ring

    def beat(self) -> None:
        """Keep the kernel on the GPU for as long as a request would."""
        self.ring.beat()

    def end(self) -> None:
        """End the kernel, and wait until it is gone; the next request starts it again."""
        self.ring.end()

    @property
    def stays(self) -> bool:
        """Return whether the kernel is on the GPU."""
        return self.ring.stays

    def close(self) -> None:
        """End the kernel and release the memory; the path cannot be called afterwards."""
        self.ring.end()
        super().close()


def open_resident(
    ports: Sequence[Port],
    call: SingleKernel | None,
    array: NDArray[Any],
    *,
    silent_ms: int = 100,
    life_ms: int = 200,
    alone: bool = False,
) -> ResidentPath:
    """Load the resident form of a network that is one kernel; the first request starts it.

    ``silent_ms``: the kernel ends when no request came for so long. ``life_ms``: it ends after this time in any case,
    and is started again, so that work that waits for an idle GPU (freeing memory, loading a module) goes on.
    ``alone``: it takes all shared memory of its multiprocessors, so that no other kernel runs there.

    Raises:
        UsageError: a time is out of range.
        LenetTrtError: the network or the GPU has no resident form, or too little shared memory.
    """
    for name, value in (("silent_ms", silent_ms), ("life_ms", life_ms)):
        if not 1 <= value <= _LONGEST_MS:
            raise UsageError(f"{name} is {value}: wanted 1 to {_LONGEST_MS} milliseconds")
    variant = call.bound.kernel.resident if call is not None else None
    if call is None or variant is None or list(call.bound.axes.values()) != [1]:
        raise LenetTrtError(
            "this network has no form that stays on the GPU: it must be one kernel that has one (lenet5), for one "
            "image; latency_path() takes every network"
        )
    context = current_context()
    if not variant.supports(context.sm, call.bound.types):
        raise LenetTrtError(
            f"the kernel that stays on the GPU needs sm_{variant.min_sm} or newer, and this GPU is sm_{context.sm}: "
            "use latency_path()"
        )
    module = compile_for_launch(call.bound.specialized, variant, context.sm)
    function = load_function(context, module, 0)
    shared_bytes = _all_shared_memory(context.device, function) if alone else 0
    load_function(context, module, shared_bytes)

    ((shape, dtype),) = call.outputs
    count = int(np.prod(shape))
    if count > _ANSWER_ELEMENTS:
        raise LenetTrtError(f"an answer of {count} elements does not fit the ring: at most {_ANSWER_ELEMENTS}")
    requests = Mapped((SLOTS, *array.shape), array.dtype)
    answers = Mapped((SLOTS, _ANSWER_ELEMENTS), numpy_dtype(dtype))
    control = Mapped((CONTROL_WORDS,), np.dtype(np.uint32))
    ended = Mapped((1,), np.dtype(np.uint32))
    stream = Stream(first=True)

    # In the kernel's order; run and first change from start to start.
    run, first = ctypes.c_uint32(), ctypes.c_uint32()
    times = ctypes.c_uint32(1000 * silent_ms), ctypes.c_uint32(1000 * life_ms)
    given: list[Any] = [ctypes.c_uint64(pointer) for pointer in call.pointers([requests.pointer])]
    words = [ctypes.c_uint64(control.pointer), ctypes.c_uint64(ended.pointer), run, first, *times]
    values = [*given, *words, ctypes.c_uint64(answers.pointer)]
    table = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    grid = [dim.evaluate({}) for dim in variant.launch.dims[:3]]
    what = f"cannot start {call.bound.kernel.name} as a resident kernel"
    keep = (values, control, ended, stream, call)
    launch = direct.kernel_launch(
        int(function), grid, variant.launch.block, shared_bytes, table, stream.handle, what, keep
    )

    def start(number_of_run: int, first_request: int) -> None:
        run.value, first.value = number_of_run & 0xFFFFFFFF, first_request
        launch()

    shown = [answers.array[slot, :count].reshape(shape) for slot in range(SLOTS)]
    done = direct.stream_done(stream.handle, "the resident kernel failed")
    ring = Ring(requests.array, shown, control.array, ended.array, start, done)
    steps = f"a request in the ring of resident {call.bound.kernel.name}"
    return ResidentPath(ports, ring, steps)


def _all_shared_memory(device: int, function: Any) -> int:
    """Return the dynamic shared memory with which a block leaves none on its multiprocessor."""
    cuda = driver()
    most = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    fixed = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
    limit = int(ask(cuda.cuDeviceGetAttribute(most, device), "cannot read the GPU's properties"))
    return limit - int(ask(cuda.cuFuncGetAttribute(fixed, function), "cannot read the kernel's properties"))
