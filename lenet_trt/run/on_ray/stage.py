"""Classify files of images with Ray Data: tasks read shards, an actor for each GPU answers, each shard is one file."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lenet_trt import __version__
from lenet_trt.errors import LenetTrtError, LenetTrtWarning, UsageError
from lenet_trt.files import sha256_bytes
from lenet_trt.images.form import ImageOptions
from lenet_trt.run.on_ray.cluster import Workers, connected_ray, most_workers, workers_of
from lenet_trt.run.on_ray.execution import Execution, WorkersLostError
from lenet_trt.run.on_ray.job import Job, open_job
from lenet_trt.run.on_ray.model import read_model
from lenet_trt.run.on_ray.pieces import ImagePiece, default_shard, find_pieces, fingerprint, shards_of
from lenet_trt.run.on_ray.place import DataPlace, place
from lenet_trt.run.on_ray.read import Reader
from lenet_trt.run.on_ray.shard import shard_name
from lenet_trt.run.on_ray.worker import Answering, Done, on_workers

Progress = Callable[[int, int], None]
# Executions in a row that finish no shard: then the fault is not of a machine that was lost.
_FRUITLESS = 3
# Of fewer shards for each worker, those that are begun or left over at an end of the time change the rate.
_LEAST_FOR_RATE = 20
# Shards of one execution: Ray holds something for each of them in memory.
_ROUND = 10_000


@dataclass(frozen=True)
class JobSummary:
    """Say what a start did: ``images`` of which ``errors`` were damaged, of ``of_images`` that the job has.

    ``images_per_s`` is the rate from the moment at which every worker has finished its first shard, so without the
    start of the cluster and its workers, until the last shard is done; None of fewer than 20 shards a worker behind it.
    """

    output: str
    where: str
    workers: int
    images: int
    errors: int
    of_images: int
    shards: int
    of_shards: int
    seconds: float
    images_per_s: float | None


def classify_files(
    model: Path | str,
    sources: Sequence[str],
    output: str | os.PathLike[str],
    *,
    runtime: str = "auto",
    library: Path | None = None,
    images: ImageOptions | None = None,
    answering: Answering | None = None,
    column: str | None = None,
    shard: int | None = None,
    gpus: int | None = None,
    workers: int | None = None,
    address: str | None = None,
    filesystem: Any = None,
    progress: Progress | None = None,
) -> JobSummary:
    """Classify all images of ``sources`` and write Parquet files into the folder ``output``; go on where it stopped.

    ``sources`` and ``output`` are paths or URIs that PyArrow opens, or paths of ``filesystem`` (of PyArrow or fsspec).
    ``shard`` is the number of images of each file. ``gpus`` is the number of GPUs (default: all of the cluster),
    ``workers`` the number of workers that share them (default: one each), or without ``gpus`` the number of workers on
    the CPU, each of one processor core. ``progress`` is called with the images done, those of earlier starts with them,
    and the images in all.

    Raises:
        UsageError: options that contradict each other or the cluster.
        LenetTrtError: the network or the images cannot be read, the folder holds something else, or workers fail.
    """
    network = read_model(Path(model), runtime, library)
    given = images or ImageOptions()
    form = given.form(network.inputs)
    answer = replace(answering or Answering(), scaling=given.scaling)
    if not sources:
        raise UsageError("no images are named; wanted files, folders or URIs")
    places = tuple(place(each, filesystem) for each in sources)
    target = place(output, filesystem)
    for each in places:
        if f"{target.path}/".startswith(f"{each.path}/"):
            raise UsageError(f"{target.given} lies in {each.given}, whose images are read: name another folder with -o")
    size = shard or default_shard(form)
    shards = list(shards_of(find_pieces(places, form, column), size))
    if not shards:
        raise LenetTrtError(f"{' '.join(sources)} holds no images")
    counts = [sum(piece.count for piece in pieces) for pieces in shards]
    job = Job(
        str(model),
        network.sha256,
        list(sources),
        sum(counts),
        len(shards),
        size,
        fingerprint(shards),
        _options(runtime, given, answer, column),
    )
    done = open_job(target, job)
    about = {"job": sha256_bytes(json.dumps(asdict(job)).encode()), "lenet-trt": __version__}
    ready, had, count = sum(counts[number] for number in done), len(done), 0
    begun = time.perf_counter()
    finished: list[Done] = []
    times: list[float] = []
    if had < len(shards):
        with connected_ray(address) as ray:
            asked = _asked(ray, gpus, workers)
            first = asked()
            network, answer = on_workers(network, answer, first)
            count = first.count
            execution = Execution(ray, network, Reader(places, form, column), answer, target, about)
            for result in _run(execution, shards, done, asked):
                finished.append(result)
                times.append(time.perf_counter())
                ready += result.images
                if progress is not None:
                    progress(ready, job.images)
    _check_all_are_there(target, len(shards))
    return JobSummary(
        output=target.given,
        where=finished[-1].where if finished else "",
        workers=count,
        images=sum(each.images for each in finished),
        errors=sum(each.errors for each in finished),
        of_images=job.images,
        shards=len(done) - had,
        of_shards=job.shards,
        seconds=time.perf_counter() - begun,
        images_per_s=rate(finished, times, count),
    )


def rate(finished: Sequence[Done], times: Sequence[float], workers: int) -> float | None:
    """Compute the images a second behind the first shard of the worker that is the last to finish one.

    ``finished`` is in the order of ``times``, at which the shards were done. Returns None where a worker finished none,
    or where there are too few shards behind.
    """
    firsts: dict[str, int] = {}
    for index, each in enumerate(finished):
        firsts.setdefault(each.worker, index)
    begin = max(firsts.values(), default=0)
    behind = finished[begin + 1 :]
    if len(firsts) < workers or len(behind) < max(1, _LEAST_FOR_RATE * len(firsts)):
        return None
    return sum(each.images for each in behind) / (times[-1] - times[begin])


def _asked(ray: Any, gpus: int | None, workers: int | None) -> Callable[[], Workers]:
    """Check what is asked for against the whole cluster; later fewer workers are taken where machines are gone."""
    workers_of(ray.cluster_resources(), gpus, workers)

    def now() -> Workers:
        there = ray.cluster_resources()
        if gpus is None:
            return workers_of(there, None, None if workers is None else min(workers, most_workers(there)))
        fewer = min(gpus, int(there.get("GPU", 0)))
        return workers_of(there, fewer, None if workers is None or not fewer else workers // gpus * fewer)

    return now


def _run(
    execution: Execution, shards: Sequence[list[ImagePiece]], done: set[int], asked: Callable[[], Workers]
) -> Iterator[Done]:
    """Run what is missing until nothing is; ``done`` grows. Where a machine is lost, go on with those that are left."""
    fruitless = 0
    while missing := [number for number in range(len(shards)) if number not in done][:_ROUND]:
        had = len(done)
        try:
            for result in execution({number: shards[number] for number in missing}, asked()):
                done.add(result.shard)
                yield result
        except LenetTrtError as error:
            fruitless = 0 if len(done) > had else fruitless + 1
            there = f"{len(done)} of {len(shards)} shards are in {execution.output.given}"
            if fruitless == _FRUITLESS or not isinstance(error, WorkersLostError):
                raise LenetTrtError(f"{error}. {there}: the same command goes on from there") from error
            warnings.warn(f"{error}. {there}: the others are run again", LenetTrtWarning, stacklevel=2)


def _check_all_are_there(target: DataPlace, shards: int) -> None:
    seen = target.names()
    absent = sum(shard_name(number) not in seen for number in range(shards))
    if absent:
        raise LenetTrtError(
            f"{absent} of {shards} shards are not in {target.given} as this machine sees it, though workers wrote "
            "them: name a folder that all machines of the cluster share, or a URI"
        )


def _options(runtime: str, images: ImageOptions, answering: Answering, column: str | None) -> dict[str, str]:
    """Return the options on which answers depend."""
    return {
        "runtime": runtime,
        "mean": str(images.scaling.mean),
        "deviation": str(images.scaling.deviation),
        "size": str(images.size),
        "resize": str(images.resize),
        "top": str(answering.top),
        "column": str(column),
    }
