"""Count the images of a file by its header, and read some of them, so that a large file can be shared out."""

from __future__ import annotations

import io
import math
import os
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.export.idx import IdxAxes, read_idx_shape
from lenet_trt.images.files import checked_images, damage_told, kind_of, npy_header, read_pixels
from lenet_trt.images.form import Form

_MAX_NPY_HEADER = 1 << 16


def count_images(file: BinaryIO, name: str, form: Form) -> int:
    """Count the images of an open file that can seek, by its header.

    Raises:
        LenetTrtError: the header is damaged, promises more or less than the file has, or is of other images.
        OSError: the file cannot be read.
    """
    kind = kind_of(file, name)
    if kind == "idx":
        shape, start = read_idx_shape(file, name, _axes(form))
        if start is not None:
            _check_length(file, name, start + math.prod(shape))
        return shape[0]
    if kind == "npy" and (placed := _npy_place(file, name, form)) is not None:
        shape, start = placed
        _check_length(file, name, start + math.prod(shape))
        return shape[0]
    file.seek(0)
    return len(read_pixels(file, name, form))


def read_range(file: BinaryIO, name: str, form: Form, first: int, count: int) -> NDArray[np.uint8]:
    """Read ``count`` images from number ``first`` on; of an uncompressed file nothing else is read.

    Shapes: [count, channels, height, width].

    Raises:
        LenetTrtError: the file is damaged, or has fewer images.
        OSError: it cannot be read.
    """
    kind = kind_of(file, name)
    found: NDArray[np.uint8] | None = None
    if kind == "idx":
        shape, start = read_idx_shape(file, name, _axes(form))
        if start is not None:
            found = _rows(file, start, shape, first, count)
    elif kind == "npy" and (placed := _npy_place(file, name, form)) is not None:
        shape, start = placed
        found = checked_images(_rows(file, start, shape, first, count), name, form)
    if found is None:
        file.seek(0)
        found = read_pixels(file, name, form)[first : first + count]
    if len(found) < count:
        raise LenetTrtError(f"{name} ends before its image {first + count - 1}: it was changed while it was read")
    return found.reshape(-1, *form.shape)


def _axes(form: Form) -> IdxAxes:
    return (None, *(form.shape[1:] if form.channels == 1 else form.shape))


def _npy_place(file: BinaryIO, name: str, form: Form) -> tuple[tuple[int, ...], int] | None:
    """Shape and start of an array of several images; None for a single image, and where images do not lie in a row."""
    with damage_told(name, "NumPy file"):
        head = io.BytesIO(file.read(_MAX_NPY_HEADER))
        shape, fortran_order, dtype = npy_header(head, name)
    single = len(shape) < (3 if form.channels == 1 else 4)
    if single or fortran_order or min(shape) < 0:
        return None
    checked_images(np.zeros((0, *shape[1:]), dtype), name, form)
    return shape, head.tell()


def _rows(file: BinaryIO, start: int, shape: tuple[int, ...], first: int, count: int) -> NDArray[np.uint8]:
    each = math.prod(shape[1:])
    file.seek(start + first * each)
    data = file.read(count * each)
    whole = len(data) // each
    return np.frombuffer(data, np.uint8, whole * each).reshape(whole, *shape[1:])


def _check_length(file: BinaryIO, name: str, wanted: int) -> None:
    seen = file.seek(0, os.SEEK_END)
    if seen != wanted:
        raise LenetTrtError(
            f"{name} has {seen} bytes, and its header promises {wanted}: it is cut short, or something was appended"
        )
