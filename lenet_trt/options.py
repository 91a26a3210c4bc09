"""Read the numbers on a command line: every option reads them here, so that errors have one form.

``whole`` and ``number`` make functions for ``argparse``'s ``type=``; argparse then names the option in its message.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence

from lenet_trt.errors import UsageError

# TensorRT, CUDA and ONNX Runtime count along an axis, and count repetitions, in 32 bits with a sign.
LARGEST = 2**31 - 1
# The way out for a network with more open axes than a verb or a kernel takes.
GIVE_SIZES = "give open axes sizes with --sizes NAME=N"
_MOST_DIGITS = len(str(2**64))


def read_whole(text: str, low: int = 1, high: int = LARGEST) -> int:
    """Read a whole number in ASCII digits.

    Raises:
        ArgumentTypeError: it is no number, or lies outside ``low`` to ``high``; says which numbers are taken.
    """
    digits = text.removeprefix("-")
    value = int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS else None
    if value is None or not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{_shown(text)} is not a whole number from {low} to {high}")
    return value


def whole(low: int = 1, high: int = LARGEST) -> Callable[[str], int]:
    """Make the ``type=`` of an option that takes a whole number from ``low`` to ``high``."""
    return lambda text: read_whole(text, low, high)


def number(low: float, high: float | None = None) -> Callable[[str], float]:
    """Make the ``type=`` of an option that takes a finite number from ``low`` on, up to ``high`` where one is given."""

    def read(text: str) -> float:
        try:
            value = float(text) if text.isascii() and "_" not in text else math.nan
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and low <= value and (high is None or value <= high)):
            wanted = f"from {low:g} on" if high is None else f"from {low:g} to {high:g}"
            raise argparse.ArgumentTypeError(f"{_shown(text)} is not a number {wanted}")
        return value

    return read


def add_batches(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare ``--batch``; ``what`` is its help text: the use of the sizes, and the default."""
    parser.add_argument("--batch", nargs="+", metavar="N", help=f"{what}; spaces or commas between them")


def batches_of(words: Sequence[str] | None) -> tuple[int, ...] | None:
    """Read ``--batch 1 32 1024`` or ``--batch 1,32,1024``: each size once, in that order; None without the option.

    Raises:
        UsageError: a size is not a number of at least 1.
    """
    if words is None:
        return None
    parts = [part for part in ",".join(words).replace(" ", ",").split(",") if part]
    try:
        sizes = [read_whole(part) for part in parts]
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--batch {' '.join(words)}: {error}; wanted sizes such as 1 32 1024 or 1,32,1024") from None
    if not sizes:
        raise UsageError(f"--batch {' '.join(words)}: wanted sizes such as 1 32 1024 or 1,32,1024")
    return tuple(dict.fromkeys(sizes))


def add_sizes(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup,
    what: str = "sizes of open axes by their names; what is written has them for good",
) -> None:
    """Declare ``--sizes``; ``what`` is its help text."""
    parser.add_argument("--sizes", metavar="NAME=N,...", help=what)


def sizes_from_text(text: str | None) -> dict[str, int]:
    """Read ``--sizes batch=8,sequence=128``: the sizes of open axes by their names; none without the option.

    Raises:
        UsageError: a part is not NAME=N, N is not a whole number of at least 1, or a name has two sizes.
    """
    sizes: dict[str, int] = {}
    wanted = "wanted NAME=N, several separated by commas, such as batch=8,sequence=128"
    if text is not None and not text.strip(" ,"):
        raise UsageError(f"--sizes {text}: {wanted}")
    for part in filter(str.strip, (text or "").split(",")):
        name, _, size = (piece.strip() for piece in part.rpartition("="))
        if not name:
            raise UsageError(f"--sizes {part.strip()}: {wanted}")
        try:
            number = read_whole(size)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--sizes {name}: {error}; {wanted}") from None
        if sizes.setdefault(name, number) != number:
            raise UsageError(f"--sizes {text}: {name} has the sizes {sizes[name]} and {number}; wanted one size")
    return sizes


def _shown(text: str) -> str:
    """Quote what was given, shortened where it is long."""
    return repr(text if len(text) <= 40 else f"{text[:40]}...")
