"""The record of a job beside its shards: a second start goes on only where it would compute the same."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import msgspec

from lenet_trt.errors import LenetTrtError
from lenet_trt.run.on_ray.place import DataPlace
from lenet_trt.run.on_ray.shard import shard_number
from lenet_trt.schema import json_text

JOB_FILE = "job.json"
_SCHEMA = 1


@dataclass(frozen=True)
class Job:
    """Say what a folder of shards holds: which network, which images, in which shards, with which options."""

    model: str
    model_sha256: str
    sources: list[str]
    images: int
    shards: int
    shard_images: int
    images_sha256: str
    options: dict[str, str]
    schema: int = _SCHEMA


def open_job(output: DataPlace, job: Job) -> set[int]:
    """Begin a job in a folder, or find out what of it is done; returns the numbers of the shards that are there.

    Raises:
        LenetTrtError: the folder holds something else, or the results of another job.
    """
    try:
        names = output.names()
        record = output.read(JOB_FILE)
    except OSError as error:
        raise LenetTrtError(f"{output.given} cannot be read: {error}") from error
    done = {number for number in map(shard_number, names) if number is not None}
    if record is None:
        if any(not name.startswith(".") for name in names):
            raise LenetTrtError(
                f"{output.given} holds files, and no {JOB_FILE} of an earlier start: name a new folder with -o"
            )
        output.write(JOB_FILE, (json_text(asdict(job)) + "\n").encode())
        return set()
    try:
        before = msgspec.json.decode(record, type=Job)
    except msgspec.DecodeError as error:
        raise LenetTrtError(f"{output.given}/{JOB_FILE} is damaged ({error}): name a new folder with -o") from error
    if before != job:
        old, new = asdict(before), asdict(job)
        other = ", ".join(
            f"{key} was {_short(old[key])} and is {_short(new[key])}" for key in old if old[key] != new[key]
        )
        raise LenetTrtError(
            f"{output.given} holds the results of another job ({other}): start that one again, "
            "or name a new folder with -o"
        )
    return {number for number in done if number < job.shards}


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
