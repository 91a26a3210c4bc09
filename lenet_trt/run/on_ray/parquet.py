"""Images in Parquet: encoded pictures, or pixels, in one column; a damaged image is an error of its row alone."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.images.files import checked_images, read_pixels
from lenet_trt.images.form import Form

_MAGIC = b"PAR1"
DEFAULT_COLUMN = "image"
_BATCH_ROWS = 256


def is_parquet(file: BinaryIO) -> bool:
    """Say whether an open file begins as Parquet does; it is left at its start."""
    head = file.read(len(_MAGIC))
    file.seek(0)
    return head == _MAGIC


def groups_of(file: BinaryIO, name: str, column: str | None) -> list[tuple[int, int]]:
    """Return the first row and the number of rows of each row group.

    Raises:
        LenetTrtError: the file is damaged, or has no such column.
    """
    opened = _opened(file, name)
    column_of(opened.schema_arrow, name, column)
    groups, first = [], 0
    for index in range(opened.metadata.num_row_groups):
        count = opened.metadata.row_group(index).num_rows
        groups.append((first, count))
        first += count
    return groups


def column_of(schema: Any, name: str, column: str | None) -> str:
    """Return the column of the images: the one asked for, the one called "image", or the only one.

    Raises:
        LenetTrtError: there is no such column; lists those that there are.
    """
    names = list(schema.names)
    wanted = column or (DEFAULT_COLUMN if DEFAULT_COLUMN in names or len(names) != 1 else names[0])
    if wanted not in names:
        raise LenetTrtError(
            f"{name} has no column {wanted}; it has {', '.join(names) or 'none'}: "
            "say which of them has the images with --column"
        )
    return wanted


def rows(
    file: BinaryIO, name: str, column: str | None, form: Form, first: int, count: int
) -> Iterator[tuple[NDArray[np.uint8] | None, str | None]]:
    """Read the images of some rows: pixels [channels, height, width], or None and why there are none.

    Raises:
        LenetTrtError: the file is damaged, so that no row can be read.
    """
    import pyarrow as pa

    opened = _opened(file, name)
    wanted = column_of(opened.schema_arrow, name, column)
    groups: list[int] = []
    begun = start = 0
    for index in range(opened.metadata.num_row_groups):
        size = opened.metadata.row_group(index).num_rows
        if begun < first + count and begun + size > first:
            start = start if groups else begun
            groups.append(index)
        begun += size
    skip = first - start
    try:
        # Only the bytes of these row groups and of this column are read.
        for batch in opened.iter_batches(batch_size=_BATCH_ROWS, row_groups=groups, columns=[wanted]):
            taken = batch.slice(min(skip, len(batch)), count)
            skip, count = max(0, skip - len(batch)), count - len(taken)
            values = taken.column(0)
            for index in range(len(taken)):
                yield image_of(values, index, f"{name}[{first + index}]", form)
            first += len(taken)
            if not count:
                return
    except pa.ArrowException as error:
        raise LenetTrtError(f"{name} is a damaged Parquet file: {error}") from error


def image_of(values: Any, index: int, name: str, form: Form) -> tuple[NDArray[np.uint8] | None, str | None]:
    """Read one image of a column: an encoded picture, {"bytes": picture}, or pixels as a tensor or a list."""
    try:
        value = values[index]
        if hasattr(value, "to_numpy"):  # a tensor of a fixed shape
            return checked_images(np.asarray(value.to_numpy()), name, form)[0], None
        plain = value.as_py()
        if isinstance(plain, dict):
            plain = plain.get("bytes")
        if plain is None:
            return None, f"{name} is empty; wanted a picture or pixels"
        if isinstance(plain, bytes):
            return read_pixels(io.BytesIO(plain), name, form)[0], None
        array = np.asarray(plain)
        if array.ndim == 1 and array.size == np.prod(form.shape) and array.dtype.kind in "iu":
            array = array.reshape(form.shape)
        if array.dtype.kind in "iu" and array.size and array.min() >= 0 and array.max() <= 255:
            array = array.astype(np.uint8)  # a list of Python's numbers has lost its type
        return checked_images(array, name, form)[0], None
    except LenetTrtError as error:
        return None, str(error)
    except ValueError as error:  # lists of unequal length
        return None, f"{name} is no image: {error}"


def _opened(file: BinaryIO, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(file)
    except pa.ArrowException as error:
        raise LenetTrtError(f"{name} is a damaged Parquet file: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise LenetTrtError(f"{name} is a damaged Parquet file: {error}") from error
