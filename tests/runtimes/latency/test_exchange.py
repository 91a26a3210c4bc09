"""Requests through shared memory, answered by a thread that writes in pieces as a GPU may."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.onnx_model.ports import Port
from lenet_trt.runtimes.latency.answer import clearing, waiting
from lenet_trt.runtimes.latency.exchange import Exchange
from lenet_trt.runtimes.latency.path import LatencyPath

TYPES = ("float32", "float16", "float64", "int32", "int64", "uint8")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_an_answer_is_complete_when_its_last_element_is_there(dtype: str, count: int) -> None:
    answer, right = np.zeros(count, dtype), np.arange(count).astype(dtype) % 100
    clear, missing = clearing(answer), waiting(answer)
    for last in {0, count // 2, count - 1}:
        clear()
        for at in range(count):
            if at != last:
                answer[at] = right[at]
        assert missing(), last
        answer[last] = right[last]
        assert not missing(), last


def test_an_empty_answer_is_there_at_once() -> None:
    empty = np.zeros((0, 10), np.float32)
    clearing(empty)()
    assert not waiting(empty)()


def test_memory_with_gaps_is_refused() -> None:
    with pytest.raises(LenetTrtError, match="wanted dense elements"):
        waiting(np.zeros((4, 4), np.float32)[:, ::2])


class Worker:
    """Answer 2 * x + 1 in another thread, the elements one by one in any order, after ``pause`` seconds."""

    def __init__(self, shape: tuple[int, ...], pause: float = 0.0, dtype: str = "float32") -> None:
        self.x, self.y = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self.pause = pause
        self.begun, self.finished = threading.Event(), threading.Event()
        self.problem: str | None = None

    def submit(self) -> None:
        self.finished.clear()
        threading.Thread(target=self._work).start()

    def _work(self) -> None:
        answer = (2 * self.x + 1).reshape(-1)
        for at in np.random.default_rng().permutation(len(answer)):
            time.sleep(self.pause)
            self.y.reshape(-1)[at] = answer[at]
        self.finished.set()

    def done(self) -> bool:
        if self.problem:
            raise LenetTrtError(self.problem)
        return self.finished.is_set()

    def exchange(self) -> Exchange:
        return Exchange([self.x], [self.y], self.submit, self.done)


@pytest.mark.parametrize("call", [lambda e: e.one, lambda e: lambda x: e(x)[0]], ids=["one", "any number"])
def test_answers_are_whole_and_new(call: Callable[..., Callable[[np.ndarray], np.ndarray]]) -> None:
    worker = Worker((1, 10), pause=1e-4)
    ask = call(worker.exchange())
    given = [np.random.default_rng(seed).random((1, 10), dtype=np.float32) for seed in range(20)]
    found = [ask(x) for x in given]
    for x, y in zip(given, found, strict=True):
        np.testing.assert_array_equal(y, 2 * x + 1)


def test_an_answer_that_looks_missing_is_taken_when_the_work_is_done() -> None:
    worker = Worker((4,), dtype="int32")
    x = np.array([1, -1, 2, 3], np.int32)  # 2 * -1 + 1 = -1, all ones
    np.testing.assert_array_equal(worker.exchange()(x)[0], 2 * x + 1)
    np.testing.assert_array_equal(worker.exchange().one(x), 2 * x + 1)


def test_failed_work_ends_the_wait() -> None:
    worker = Worker((4,), pause=10.0)
    worker.problem = "the kernel failed"
    exchange = Exchange([worker.x], [worker.y], lambda: None, worker.done)
    for ask in (exchange, exchange.one):
        with pytest.raises(LenetTrtError, match="the kernel failed"):
            ask(np.zeros(4, np.float32))
    worker.problem, worker.pause = None, 0.0
    np.testing.assert_array_equal(worker.exchange()(np.ones(4, np.float32))[0], 3), "the lock was given back"


@pytest.mark.parametrize("call", [lambda e: e.one, lambda e: lambda x: e(x)[0]], ids=["one", "any number"])
def test_the_answer_of_an_interrupted_request_is_not_that_of_the_next(call: Callable[..., Any]) -> None:
    worker = Worker((4,), pause=0.02)
    interrupted = iter([True])

    def done() -> bool:
        if next(interrupted, False):
            raise KeyboardInterrupt
        return worker.finished.is_set()

    ask = call(Exchange([worker.x], [worker.y], worker.submit, done))
    with pytest.raises(KeyboardInterrupt):
        ask(np.zeros(4, np.float32))
    np.testing.assert_array_equal(ask(np.ones(4, np.float32)), 3)


@pytest.mark.slow
def test_requests_of_several_threads_follow_one_another() -> None:
    worker = Worker((1, 10))
    path = LatencyPath([Port("x", "float32", ("n", 10))], worker.exchange(), "a test")
    wrong: list[int] = []

    def ask(seed: int) -> None:
        for x in np.random.default_rng(seed).random((20, 1, 10), dtype=np.float32):
            if (path(x) != 2 * x + 1).any():
                wrong.append(seed)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def images_path() -> tuple[LatencyPath, Worker]:
    worker = Worker((1, 1, 4, 4))
    return LatencyPath([Port("images", "float32", ("n", 1, 4, 4))], worker.exchange(), "a test"), worker


def test_pixels_are_divided_by_255_and_lists_are_taken() -> None:
    path, _ = images_path()
    pixels = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    wanted = 2 * (pixels.astype(np.float32) / np.float32(255)) + 1
    np.testing.assert_array_equal(path(pixels), wanted)
    np.testing.assert_array_equal(path(np.asfortranarray(pixels / np.float32(255))), wanted)


def test_another_shape_or_type_is_refused_with_the_way_out() -> None:
    path, worker = images_path()
    with pytest.raises(LenetTrtError, match=r"images is float32 \[2, 1, 4, 4\], .* for float32 \[1, 1, 4, 4\]: make"):
        path(np.zeros((2, 1, 4, 4), np.float32))
    with pytest.raises(LenetTrtError, match="images is float64; wanted images float32"):
        path(np.zeros((1, 1, 4, 4)))
    with pytest.raises(LenetTrtError, match="add a batch axis"):
        path(np.zeros((1, 4, 4), np.float32))
    with pytest.raises(LenetTrtError, match=r"takes 1 inputs \(images\), not 2"):
        path(worker.x, worker.x)


def test_a_closed_path_says_so() -> None:
    path, worker = images_path()
    with path:
        path(worker.x)
    with pytest.raises(LenetTrtError, match="is closed"):
        path(worker.x)
