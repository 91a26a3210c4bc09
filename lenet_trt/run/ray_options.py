"""Read the options of ``run --ray``, and print what was done."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.images.form import image_options
from lenet_trt.options import whole
from lenet_trt.schema import json_text

_PLACES = ("output", "gpus", "workers", "shard", "column", "address")
# What the options of a run on one machine are called there.
_ALONE = ("labels", "names", "throughput", "csv", "trust")


def add_ray_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that ``ray_command`` reads."""
    group = parser.add_argument_group("many images, several GPUs or machines (--ray)")
    group.add_argument(
        "--ray",
        action="store_true",
        help="read and classify with Ray Data, in the cluster that there is or on this machine; IMAGES may be folders, "
        "IDX, NumPy and Parquet, as paths or URIs such as s3://...",
    )
    group.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="the folder, or its URI, for the answers: Parquet files; started again, it goes on where it stopped",
    )
    group.add_argument(
        "--gpus", type=whole(), metavar="N", help="GPUs, a worker for each (default: all of the cluster)"
    )
    group.add_argument(
        "--workers",
        type=whole(),
        metavar="N",
        help="workers on the CPU (default: half of the processor cores), or with --gpus workers that share the GPUs",
    )
    group.add_argument(
        "--shard", type=whole(), metavar="N", help="images of a file in OUT (default: 65536, or 64 MiB of pixels)"
    )
    group.add_argument("--column", metavar="NAME", help="the column of Parquet files with the images (default: image)")
    group.add_argument("--address", metavar="HOST:PORT", help="the Ray cluster (default: RAY_ADDRESS, or one here)")


def check_no_ray_arguments(arguments: argparse.Namespace) -> None:
    """Refuse the options of ``--ray`` without it.

    Raises:
        UsageError: there is one.
    """
    for name in _PLACES:
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name} is an option of a run on Ray: add --ray, or leave it out")


def ray_command(arguments: argparse.Namespace) -> int:
    """Classify the images with Ray Data.

    Raises:
        UsageError: an option is missing, or does not go with --ray.
    """
    if arguments.output is None:
        raise UsageError("--ray writes files: name their folder with -o OUT")
    for name in _ALONE:
        if getattr(arguments, name):
            raise UsageError(f"--{name} does not go with --ray: leave one of them out")
    if not arguments.images:
        raise UsageError("--ray wants IMAGES: files, folders or URIs")
    from lenet_trt.run.on_ray.stage import classify_files
    from lenet_trt.run.on_ray.worker import Answering

    with _Bar() as bar, _go_on_after_interrupt(arguments.output):
        done = classify_files(
            arguments.model,
            arguments.images,
            arguments.output,
            runtime=arguments.runtime,
            library=arguments.library,
            images=image_options(arguments),
            answering=Answering(batch=arguments.batch, top=arguments.top),
            column=arguments.column,
            shard=arguments.shard,
            gpus=arguments.gpus,
            workers=arguments.workers,
            address=arguments.address,
            progress=bar,
        )
    if arguments.json:
        print(json_text({"model": str(arguments.model), **asdict(done)}))
        return 0
    before = done.of_images - done.images
    print(f"model    {arguments.model}")
    if done.shards:
        plural = "" if done.workers == 1 else "s"
        print(f"runtime  {done.where}, {done.workers} worker{plural}")
        rate = "" if done.images_per_s is None else f", {done.images_per_s:,.0f} images/s once every worker works"
        print(f"images   {done.images:,} in {done.seconds:.1f} s with the start of the workers{rate}")
    print(f"errors   {done.errors:,}{' (their rows say what is wrong)' if done.errors else ''}")
    if before:
        print(f"before   {before:,} images were done by an earlier start")
    print(f"output   {done.output}  ({done.of_shards:,} files for {done.of_images:,} images)")
    return 0


class InterruptedRunError(LenetTrtError):
    """Report a run that the user stopped: what is written stays."""

    exit_code = 130


@contextmanager
def _go_on_after_interrupt(output: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        raise InterruptedRunError(f"interrupted; the same command goes on with what is in {output}") from error


class _Bar:
    """Show progress on standard error; the bar begins with what was done before."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> _Bar:
        return self

    def __call__(self, done: int, images: int) -> None:
        from tqdm import tqdm

        if self._bar is None:
            self._bar = tqdm(total=images, unit="img", unit_scale=True, file=sys.stderr)
        self._bar.update(done - self._bar.n)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
