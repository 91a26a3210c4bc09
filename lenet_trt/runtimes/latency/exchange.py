"""Hand requests to a GPU one at a time, through memory that host and GPU share, and poll for the answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.latency.answer import clearing, missing_in, raw_bytes, waiting

# After this many looks at an answer that has not arrived, the stream is asked whether its work failed or is done:
# every 10 to 20 us, which adds less than 5% to the wait.
LOOKS = 64


class Exchange:
    """Hold the memory of a request: ``exchange(*arrays)`` copies them in, submits, and returns copies of the answers.

    ``inputs`` and ``answers``: arrays in memory that the GPU sees. ``submit``: lets the GPU read and write them.
    ``done``: says whether the GPU has finished, and raises an error where its work failed. Requests of several threads
    follow one another. ``one`` does the same as a call for one input and one answer, in half of Python's time.
    """

    def __init__(
        self,
        inputs: Sequence[NDArray[Any]],
        answers: Sequence[NDArray[Any]],
        submit: Callable[[], None],
        done: Callable[[], bool],
    ) -> None:
        self.inputs, self.answers = tuple(inputs), tuple(answers)
        self.submit, self.done = submit, done
        self._clear = [clearing(answer) for answer in answers]
        self._waiting = [waiting(answer) for answer in answers]
        self.lock = threading.Lock()
        self.one = _one_to_one(self) if len(self.inputs) == len(self.answers) == 1 else None

    def __call__(self, *arrays: NDArray[Any]) -> list[NDArray[Any]]:
        """Answer arrays that have the shapes and types of ``inputs``.

        Raises:
            LenetTrtError: the GPU refuses the work, or fails on it.
        """
        with self.lock:
            try:
                for target, array in zip(self.inputs, arrays, strict=True):
                    target[...] = array
                self.request()
                self.wait()
                return [answer.copy() for answer in self.answers]
            except BaseException:
                _finish(self.done)
                raise

    def request(self) -> None:
        """Submit what lies in ``inputs``."""
        for clear in self._clear:
            clear()
        self.submit()

    def wait(self) -> None:
        """Return when ``answers`` are complete."""
        looks = 0
        for missing in self._waiting:
            while missing():
                looks += 1
                if looks % LOOKS == 0 and self.done():
                    break  # all that there is has arrived


def _one_to_one(exchange: Exchange) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return the call for one input and one answer, with all names at hand and no call that can be left out."""
    (target,), (answer,) = exchange.inputs, exchange.answers
    lock, submit, done, copy = exchange.lock, exchange.submit, exchange.done, answer.copy
    clear, copied, missing = clearing(answer), raw_bytes(answer).tobytes, missing_in(answer)

    def call(array: NDArray[Any]) -> NDArray[Any]:
        with lock:
            try:
                target[...] = array
                clear()
                submit()
                looks = 0
                while missing in copied():
                    looks += 1
                    if looks % LOOKS == 0 and done():
                        break
                return copy()
            except BaseException:
                _finish(done)
                raise

    return call


def _finish(done: Callable[[], bool]) -> None:
    """Wait for work that goes on after its request was given up (Ctrl-C): its answer is not that of the next one."""
    with suppress(LenetTrtError):  # the first error says why
        while not done():
            pass
