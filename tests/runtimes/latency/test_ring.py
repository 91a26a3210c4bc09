"""The ring's protocol, with a model of the kernel in C++ that runs beside the host: nothing is lost or mixed."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.registry import plugins_dir
from lenet_trt.runtimes.latency import ring as protocol
from lenet_trt.runtimes.latency.ring import CONTROL_WORDS, FULL, SLOTS, STOP, Ring
from library_probes import missing_compiler

HERE = Path(__file__).parent
WORDS = 784
TAKERS = 2
SILENCE_NS = 20_000_000
LONG_NS = 10**10
U32, I64 = ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_int64)


def compiled(name: str, output: Path) -> Path:
    command = ["g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*command, HERE / name, "-o", output], check=True)
    return output


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if missing_compiler():
        pytest.skip(missing_compiler())
    library = ctypes.CDLL(str(compiled("ring_model.cpp", tmp_path_factory.mktemp("ring") / "model.so")))
    floats, number, time_ns = ctypes.POINTER(ctypes.c_float), ctypes.c_uint, ctypes.c_int64
    library.serve.argtypes = [U32, number, floats, U32, U32, number, number, time_ns, time_ns, I64, U32]
    library.serve.restype = None
    return library


class Served:
    """A ring that threads of the model serve, each run with the next of these lifetimes, the last one for ever.

    Without lifetimes only the test moves the clock: a busy machine ends no run. A thread keeps this object, and so
    the memory that it uses.
    """

    def __init__(self, model: ctypes.CDLL, lives_ns: list[int] | None = None) -> None:
        self.requests = np.zeros((SLOTS, WORDS), np.float32)
        self.answers = np.zeros((SLOTS, 10), np.float32)
        self.control, self.ended = np.zeros(CONTROL_WORDS, np.uint32), np.zeros(1, np.uint32)
        self.taken = np.zeros((SLOTS, WORDS), np.uint32)
        self.lives = iter(lives_ns or [])
        self.clock = np.zeros(1 + TAKERS, np.int64) if lives_ns is None else None
        self.model = model
        self.threads: list[threading.Thread] = []
        self.ring = Ring(self.requests, list(self.answers), self.control, self.ended, self.start, self.done)

    def start(self, run: int, first: int) -> None:
        before = self.threads[-1] if self.threads else None
        life = next(self.lives, LONG_NS)
        requests, control, ended, taken = (
            each.ctypes.data_as(U32) for each in (self.requests, self.control, self.ended, self.taken)
        )
        answers = self.answers.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        silence = LONG_NS if self.clock is None else SILENCE_NS
        clock = None if self.clock is None else self.clock.ctypes.data_as(I64)

        def serve() -> None:
            if before is not None:  # as a stream does
                before.join()
            self.model.serve(requests, WORDS, answers, control, ended, run, first, silence, life, clock, taken)

        self.threads.append(threading.Thread(target=serve, daemon=True))
        self.threads[-1].start()

    def done(self) -> bool:
        return not self.threads[-1].is_alive()

    def wait_for(self, elapsed_ns: int) -> None:
        """Move the clock when every taker has looked at it, as if the host had waited."""
        assert self.clock is not None
        before = self.clock[1:].copy()
        while (self.clock[1:] < before + 2).any() and not self.done():  # one look may have begun before
            time.sleep(0.0001)
        self.clock[0] += elapsed_ns

    def answers_right(self, x: np.ndarray) -> None:
        """Ask for the answer to a request; where it is wrong, show the words, and those that the model took."""
        found, wanted = self.ring.one(x), right(x)
        if np.array_equal(found, wanted):
            return
        slot = int(self.control[FULL:].argmax())  # the last request has the highest number
        pytest.fail(
            f"run {self.ring.runs}, slot {slot}:\n"
            f"the answer: {differing(found, wanted)}\n"
            f"the answer in memory: {differing(self.answers[slot], wanted)}\n"
            f"what the model took: {differing(self.taken[slot], x)}\n"
            f"the request in memory: {differing(self.requests[slot], x)}"
        )

    def end(self) -> None:
        """End all threads, whatever state the test left them in."""
        self.control[STOP] = 1
        for thread in self.threads:
            thread.join(timeout=600)
        assert not any(thread.is_alive() for thread in self.threads)


@pytest.fixture
def serve(model: ctypes.CDLL) -> Iterator[Callable[..., Served]]:
    """Return a function that makes a ring; its threads end with the test, also where an assertion fails."""
    made: list[Served] = []

    def make(lives_ns: list[int] | None = None) -> Served:
        made.append(Served(model, lives_ns))
        return made[-1]

    yield make
    for each in made:
        each.end()


def differing(found: np.ndarray, wanted: np.ndarray) -> str:
    """Say which words differ, as bits: a word of which a part was written shows by the ones of an empty slot."""
    pairs = [each.reshape(-1).view(np.uint32) for each in (found, wanted)]
    places = np.flatnonzero(pairs[0] != pairs[1])
    words = [f"[{at}] 0x{pairs[0][at]:08x} for 0x{pairs[1][at]:08x}" for at in places[:20]]
    return f"{len(places)} of {pairs[0].size} words differ" + "".join(f", {word}" for word in words)


def right(x: np.ndarray) -> np.ndarray:
    sums = np.zeros(10, np.float32)
    for at in range(0, WORDS, 10):  # in the model's order, so that the sums are the same to the last bit
        part = x[at : at + 10]
        sums[: len(part)] += part
    return sums


def images(count: int) -> np.ndarray:
    return np.random.default_rng(count).random((count, WORDS), dtype=np.float32)


def test_every_request_gets_its_own_answer(serve: Callable[..., Served]) -> None:
    served = serve()
    for x in images(300):
        served.answers_right(x)
    assert served.ring.stays
    assert served.ring.runs == 1
    served.ring.end()
    assert served.done()
    assert not served.ring.stays


def test_a_wrong_answer_is_shown_with_the_words_of_which_it_was_made(serve: Callable[..., Served]) -> None:
    served = serve()
    served.answers_right(images(1)[0])
    one = served.ring.one

    def torn(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        x.view(np.uint8)[783 * 4 + 3] = 0xFF
        return one(x)

    served.ring.one = torn  # type: ignore[method-assign]
    x = images(2)[1]
    word = x.view(np.uint32)[783]
    with pytest.raises(pytest.fail.Exception) as failed:
        served.answers_right(x)
    lines = str(failed.value).splitlines()
    assert lines[0] == "run 1, slot 1:"
    assert lines[1].startswith("the answer: 1 of 10 words differ, [3] 0x")
    assert lines[3:] == [
        f"{of}: 1 of 784 words differ, [783] 0xff{word & 0xFFFFFF:06x} for 0x{word:08x}"
        for of in ("what the model took", "the request in memory")
    ]


@pytest.mark.slow
def test_no_copy_by_bytes_is_taken_too_early(model: ctypes.CDLL, tmp_path: Path) -> None:
    """The C library may copy byte by byte, and rest within a word: this one does."""
    library = compiled("bytewise_copy.cpp", tmp_path / "bytewise_copy.so")
    asked = f"{__file__}::{test_every_request_gets_its_own_answer.__name__}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", asked],
        env=environment | {"LD_PRELOAD": str(library)},
        cwd=HERE,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_runs_that_end_at_any_time_lose_nothing(serve: Callable[..., Served]) -> None:
    lives = np.random.default_rng(7).integers(10_000, 3_000_000, 200).tolist()
    served = serve(lives)
    for x in images(400):
        served.answers_right(x)
    assert served.ring.runs > 5, "no run ended while requests came"
    served.ring.end()


def test_a_silent_host_ends_the_kernel_and_the_next_request_starts_it(serve: Callable[..., Served]) -> None:
    served = serve()
    first, second = images(2)
    served.ring.one(first)
    served.wait_for(SILENCE_NS + 1)
    served.threads[-1].join(timeout=600)
    assert served.done()
    assert not served.ring.stays
    served.answers_right(second)
    assert served.ring.runs == 2
    served.ring.end()


def test_a_beat_keeps_it(serve: Callable[..., Served]) -> None:
    served = serve()
    served.ring.one(images(1)[0])
    for _ in range(20):
        served.wait_for(SILENCE_NS * 2 // 3)
        assert served.ring.stays
        served.ring.beat()
    served.ring.end()


def test_a_request_with_words_that_look_missing_is_answered(serve: Callable[..., Served]) -> None:
    served = serve()
    x = images(1)[0]
    x[[0, 400, 783]] = np.full(3, 0xFFFFFFFF, np.uint32).view(np.float32)
    found = served.ring.one(x)
    assert np.isnan(found[[0, 3]]).all()
    after = images(2)[1]
    served.answers_right(after)
    served.ring.end()


def test_after_an_end_the_ring_is_as_new(serve: Callable[..., Served]) -> None:
    served = serve()
    for x in images(10):
        served.answers_right(x)
        served.ring.end()
        assert (served.requests.view(np.uint32) == 0xFFFFFFFF).all()
    assert served.ring.runs == 10


def test_a_kernel_that_fails_or_vanishes_ends_the_wait(serve: Callable[..., Served]) -> None:
    served = serve()
    x = images(1)[0]
    ring = Ring(
        served.requests, list(served.answers), served.control, served.ended, lambda run, first: None, lambda: True
    )
    with pytest.raises(LenetTrtError, match="is gone, and has not said that it ended"):
        ring.one(x)

    def failed() -> bool:
        raise LenetTrtError("the resident kernel failed: CUDA_ERROR_ILLEGAL_ADDRESS")

    ring = Ring(served.requests, list(served.answers), served.control, served.ended, lambda run, first: None, failed)
    with pytest.raises(LenetTrtError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        ring.one(x)
    served.answers_right(x)
    served.ring.end()


def test_runs_that_are_too_short_are_an_error(serve: Callable[..., Served]) -> None:
    served = serve([0] * 100)
    with pytest.raises(LenetTrtError, match=r"ended \d+ times without an answer to this request: give it"):
        served.ring.one(np.full(WORDS, 0xFFFFFFFF, np.uint32).view(np.float32))  # which is found late
    served.lives = iter([])
    x = images(1)[0]
    served.answers_right(x)
    served.ring.end()


def test_both_sides_have_one_layout() -> None:
    source = (plugins_dir() / "lenet5" / "ring.cuh").read_text()
    assert f"kSlots = {SLOTS};" in source
    fields = re.search(r"struct .* Control \{\s*unsigned beat, stop, unused\[(\d+)\];\s*unsigned full", source)
    assert fields is not None
    assert (0, 1, 2 + int(fields[1])) == (protocol.BEAT, protocol.STOP, protocol.FULL)
