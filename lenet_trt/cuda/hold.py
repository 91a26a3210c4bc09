"""Keep the GPU busy before a timed region, so that work queues up behind it."""

from __future__ import annotations

from collections.abc import Callable

from lenet_trt.cuda.driver import Buffer, ask, driver

# Setting 256 MiB takes at least 30 us: less would be 9 TB/s.
_SIZE, _LEAST_US = 256 << 20, 30.0


def memory_hold(stream: int) -> Callable[[float], None]:
    """Return a function that keeps the stream busy for some microseconds, or a little longer, by setting memory."""
    scratch = Buffer(_SIZE)

    def hold(us: float) -> None:
        for _ in range(int(us / _LEAST_US) + 1):
            ask(driver().cuMemsetD8Async(scratch.pointer, 0, _SIZE, stream), "cannot keep the GPU busy")

    return hold
