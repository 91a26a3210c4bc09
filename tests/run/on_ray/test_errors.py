"""What Ray's errors mean: a worker or a machine that ended, whose work is run again, or something else."""

from __future__ import annotations

import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.run.on_ray.execution import WorkersLostError, _told

ray = pytest.importorskip("ray", reason="run --ray needs Ray Data: pip install 'lenet-trt[ray]'")


@pytest.mark.parametrize(
    ("name", "words"),
    [("ActorDiedError", ()), ("WorkerCrashedError", ()), ("NodeDiedError", ("lost",)), ("OutOfMemoryError", ("full",))],
)
def test_what_ended_is_run_again(name: str, words: tuple[str, ...]) -> None:
    error = RuntimeError("Ray Data stopped")
    error.__cause__ = getattr(ray.exceptions, name)(*words)
    assert isinstance(_told(ray, error), WorkersLostError)


def test_another_error_is_said_in_its_words() -> None:
    told = _told(ray, ray.exceptions.ObjectStoreFullError("the store is full"))
    assert type(told) is LenetTrtError
    assert str(told).startswith("Ray stopped: ObjectStoreFullError: ")
