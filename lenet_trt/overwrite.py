"""Protect files: a command replaces only files that the same command made.

A verb names its inputs, and for each file that it will write how it knows its own product by the content. It asks here
before the work begins, so that nobody waits for a result that cannot be written.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import check_can_write, is_special

# Whether the file at a path was made by the command that is about to write there.
Mark: TypeAlias = Callable[[Path], bool]

_START_BYTES = 1 << 14
# A record of ours is smaller; what is larger is not read to find out.
_LARGEST_RECORD = 1 << 30


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Declare the option that every verb with an output has."""
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace an output file even where it is an input, or was not made by this command",
    )


def guard(outputs: Mapping[Path, Mark], inputs: Iterable[Path | None], overwrite: bool) -> None:
    """Refuse to write over an input or a file that the same command did not make, and where nothing can be written.

    An empty file may be replaced, and a device or a FIFO is written through, so neither needs a mark.

    Raises:
        UsageError: an output is an input.
        LenetTrtError: an output is there, and is something else; or it cannot be written.
    """
    for output in outputs:
        check_can_write(output)
    if overwrite:
        return
    given = [path for path in inputs if path is not None]
    for output, made_by_us in outputs.items():
        if any(_same(output, path) for path in given):
            raise UsageError(
                f"{output} is an input of this command, and its output would replace it: name another file with -o, "
                "or say --overwrite"
            )
        if is_special(output) or not output.is_file() or output.stat().st_size == 0:
            continue
        if not made_by_us(output):
            raise LenetTrtError(
                f"{output} is there already, and this command did not make it: name another file with -o, "
                "or say --overwrite"
            )


def says(*marks: str) -> Mark:
    """Recognise a file whose first bytes contain all these words."""

    def mark(path: Path) -> bool:
        try:
            with open(path, "rb") as file:
                start = file.read(_START_BYTES)
        except OSError:
            return False
        return all(word.encode() in start for word in marks)

    return mark


def has_keys(*names: str) -> Mark:
    """Recognise a JSON object with these keys."""
    return lambda path: set(names) <= json_object(path).keys()


def beside(leader: Path, mark: Mark) -> Mark:
    """Recognise a file without a mark of its own (weights, an engine, a table) by the record beside it."""
    return lambda _: leader.is_file() and mark(leader)


def json_object(path: Path) -> dict[str, msgspec.Raw]:
    """Return the keys of a JSON file and the text of each value; empty where it is no object or unreadable."""
    try:
        if path.stat().st_size > _LARGEST_RECORD:
            return {}
        return msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
    except (OSError, ValueError, RecursionError, msgspec.DecodeError):
        return {}


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there
        return os.path.realpath(one) == os.path.realpath(other)
