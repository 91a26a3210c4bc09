"""The ring's protocol, with a model of the kernel in C++ that runs beside the host: nothing is lost or mixed."""

from __future__ import annotations

import ctypes
import re
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.registry import plugins_dir
from lenet_trt.runtimes.latency import ring as protocol
from lenet_trt.runtimes.latency.ring import CONTROL_WORDS, SLOTS, Ring
from library_probes import missing_compiler

HERE = Path(__file__).parent
WORDS = 784
TAKERS = 2
SILENCE_NS = 20_000_000
LONG_NS = 10**10


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if missing_compiler():
        pytest.skip(missing_compiler())
    library = tmp_path_factory.mktemp("ring") / "model.so"
    command = ["g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*command, HERE / "ring_model.cpp", "-o", library], check=True)
    return ctypes.CDLL(str(library))


class Served:
    """A ring that threads of the model serve, each run with the next of these lifetimes, the last one for ever.

    Without lifetimes only the test moves the clock: a busy machine ends no run.
    """

    def __init__(self, model: ctypes.CDLL, lives_ns: list[int] | None = None) -> None:
        self.requests = np.zeros((SLOTS, WORDS), np.float32)
        self.answers = np.zeros((SLOTS, 10), np.float32)
        self.control, self.ended = np.zeros(CONTROL_WORDS, np.uint32), np.zeros(1, np.uint32)
        self.lives = iter(lives_ns or [])
        self.clock = np.zeros(1 + TAKERS, np.int64) if lives_ns is None else None
        self.model = model
        self.threads: list[threading.Thread] = []
        self.ring = Ring(self.requests, list(self.answers), self.control, self.ended, self.start, self.done)

    def start(self, run: int, first: int) -> None:
        before = self.threads[-1] if self.threads else None
        life = next(self.lives, LONG_NS)
        arrays = [each.ctypes.data_as(ctypes.c_void_p) for each in (self.requests, self.answers, self.control)]
        ended = self.ended.ctypes.data_as(ctypes.c_void_p)

        def serve() -> None:
            if before is not None:  # as a stream does
                before.join()
            silence = LONG_NS if self.clock is None else SILENCE_NS
            clock = None if self.clock is None else self.clock.ctypes.data_as(ctypes.c_void_p)
            times = ctypes.c_int64(silence), ctypes.c_int64(life), clock
            self.model.serve(arrays[0], WORDS, arrays[1], arrays[2], ended, run, first, *times)

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


def right(x: np.ndarray) -> np.ndarray:
    sums = np.zeros(10, np.float32)
    for at in range(0, WORDS, 10):  # in the model's order, so that the sums are the same to the last bit
        part = x[at : at + 10]
        sums[: len(part)] += part
    return sums


def images(count: int) -> np.ndarray:
    return np.random.default_rng(count).random((count, WORDS), dtype=np.float32)


def test_every_request_gets_its_own_answer(model: ctypes.CDLL) -> None:
    served = Served(model)
    for x in images(300):
        np.testing.assert_array_equal(served.ring.one(x), right(x))
    assert served.ring.stays
    assert served.ring.runs == 1
    served.ring.end()
    assert served.done()
    assert not served.ring.stays


def test_runs_that_end_at_any_time_lose_nothing(model: ctypes.CDLL) -> None:
    lives = np.random.default_rng(7).integers(10_000, 3_000_000, 200).tolist()
    served = Served(model, lives)
    for x in images(400):
        np.testing.assert_array_equal(served.ring.one(x), right(x))
    assert served.ring.runs > 5, "no run ended while requests came"
    served.ring.end()


def test_a_silent_host_ends_the_kernel_and_the_next_request_starts_it(model: ctypes.CDLL) -> None:
    served = Served(model)
    first, second = images(2)
    served.ring.one(first)
    served.wait_for(SILENCE_NS + 1)
    served.threads[-1].join(timeout=600)
    assert served.done()
    assert not served.ring.stays
    np.testing.assert_array_equal(served.ring.one(second), right(second))
    assert served.ring.runs == 2
    served.ring.end()


def test_a_beat_keeps_it(model: ctypes.CDLL) -> None:
    served = Served(model)
    served.ring.one(images(1)[0])
    for _ in range(20):
        served.wait_for(SILENCE_NS * 2 // 3)
        assert served.ring.stays
        served.ring.beat()
    served.ring.end()


def test_a_request_with_words_that_look_missing_is_answered(model: ctypes.CDLL) -> None:
    served = Served(model)
    x = images(1)[0]
    x[[0, 400, 783]] = np.full(3, 0xFFFFFFFF, np.uint32).view(np.float32)
    found = served.ring.one(x)
    assert np.isnan(found[[0, 3]]).all()
    after = images(2)[1]
    np.testing.assert_array_equal(served.ring.one(after), right(after))
    served.ring.end()


def test_after_an_end_the_ring_is_as_new(model: ctypes.CDLL) -> None:
    served = Served(model)
    for x in images(10):
        np.testing.assert_array_equal(served.ring.one(x), right(x))
        served.ring.end()
        assert (served.requests.view(np.uint32) == 0xFFFFFFFF).all()
    assert served.ring.runs == 10


def test_a_kernel_that_fails_or_vanishes_ends_the_wait(model: ctypes.CDLL) -> None:
    served = Served(model)
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
    np.testing.assert_array_equal(served.ring.one(x), right(x))
    served.ring.end()


def test_runs_that_are_too_short_are_an_error(model: ctypes.CDLL) -> None:
    served = Served(model, [0] * 100)
    with pytest.raises(LenetTrtError, match=r"ended \d+ times without an answer to this request: give it"):
        served.ring.one(np.full(WORDS, 0xFFFFFFFF, np.uint32).view(np.float32))  # which is found late
    served.lives = iter([])
    x = images(1)[0]
    np.testing.assert_array_equal(served.ring.one(x), right(x))
    served.ring.end()


def test_both_sides_have_one_layout() -> None:
    source = (plugins_dir() / "lenet5" / "ring.cuh").read_text()
    assert f"kSlots = {SLOTS};" in source
    fields = re.search(r"struct .* Control \{\s*unsigned beat, stop, unused\[(\d+)\];\s*unsigned full", source)
    assert fields is not None
    assert (0, 1, 2 + int(fields[1])) == (protocol.BEAT, protocol.STOP, protocol.FULL)
