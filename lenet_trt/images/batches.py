"""Read images from files, folders and standard input as batches with names and labels."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.images.files import MAX_BYTES, PICTURE_SUFFIXES, read_labels, read_pixels
from lenet_trt.images.form import Form

STANDARD_INPUT = "-"
UNKNOWN = -1
_SPOOL_BYTES = 1 << 24
_CHUNK_BYTES = 1 << 20
_MOST_NAMES_BYTES = 1 << 24


@dataclass(frozen=True, eq=False)
class Images:
    """Hold images: their names, pixels and classes.

    Shapes: pixels [n, channels, height, width] uint8, labels [n] int64 (``UNKNOWN`` without a label).
    """

    source: str
    first: int | None
    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def names(self) -> list[str]:
        """Return the pictures' paths, or FILE[index] where a file holds several."""
        if self.first is None:
            return [self.source]
        return [f"{self.source}[{self.first + index}]" for index in range(len(self))]

    def part(self, start: int, count: int) -> Images:
        """Return the images ``start`` to ``start + count``."""
        first = None if self.first is None else self.first + start
        chosen = slice(start, start + count)
        return Images(self.source, first, self.pixels[chosen], self.labels[chosen])


@dataclass(frozen=True, eq=False)
class Batch:
    """Hold the images that go through the network at once; shapes as in ``Images``."""

    names: list[str]
    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]


def batches(sources: Sequence[str], form: Form, batch: int, labels: str | None = None) -> Iterator[Batch]:
    """Read images of a ``form`` in order, at most ``batch`` at a time.

    ``sources`` are files (IDX, PNG, JPEG, .npy, .npz), folders of pictures and "-" (standard input); none means the
    MNIST test set that ships with the package, with its labels. ``labels`` is a file with the classes of all images;
    without it an IDX file ``...images-idx3...`` takes those of ``...labels-idx1...`` beside it.

    Raises:
        LenetTrtError: a file cannot be read, the network does not take the images, or labels and images do not match.
    """
    found = _from(sources, form)
    if labels is not None:
        with _opened(labels) as file:
            found = _labelled(found, read_labels(file, labels), labels)
    return _regrouped(found, batch)


def read_names(path: str) -> tuple[str, ...]:
    """Read the names of classes, one per line.

    Raises:
        LenetTrtError: the file cannot be read, is no text, or has an empty line.
    """
    with _opened(path) as file:
        data = file.read(_MOST_NAMES_BYTES + 1)
    try:
        names = tuple(line.strip() for line in data.decode("utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise LenetTrtError(f"{path} is no UTF-8 text ({error.reason}); wanted one class name per line") from error
    if len(data) > _MOST_NAMES_BYTES or not names or not all(names):
        raise LenetTrtError(f"{path} is empty, too long, or has an empty line; wanted one class name per line")
    return names


def _from(sources: Sequence[str], form: Form) -> Iterator[Images]:
    if not sources:
        yield _mnist(form)
    for source in sources:
        if source != STANDARD_INPUT and Path(source).is_dir():
            for picture in _pictures(Path(source)):
                yield from _file(str(picture), form)
        else:
            yield from _file(source, form)


def _mnist(form: Form) -> Images:
    from lenet_trt.export.mnist import test_set

    pixels, labels = test_set()
    pixels = pixels[:, None]
    if pixels.shape[1:] != form.shape:
        raise UsageError(f"the network takes {form}, and MNIST's images have another form: name image files")
    return Images("mnist", 0, pixels, labels.astype(np.int64))


def _file(source: str, form: Form) -> Iterator[Images]:
    with _opened(source) as file:
        name = "standard input" if source == STANDARD_INPUT else source
        pixels = read_pixels(file, name, form)
    labels = np.full(len(pixels), UNKNOWN, np.int64)
    pair = Path(source).with_name(Path(source).name.replace("images", "labels").replace("idx3", "idx1"))
    if source != STANDARD_INPUT and str(pair) != str(Path(source)) and pair.is_file():
        with _opened(str(pair)) as file:
            labels = read_labels(file, str(pair))
        if len(labels) != len(pixels):
            raise LenetTrtError(f"{source} has {len(pixels)} images and {pair} beside it {len(labels)} labels")
    single = len(pixels) == 1 and source.lower().endswith(PICTURE_SUFFIXES)
    yield Images(source, None if single else 0, pixels, labels)


def _pictures(folder: Path) -> Iterator[Path]:
    """Yield the folder's pictures in the order of their names; only one picture at a time is in memory."""
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if e.name.lower().endswith(PICTURE_SUFFIXES) and e.is_file()]
    except OSError as error:
        raise LenetTrtError(f"{folder} cannot be read: {error.strerror or error}") from error
    if not names:
        raise LenetTrtError(f"{folder} has no pictures; wanted files that end in {', '.join(PICTURE_SUFFIXES)}")
    names.sort()
    return (folder / name for name in names)


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    """Open a file; standard input is copied first, so that it can be read again from the start."""
    try:
        if source == STANDARD_INPUT:
            if sys.stdin is None:
                raise LenetTrtError(
                    "standard input is closed; wanted images there: name files, or pipe images into the command"
                )
            with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as copy:
                count = 0
                while chunk := sys.stdin.buffer.read(_CHUNK_BYTES):
                    count += copy.write(chunk)
                    if count > MAX_BYTES:
                        raise LenetTrtError(
                            f"standard input is longer than {MAX_BYTES} bytes, the largest size that is read"
                        )
                copy.seek(0)
                yield copy  # type: ignore[misc]  # it has all that BinaryIO has and is used for
            return
        if not Path(source).is_file():
            seen = "is no regular file" if Path(source).exists() else "does not exist"
            raise LenetTrtError(f"{source} {seen}; wanted a file, a folder of pictures, or - for standard input")
        with open(source, "rb") as file:
            yield file
    except OSError as error:
        raise LenetTrtError(f"{source} cannot be read: {error.strerror or error}") from error


def _labelled(found: Iterable[Images], labels: NDArray[np.int64], name: str) -> Iterator[Images]:
    used = 0
    for images in found:
        if used + len(images) > len(labels):
            raise LenetTrtError(f"{name} has {len(labels)} labels, and there are more images; wanted a label for each")
        yield Images(images.source, images.first, images.pixels, labels[used : used + len(images)])
        used += len(images)
    if used < len(labels):
        raise LenetTrtError(f"{name} has {len(labels)} labels, and there are {used} images; wanted a label for each")


def _regrouped(found: Iterable[Images], batch: int) -> Iterator[Batch]:
    """Yield batches: single pictures together, large files in parts."""
    waiting: list[Images] = []
    count = 0
    for images in found:
        for start in range(0, len(images), batch):
            part = images.part(start, batch)
            if count + len(part) > batch:
                yield _joined(waiting)
                waiting, count = [], 0
            waiting.append(part)
            count += len(part)
    if waiting:
        yield _joined(waiting)


def _joined(parts: Sequence[Images]) -> Batch:
    return Batch(
        [name for part in parts for name in part.names],
        np.concatenate([part.pixels for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )
