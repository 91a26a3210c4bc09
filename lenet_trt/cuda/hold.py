"""Keep the GPU busy before a timed region, so that work queues up behind it."""

from __future__ import annotations

from collections.abc import Callable

from lenet_trt.cuda.driver import Buffer, ask, driver


def memory_hold(stream: int, size: int = 256 << 20, least_us: float = 30.0) -> Callable[[float], None]:
    """Return a function that keeps the stream busy by setting memory, at least ``least_us`` a time."""
    scratch = Buffer(size)

    def hold(us: float) -> None:
        for _ in range(int(us / least_us) + 1):
            ask(driver().cuMemsetD8Async(scratch.pointer, 0, size, stream), "cannot keep the GPU busy")

    return hold
