"""Keep the machine busy with other work while requests are timed."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from lenet_trt.child import child_environment
from lenet_trt.errors import LenetTrtError

IDLE = "none"
STREAM = "GPU, another stream"
PROCESS = "GPU, another process"
CPU = "CPU, every core"
LOADS = (IDLE, STREAM, PROCESS, CPU)
# Images that the other work classifies at once, and the launches that are put into the stream together.
IMAGES, LAUNCHES = 10_000, 128
_CHILD = "lenet_trt.bench.latency.load_child"
_READY_S = 60.0

Before = Callable[[], None]


@contextmanager
def other_work(name: str) -> Iterator[Before | None]:
    """Keep the machine busy; the function, where there is one, keeps it so and is called before each request.

    Raises:
        LenetTrtError: a process of the load does not start.
    """
    with ExitStack() as stack:
        if name == STREAM:
            yield stream_of_work()
            return
        if name == PROCESS:
            stack.enter_context(_child("gpu"))
        if name == CPU:
            for _ in range(len(os.sched_getaffinity(0))):
                stack.enter_context(_child("cpu"))
        yield None


def stream_of_work() -> Before:
    """Return a function that puts work into another stream whenever it has run dry: LeNet-5 for 10,000 images."""
    from lenet_trt.cuda import direct
    from lenet_trt.cuda.driver import Buffer, Stream, ask, driver
    from lenet_trt.cuda.launch import prepare
    from lenet_trt.kernel.registry import kernel

    declared = kernel("lenet5")
    bound = declared.bind_axes({"n": IMAGES}, declared.types_named("fp32"))
    launch = prepare(bound)
    memory = [Buffer(4 * math.prod(shape)) for shape in (*bound.input_shapes, *bound.output_shapes)]
    for buffer in memory:
        ask(driver().cuMemsetD8(buffer.pointer, 0, buffer.size_bytes), "cannot clear memory")
    pointers = [buffer.pointer for buffer in memory]
    stream = Stream()
    launch(pointers, stream.handle)
    stream.synchronize()
    with stream.capture() as graph:
        for _ in range(LAUNCHES):
            launch(pointers, stream.handle)
    done = direct.stream_done(stream.handle, "the work of the load failed")

    def before(keep: object = memory) -> None:
        if done():
            graph.replay(stream)

    return before


@contextmanager
def _child(kind: str) -> Iterator[None]:
    """Run a process that works until it is ended; it says when it has begun."""
    command = [sys.executable, "-m", _CHILD, kind]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=child_environment()
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise LenetTrtError(f"the process of the load ({kind}) did not start: exit status {process.wait(_READY_S)}")
        yield
    finally:
        process.kill()
        process.communicate()
