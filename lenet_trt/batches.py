"""Batch sizes as options name them: ``--batch 1 32 1024`` or ``--batch 1,32,1024``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from lenet_trt.errors import UsageError


def add_batches(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare ``--batch``; ``what`` says what the sizes are for, and which there are without it."""
    parser.add_argument("--batch", nargs="+", metavar="N", help=f"{what}; spaces or commas between them")


def batches_of(words: Sequence[str] | None) -> tuple[int, ...] | None:
    """The sizes that were named, each once and in that order; None where the option was left out.

    Raises:
        UsageError: one is no number of at least 1.
    """
    if words is None:
        return None
    parts = [part for part in ",".join(words).replace(" ", ",").split(",") if part]
    if not parts or not all(part.isascii() and part.isdecimal() and int(part) >= 1 for part in parts):
        raise UsageError(f"--batch {' '.join(words)}: wanted numbers >= 1, such as 1 32 1024 or 1,32,1024")
    return tuple(dict.fromkeys(int(part) for part in parts))
