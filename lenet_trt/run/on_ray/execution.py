"""One execution of Ray Data: rows of pieces become rows of pixels, and those a file each and a row that says so."""

from __future__ import annotations

import logging
import pickle
import threading
import uuid
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lenet_trt.errors import LenetTrtError
from lenet_trt.run.on_ray.cluster import Workers
from lenet_trt.run.on_ray.model import ModelFiles
from lenet_trt.run.on_ray.pieces import ImagePiece
from lenet_trt.run.on_ray.place import DataPlace
from lenet_trt.run.on_ray.read import Read, Reader
from lenet_trt.run.on_ray.worker import Answering, Done, Worker


class WorkersLostError(LenetTrtError):
    """Report that a process or a machine of the cluster ended in the middle of its work."""


@dataclass(frozen=True, eq=False)
class Execution:
    """What all executions of a job share; a call runs the shards that it is given."""

    ray: Any
    model: ModelFiles
    reader: Reader
    answering: Answering
    output: DataPlace
    about: dict[str, str]

    def __call__(self, shards: Mapping[int, list[ImagePiece]], workers: Workers) -> Iterator[Done]:
        """Run shards; yields what was done in the order in which it is.

        Raises:
            WorkersLostError: a process or a machine ended; what was yielded is done.
            LenetTrtError: the network fails, or something cannot be read or written.
        """
        ray = self.ray
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # its errors come as exceptions too
        model = ray.put(self.model)
        items = [{"shard": number, "content": pickle.dumps(pieces)} for number, pieces in shards.items()]
        # A block for each shard: what is lost with a machine is read again alone.
        rows = ray.data.from_items(items, override_num_blocks=len(items))
        form = {"batch_size": 1, "batch_format": "pyarrow"}
        rows = rows.map_batches(_ReadRows(self.reader), **form)
        started = _Started()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*ray_remote_args", DeprecationWarning)
            rows = self._workers(rows, workers, model, form, started)
        others = threading.enumerate()
        fetched = iter(rows.iter_rows())
        try:
            for row in fetched:
                said = pickle.loads(row["content"])
                if isinstance(said, _Failure):
                    raise LenetTrtError(said.message)
                yield said
        except LenetTrtError:
            raise
        except Exception as error:  # Ray's, of many kinds
            raise _told(ray, error) from error
        finally:
            fetched.close()
            _wait_for_fetching(others)
            started.end(ray)

    def _workers(self, rows: Any, workers: Workers, model: Any, form: dict[str, Any], started: _Started) -> Any:
        return rows.map_batches(
            WorkRows,
            fn_constructor_args=([model], self.answering, self.output, self.about),
            ray_remote_args_fn=started.arguments,
            **workers.arguments(self.ray),
            **form,
        )


# How Ray Data names the threads that fetch rows, and how long they are waited for.
_FETCHING, _FETCHING_SECONDS = "iter_threaded", 10.0


def _wait_for_fetching(others: list[threading.Thread]) -> None:
    """Wait for the threads that fetched rows, ``others`` not among them.

    Where one asks Ray for an object after the program has left the cluster, Ray ends the program.
    """
    for thread in threading.enumerate():
        if thread.name == _FETCHING and thread not in others:
            thread.join(_FETCHING_SECONDS)


# How often Ray starts a worker again: enough for what ends workers from outside, and an end for one that ends itself.
_RESTARTS = 3


@dataclass(frozen=True)
class _Started:
    """Name the workers of one execution, to end them with it.

    After an error Ray only lets go of them, and its references last until Python's next garbage collection: a worker
    that Ray has started again would keep its GPU, and the next execution would wait for it.
    """

    names: list[str] = field(default_factory=list)

    def arguments(self) -> dict[str, Any]:
        """Ask Ray to start a worker again that ended while it had nothing to do, which nobody else would notice.

        A shard that it had is not waited for: its machine may be gone. That is an error, and what is missing is run
        again.
        """
        self.names.append(f"lenet-trt {uuid.uuid4().hex}")
        again = {"max_restarts": _RESTARTS, "max_task_retries": 0}
        return {"name": self.names[-1], "scheduling_strategy": "SPREAD", **again}

    def end(self, ray: Any) -> None:
        """End the workers that are still there."""
        for name in self.names if ray.is_initialized() else []:
            try:
                ray.kill(ray.get_actor(name))
            except ValueError:  # Ray knows it no more
                continue


@dataclass(frozen=True)
class _Failure:
    """Carry an error to the driver in a row: of an exception Ray brings a text with its own stack around it."""

    message: str


class _ReadRows:
    """Read the images of a row's pieces; a task of Ray Data."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def __call__(self, rows: Any) -> Any:
        number = rows["shard"][0].as_py()
        try:
            read = self._reader(pickle.loads(rows["content"][0].as_py()))
        except (LenetTrtError, OSError) as error:
            return _row(number, _Failure(f"images of shard {number} cannot be read: {error}"), _NO_PIXELS)
        return _row(number, (read.names, read.errors, read.pixels.shape), np.ascontiguousarray(read.pixels))


class WorkRows:
    """Classify and write the shards of rows; an actor of Ray Data, whose threads call it at the same time."""

    def __init__(self, model: list[Any], answering: Answering, output: DataPlace, about: dict[str, str]) -> None:
        import ray

        self._failure: _Failure | None = None
        try:
            self._worker = Worker(ray.get(model[0]), answering, output, about)
        except LenetTrtError as error:
            self._failure = _Failure(str(error))

    def __call__(self, rows: Any) -> Any:
        number = rows["shard"][0].as_py()
        read = pickle.loads(rows["content"][0].as_py())
        failure = read if isinstance(read, _Failure) else self._failure
        if failure is not None:
            return _row(number, failure, None)
        names, errors, shape = read
        # As it lies in Ray's shared memory, without a copy.
        pixels = np.frombuffer(rows["pixels"].chunk(0)[0].as_buffer(), np.uint8).reshape(shape)
        try:
            return _row(number, self._worker(number, Read(names, errors, pixels)), None)
        except LenetTrtError as error:
            return _row(number, _Failure(str(error)), None)


_NO_PIXELS = np.zeros(0, np.uint8)


def _row(number: int, content: Any, pixels: Any) -> Any:
    """Make a table of one row; the pixels are not copied into it."""
    import pyarrow as pa

    columns = {"shard": pa.array([number], pa.int64()), "content": pa.array([pickle.dumps(content)], pa.large_binary())}
    if pixels is not None:
        ends = pa.py_buffer(np.array([0, pixels.nbytes], np.int64))
        data = pa.py_buffer(pixels.reshape(-1))
        columns["pixels"] = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, data])
    return pa.table(columns)


# Ray's errors of a process or a machine that ended; they have no base class of their own. Ray itself ends workers where
# a machine runs short of memory.
_LOST = ("RayActorError", "WorkerCrashedError", "ObjectLostError", "NodeDiedError", "OutOfMemoryError")


def _told(ray: Any, error: Exception) -> LenetTrtError:
    """Say what Ray's error means: a worker that ended, or something else, in its own words."""
    lost = tuple(getattr(ray.exceptions, name) for name in _LOST)
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, lost):
            return WorkersLostError(f"a worker or its machine ended ({_first_line(at)})")
        cause = getattr(at, "cause", None)
        at = cause if isinstance(cause, BaseException) else at.__cause__ or at.__context__
    return LenetTrtError(f"Ray stopped: {type(error).__name__}: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]
