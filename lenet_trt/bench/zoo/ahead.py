"""Build the engines of many networks side by side, before any of them is timed.

TensorRT builds on one core. A network in a batch has a process of its own: its precisions, one after the other, share
what TensorRT loads and times. A process that crashes in TensorRT loses the engine in work alone.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from lenet_trt.bench.suite import Recording
from lenet_trt.bench.zoo.cases import Builder, ZooCase
from lenet_trt.bench.zoo.models import ExportedNetwork, exported_network
from lenet_trt.bench.zoo.networks import ZOO
from lenet_trt.bench.zoo.tables import TENSORRT
from lenet_trt.errors import LenetTrtError
from lenet_trt.tensorrt.engine import builder_kept


class SurveyJob(NamedTuple):
    """Name a network in a batch, and the precisions to build it in; ``done``: engines of which all is known already."""

    network: str
    batch: int
    precisions: tuple[str, ...]
    done: tuple[tuple[str, str], ...] = ()  # precision, backend


# What could not be built: network, batch, precision, backend -> why.
Failures = dict[tuple[str, int, str, str], LenetTrtError]


class _Told(NamedTuple):
    """Hold what a process tells of an engine; ``why``: the reason where there is none."""

    precision: str
    backend: str
    seconds: float
    why: str

    def __str__(self) -> str:
        return f"{self.precision}, {self.backend}: {self.why or f'built in {self.seconds:.0f} s'}"


def build_ahead(jobs: Sequence[SurveyJob], models: Path, builder: Builder, at_once: int, found: Recording) -> Failures:
    """Build the engines of these jobs into the builder's folder, ``at_once`` processes at a time.

    Networks that are not in the folder of models are exported first, one after the other.
    """
    networks = {network.name: network for network in ZOO}
    exported: dict[str, ExportedNetwork] = {}
    for name in dict.fromkeys(job.network for job in jobs):
        try:
            exported[name] = exported_network(networks[name], models, found)
        except LenetTrtError as problem:
            found.say(f"{name}: {problem}")  # it is a row of each case when the cases are timed
    failed: Failures = {}
    with ThreadPoolExecutor(at_once) as pool:
        working = {
            pool.submit(_built_elsewhere, job, exported[job.network].path, builder): job
            for job in jobs
            if job.network in exported
        }
        try:
            for number, done in enumerate(as_completed(working), 1):
                job, told = working[done], done.result()
                for each in told:
                    if each.why:
                        failed[job.network, job.batch, each.precision, each.backend] = LenetTrtError(each.why)
                found.say(f"{number} of {len(working)}, {job.network}, batch {job.batch}: {'; '.join(map(str, told))}")
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)  # those in work are waited for, and no other begins
            raise
    return failed


def _built_elsewhere(job: SurveyJob, path: Path, builder: Builder) -> list[_Told]:
    """Build a job in a new process, and what is left in another one where that dies; return what they tell."""
    told, died = _told_by_process(job, path, builder)
    if not died:
        return told
    done = (*job.done, *((each.precision, each.backend) for each in told))
    return told + _built_elsewhere(job._replace(done=done), path, builder)


def _told_by_process(job: SurveyJob, path: Path, builder: Builder) -> tuple[list[_Told], bool]:
    """Build a job in a new process; return what it tells of each engine, and whether it died at the last of them."""
    context = multiprocessing.get_context("spawn")  # CUDA does not live on in a forked process
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_build, args=(job, path, builder, sender), daemon=True)
    process.start()
    sender.close()
    told: list[_Told] = []
    begun = None
    with closing(receiver):
        try:
            while True:
                begun = receiver.recv()
                told.append(_Told(*begun, *receiver.recv()))
                begun = None
        except (EOFError, OSError):  # it has ended; OSError: in the middle of a message
            process.join()
    if begun or not (told or job.done):
        precision, backend = begun or (job.precisions[0], TENSORRT)
        told.append(_Told(precision, backend, 0.0, f"the process that built it ended with status {process.exitcode}"))
    return told, begun is not None


def _build(job: SurveyJob, path: Path, builder: Builder, sender: Connection) -> None:
    """Build a job in this process: tell of each engine that it begins, then the seconds or why there is none."""
    network = next(each for each in ZOO if each.name == job.network)
    with tempfile.TemporaryDirectory(prefix="lenet-trt-zoo-ahead-") as scratch, builder_kept():
        engines = builder.engines(Path(scratch))
        for precision in job.precisions:
            case = ZooCase(ExportedNetwork(network, path, None), job.batch, precision)
            for backend in case.backends:
                if (precision, backend) in job.done:
                    continue
                sender.send((precision, backend))
                try:
                    sender.send((case.built(backend, engines, builder.folder).build_seconds, ""))
                except LenetTrtError as problem:
                    sender.send((0.0, str(problem)))
