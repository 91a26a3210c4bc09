"""Join the Ray cluster that there is, or start one on this machine; and say how many workers it can hold."""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.run.on_ray.packages import ray_data

# Ray counts parts of a GPU in steps of 1 / 10,000.
_PARTS = 10_000
_ANSWER_SECONDS = 10.0
# Ray's word for a cluster that it starts on this machine, for one program.
OWN_CLUSTER = "local"


@dataclass(frozen=True)
class Workers:
    """How many workers hold the network, and how many GPUs each has: one, a part of one, or none.

    Workers take no processor core from Ray's account: the tasks that read need those of every machine, and where
    machines are lost, workers on the others would leave them none.
    """

    count: int
    gpus: float

    @property
    def at_once(self) -> int:
        """Say how many shards a worker has at the same time: the GPU computes one while another is on the host."""
        return 2 if self.gpus else 1

    def arguments(self, ray: Any) -> dict[str, Any]:
        """Return what ``map_batches`` needs to make these workers, whose class must be safe for threads."""
        return {
            "num_gpus": self.gpus,
            "num_cpus": 0,
            # Without this word Ray Data calls the class of an actor from one thread, whatever max_concurrency is.
            "compute": ray.data.ActorPoolStrategy(size=self.count, enable_true_multi_threading=True),
            "max_concurrency": self.at_once,
        }


@contextmanager
def connected_ray(address: str | None) -> Iterator[Any]:
    """Yield ``ray``, connected: to the cluster that the program uses already, or else by ``cluster_address``.

    A cluster that is started here ends with the block.

    Raises:
        LenetTrtError: Ray is not installed, or no cluster answers there.
    """
    ray = ray_data()
    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    try:
        found = cluster_address(address)
        ray.init(address=found, include_dashboard=False if found == OWN_CLUSTER else None, **quiet)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        named = _named(address)
        there = f"at {named} " if named else ""
        raise LenetTrtError(
            f"no Ray cluster {there}answers: {error}: start one with ray start, or see ray status"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def cluster_address(address: str | None) -> str:
    """Return the address of the cluster to join, or OWN_CLUSTER where one has to be started.

    That is ``address``, else RAY_ADDRESS, else the cluster of this machine's last ``ray start``, which leaves its
    address in a file. The file is still there where the cluster was killed, and Ray itself tries an address where
    nobody answers for a quarter of an hour. Left to choose ("auto"), Ray would also join what another program has
    started for itself, and end with it.

    Raises:
        ConnectionError: nobody answers at the address that the caller or RAY_ADDRESS names.
    """
    named = _named(address)
    if named and named != "auto":
        _ask(named)
        return named
    left = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    try:
        found = left.read_text(encoding="utf-8").strip()
        _ask(found)
    except OSError as error:
        if named:
            raise ConnectionError("none was started on this machine") from error
        return OWN_CLUSTER
    return found


def _named(address: str | None) -> str | None:
    """Return the address that the caller or RAY_ADDRESS names."""
    return address or os.environ.get("RAY_ADDRESS")


def _ask(address: str) -> None:
    """Open a connection to HOST:PORT; other addresses, such as ray://..., are Ray's to judge."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
        except OSError as error:
            raise ConnectionError(str(error)) from error


def workers_of(resources: dict[str, float], gpus: int | None, workers: int | None) -> Workers:
    """Share out a cluster: a worker for each GPU, or where there is none, one for every second processor core.

    Of ``gpus`` and ``workers`` together each GPU holds an equal number of workers.

    Raises:
        UsageError: more is asked for than there is.
    """
    cores, present = most_workers(resources), int(resources.get("GPU", 0.0))
    if gpus is not None and gpus > present:
        raise UsageError(f"--gpus {gpus}: the cluster has {present} GPUs (ray status lists them)")
    if gpus and workers is not None:
        if workers % gpus:
            raise UsageError(
                f"--gpus {gpus} --workers {workers}: every GPU holds the same number of workers: take a multiple of "
                f"{gpus} workers"
            )
        return Workers(workers, math.floor(_PARTS * gpus / workers) / _PARTS)
    if gpus or (gpus is None and workers is None and present):
        return Workers(gpus or present, 1.0)
    if workers is not None and workers > cores:
        raise UsageError(f"--workers {workers}: the cluster has {cores} processor cores, and a worker needs one")
    return Workers(workers or max(1, cores // 2), 0.0)


def most_workers(resources: dict[str, float]) -> int:
    """Return how many workers on the CPU a cluster has processor cores for."""
    return max(1, math.floor(resources.get("CPU", 0.0)))
