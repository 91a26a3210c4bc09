"""Build the engines of many cases side by side, each case in a process of its own, before any of them is timed.

TensorRT builds on one core. A process that crashes in TensorRT loses the engines of its own case alone.
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
from lenet_trt.bench.zoo.tables import PLUGINS, TENSORRT
from lenet_trt.errors import LenetTrtError
from lenet_trt.tensorrt.engine import builder_kept


class SurveyJob(NamedTuple):
    """Name a case."""

    network: str
    batch: int
    precision: str


# What could not be built: network, batch, precision, backend -> why.
Failures = dict[tuple[str, int, str, str], LenetTrtError]
# What a process tells of one backend: its name, the seconds of the build, and why there is no engine.
_Told = tuple[str, float, str]


def build_ahead(jobs: Sequence[SurveyJob], models: Path, builder: Builder, at_once: int, found: Recording) -> Failures:
    """Build the engines of these cases into the builder's folder, ``at_once`` processes at a time.

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
                failed |= {(*job, backend): LenetTrtError(why) for backend, _, why in told if why}
                said = ", ".join(f"{backend}: {why or f'built in {seconds:.0f} s'}" for backend, seconds, why in told)
                found.say(f"{number} of {len(working)}, {job.network}, batch {job.batch}, {job.precision}: {said}")
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)  # those in work are waited for, and no other begins
            raise
    return failed


def _built_elsewhere(job: SurveyJob, path: Path, builder: Builder) -> list[_Told]:
    """Build a case in a new process, and return what that tells."""
    context = multiprocessing.get_context("spawn")  # CUDA does not live on in a forked process
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_build, args=(job, path, builder, sender), daemon=True)
    process.start()
    sender.close()
    told: list[_Told] = []
    with closing(receiver):
        try:
            while True:
                told.append(receiver.recv())
        except (EOFError, OSError):  # it has ended; OSError: in the middle of a message
            process.join()
    if process.exitcode:
        backend = PLUGINS if told else TENSORRT
        told.append((backend, 0.0, f"the process that built it ended with status {process.exitcode}"))
    return told


def _build(job: SurveyJob, path: Path, builder: Builder, sender: Connection) -> None:
    """Build the engines of a case in this process."""
    network = next(each for each in ZOO if each.name == job.network)
    case = ZooCase(ExportedNetwork(network, path, None), job.batch, job.precision)
    with tempfile.TemporaryDirectory(prefix="lenet-trt-zoo-ahead-") as scratch, builder_kept():
        engines = builder.engines(Path(scratch))
        for backend in case.backends:
            try:
                sender.send((backend, case.built(backend, engines, builder.folder).build_seconds, ""))
            except LenetTrtError as problem:
                sender.send((backend, 0.0, str(problem)))
