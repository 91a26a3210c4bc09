"""See when an answer has arrived in memory that the GPU writes and the host reads.

Before a request the answer's memory is filled with ones. An element that still has all its bits set has not arrived;
of floating-point numbers this is one NaN among many, which no arithmetic of a GPU makes. So the data itself says that
it is complete, and the GPU need not write a flag after it, for which it would have to wait until the data is visible.
An answer that does contain this element is found complete when its stream is done.

Each element must be written once, in one piece: a kernel may not store a first sum and add to it later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError

_SIZES = (1, 2, 4, 8)


def clearing(answer: NDArray[Any]) -> Callable[[], None]:
    """Return a function that marks every element of an answer as not arrived."""
    if not answer.size:
        return lambda: None
    view = raw_bytes(answer)
    ones = b"\xff" * len(view)

    def clear() -> None:
        view[:] = ones

    return clear


def waiting(answer: NDArray[Any]) -> Callable[[], bool]:
    """Return a function that says whether an element of the answer may be missing.

    It looks for the bytes of a missing element at any place: that is several times as fast as to look at numbers, and
    where neighbours of an element make the same bytes, it says too often that one is missing, never too rarely.
    """
    if not answer.size:
        return lambda: False
    copied, missing = raw_bytes(answer).tobytes, missing_in(answer)
    return lambda: missing in copied()


def missing_in(answer: NDArray[Any]) -> bytes:
    """Return the bytes of an element that has not arrived."""
    return b"\xff" * answer.itemsize


def raw_bytes(answer: NDArray[Any]) -> memoryview[int]:
    """Return the memory of an answer, which is not empty, as bytes."""
    if answer.itemsize not in _SIZES or not answer.flags.c_contiguous:
        raise LenetTrtError(f"an answer is {answer.dtype} in {answer.strides}; wanted dense elements of 1 to 8 bytes")
    return memoryview(answer.reshape(-1).view("u1").data)
