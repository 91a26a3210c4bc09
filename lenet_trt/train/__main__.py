"""Read the options of ``train``: train LeNet-5 on MNIST or on a folder with the same files; write its weights."""

from __future__ import annotations

import argparse
import logging
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from lenet_trt import __version__
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.options import whole
from lenet_trt.overwrite import add_overwrite, beside, guard, has_keys
from lenet_trt.schema import json_text

SUFFIX = ".safetensors"
MOST_EPOCHS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder with the four IDX files of a data set like MNIST, plain or .gz "
        "(default: MNIST, its training images from a public mirror)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        default=Path("lenet5.safetensors"),
        help="the file of the weights; a record of the training is written beside it as .json",
    )
    add_overwrite(parser)
    parser.add_argument("--epochs", type=whole(1, MOST_EPOCHS), default=20, help="passes over the training images")
    parser.add_argument("--seed", type=whole(0, 2**63 - 1), default=0, help="seed of all random numbers")
    parser.add_argument("--json", action="store_true", help="print the record as JSON")


def command(args: argparse.Namespace) -> int:
    """Train, write the weights and their record, and print the accuracy on the test images."""
    _check(args)
    try:
        import torch
        from tqdm.contrib.logging import logging_redirect_tqdm
    except ImportError as error:
        raise LenetTrtError(
            f"training needs torch, which cannot be imported ({error}): "
            "pip install 'lenet-trt[export]'; the trained weights ship with the package"
        ) from error
    from lenet_trt.export import mnist
    from lenet_trt.export.download import training_folder
    from lenet_trt.export.train import Recipe, torch_accuracy, train
    from lenet_trt.export.weights import save_weights, weights_record_path

    recipe = Recipe(epochs=args.epochs, seed=args.seed)
    with _log_on_stderr() as logger:
        training = mnist.load_split(args.data or training_folder(), mnist.TRAIN)
        test = mnist.load_split(args.data or mnist.DATA_DIR, mnist.TEST)
        with logging_redirect_tqdm([logger]):
            trained = train(training, recipe)
    record: dict[str, Any] = {
        "command": f"lenet-trt train --epochs {args.epochs} --seed {args.seed}",
        "test_accuracy": round(torch_accuracy(trained.network, test), 6),
        "test_images": len(test),
        "data_sha256": {mnist.TRAIN: training.sha256(), mnist.TEST: test.sha256()},
        "versions": {
            "lenet_trt": __version__,
            "torch": torch.__version__,
            "numpy": metadata.version("numpy"),
            "python": platform.python_version(),
        },
        "cpu": _cpu(),
        **trained.record(),
    }
    save_weights(args.output, trained.weights(), record)
    written = [str(args.output), str(weights_record_path(args.output))]
    if args.json:
        print(json_text({"written": written, **record}))
    else:
        print(
            f"test accuracy {record['test_accuracy']:.2%} on {len(test)} images, "
            f"trained on {trained.training_images} in {trained.seconds:.0f} s"
        )
        print("\n".join(written))
    return 0


def _check(args: argparse.Namespace) -> None:
    from lenet_trt.export.weights import weights_record_path

    if args.output.suffix != SUFFIX:
        raise UsageError(f"-o is {args.output}; wanted a file name that ends in {SUFFIX}")
    if args.output.is_dir():
        raise UsageError(f"-o is {args.output}, a folder; wanted a file name in it")
    record, mark = weights_record_path(args.output), has_keys("weights", "sha256", "test_accuracy")
    data = sorted(args.data.iterdir()) if args.data is not None and args.data.is_dir() else []
    guard({args.output: beside(record, mark), record: mark}, data, args.overwrite)


@contextmanager
def _log_on_stderr() -> Iterator[logging.Logger]:
    """Show the log lines of this package, and of no other package, while the verb runs."""
    logger = logging.getLogger("lenet_trt")
    handler = logging.StreamHandler(sys.stderr)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield logger
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} logical cores"


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["train", *sys.argv[1:]]))
