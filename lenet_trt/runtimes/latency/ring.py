"""Hand requests to a kernel that stays on the GPU: the host's side of plugins/lenet5/ring.cuh.

The kernel looks at the slots of a ring in turn. An empty slot is filled with ones; a request is there when no word of
it is all ones, and so is the answer (see ``answer``). Slots are emptied while an answer is waited for: the request
before, whose slot is used again three requests later, and the next answer.

So each word of a request must be written once, and whole: the kernel takes a word of which a part is still ones, and
computes with a wrong number. A copy between arrays of one type does not promise this: memmove may write single bytes,
and elements of fp16 that are not neighbours are written one by one, two in a word. NumPy converts int32 to uint32 in
whole words.

The kernel ends by itself when the host was silent for some time, or after its lifetime, and says so by writing the
number of its run. What it has not answered by then is answered by the next run, which the host starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.latency.answer import clearing, missing_in, raw_bytes

SLOTS = 4
# Words of the control memory: the host's beat, its wish that the kernel ends, and from here on the number in each slot.
BEAT, STOP, FULL = 0, 1, 16
CONTROL_WORDS = FULL + SLOTS
# After so many looks at an answer that has not arrived, the host asks whether the run has ended, and more rarely the
# driver whether the kernel failed.
_LOOKS, _LOOKS_AT_DRIVER = 16, 256
# A run can end just as a request comes; one that begins with a request answers it, if it lives long enough for that.
_STARTS = 8


class Ring:
    """Answer requests by a kernel that ``start(run, first)`` starts: its run, and the number of its first request.

    Shapes: requests [4, ...] of whole words, answers four of the network's, control [20] uint32, ended [1] uint32:
    memory of both.
    ``done`` says whether the kernel is gone, and raises an error where it failed.
    """

    def __init__(
        self,
        requests: NDArray[Any],
        answers: Sequence[NDArray[Any]],
        control: NDArray[np.uint32],
        ended: NDArray[np.uint32],
        start: Callable[[int, int], None],
        done: Callable[[], bool],
    ) -> None:
        self.inputs = (requests[0],)
        self.lock = threading.Lock()
        self.runs = 0
        self._running = False
        self._start, self._done = start, done
        self._control = memoryview(control.data).cast("B").cast("I")
        self._ended = memoryview(ended.data).cast("B").cast("I")
        self._missing = missing_in(answers[0])
        self._number = 0
        given = np.empty_like(requests[0])  # a request of any layout, dense
        self._given = given, given.reshape(-1).view(np.int32)
        self._empty_requests = [clearing(slot) for slot in requests]
        self._empty_answers = [clearing(slot) for slot in answers]
        self._slots = [
            (
                requests[slot].reshape(-1).view(np.uint32),
                FULL + slot,
                raw_bytes(answers[slot]).tobytes,
                answers[slot].copy,
                self._empty_answers[(slot + 1) % SLOTS],
                self._empty_requests[slot - 1],
            )
            for slot in range(SLOTS)
        ]
        self._reset(0)

    def one(self, array: NDArray[Any]) -> NDArray[Any]:
        """Answer one array of the shape and type of a slot.

        Raises:
            LenetTrtError: the kernel cannot be started, or failed.
        """
        with self.lock:
            number = self._number
            slot = number % SLOTS
            place, full, copied, answer, empty_next_answer, empty_last_request = self._slots[slot]
            missing = self._missing
            given, words = self._given
            try:
                given[...] = array
                place[...] = words
                self._control[full] = number + 1
                if not self._running:
                    self._run_from(slot)
                empty_next_answer()
                empty_last_request()
                looks = starts = 0
                while missing in copied():
                    looks += 1
                    if looks % _LOOKS:
                        continue
                    if self._ended[0] == self.runs:
                        if missing not in copied():
                            break
                        starts += 1
                        if starts > _STARTS:
                            raise LenetTrtError(
                                f"the resident kernel ended {starts} times without an answer to this request: give it "
                                "a longer life_ms, or use latency_path()"
                            )
                        self._run_from(slot)
                    elif looks % _LOOKS_AT_DRIVER == 0 and self._done() and self._ended[0] != self.runs:
                        raise LenetTrtError("the resident kernel is gone, and has not said that it ended")
                self._number += 1
                return answer()
            except BaseException:  # Ctrl-C too: the ring must be as new for the next request
                self._end()
                raise

    def __call__(self, *arrays: NDArray[Any]) -> list[NDArray[Any]]:
        """Answer one array, as ``one`` does."""
        (array,) = arrays
        return [self.one(array)]

    def beat(self) -> None:
        """Tell the kernel that the host is there, so that it stays although there is no request."""
        self._control[BEAT] = (self._control[BEAT] + 1) & 0xFFFFFFFF

    @property
    def stays(self) -> bool:
        """Return whether the kernel is on the GPU, as far as it has said."""
        return self._running and self._ended[0] != self.runs

    def end(self) -> None:
        """End the kernel, and wait until it is gone; the next request starts it again."""
        with self.lock:
            self._end()

    def _run_from(self, slot: int) -> None:
        """Start a run whose first request is in this slot; each run counts anew, so that numbers stay small."""
        self._control[STOP] = 0
        for other in range(SLOTS):
            self._control[FULL + other] = 0
        self._number = slot
        self._control[FULL + slot] = slot + 1
        self.runs += 1
        self._running = True
        self._start(self.runs, slot)

    def _end(self) -> None:
        self._control[STOP] = 1
        try:
            while self._running and not self._done():
                pass
        finally:
            self._running = False
            self._reset(0)

    def _reset(self, number: int) -> None:
        for empty in (*self._empty_requests, *self._empty_answers):
            empty()
        self._number = number
