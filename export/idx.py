"""Read and write IDX files (the format of MNIST), plain or gzip, without trusting what they say.

Source: the IDX layout is described on the MNIST page of Y. LeCun, C. Cortes and C. Burges.
"""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError

UNSIGNED_BYTE = 0x08
DTYPES = {
    0x08: "uint8",
    0x09: "int8",
    0x0B: "int16",
    0x0C: "int32",
    0x0D: "float32",
    0x0E: "float64",
}
IdxAxes: TypeAlias = tuple[int | None, ...]
GZIP_MAGIC = b"\x1f\x8b"
DEFAULT_MAX_BYTES = 1 << 29
_CHUNK_BYTES = 1 << 13
_MAX_GZIP_MEMBERS = 10_000
_GZIP_WBITS = 31


class _Plain:
    """Read the bytes of an uncompressed file, never more than requested."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        return self._file.read(size)


class _Gzip:
    """Read the bytes of a gzip file with one or more members, never more than requested at a time."""

    def __init__(self, file: BinaryIO, path: Path | str) -> None:
        self._file = file
        self._path = path
        self._pending = b""
        self._member = zlib.decompressobj(_GZIP_WBITS)
        self._member_started = False
        self._members = 0

    def read(self, size: int) -> bytes:
        parts: list[bytes] = []
        missing = size
        while missing > 0:
            if not self._pending:
                self._pending = self._file.read(_CHUNK_BYTES)
            if not self._member_started:
                # gzip allows more members one after the other, and zero padding after the last.
                while self._members and self._pending.startswith(b"\0"):
                    self._pending = self._pending.lstrip(b"\0") or self._file.read(_CHUNK_BYTES)
                if not self._pending:
                    break
                self._start_member()
            try:
                part = self._member.decompress(self._pending, missing)
            except zlib.error as error:
                raise LenetTrtError(
                    f"{self._path} is damaged: its gzip data cannot be read ({error}): copy or download the file again"
                ) from None
            ended_early = not self._pending and not part and not self._member.eof
            if ended_early:
                raise LenetTrtError(
                    f"{self._path} is cut short: its gzip data ends in the middle: copy or download the file again"
                )
            self._pending = self._member.unconsumed_tail
            if self._member.eof:
                self._pending = self._member.unused_data
                self._member_started = False
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _start_member(self) -> None:
        if self._members == _MAX_GZIP_MEMBERS:
            raise LenetTrtError(
                f"{self._path} holds more than {_MAX_GZIP_MEMBERS} gzip members: "
                "decompress it and compress it again as one"
            )
        self._members += 1
        self._member = zlib.decompressobj(_GZIP_WBITS)
        self._member_started = True


def read_idx(path: Path | str, axes: IdxAxes, *, max_bytes: int = DEFAULT_MAX_BYTES) -> NDArray[np.uint8]:
    """Read the unsigned bytes of an IDX file whose shape must match `axes` (None: any size).

    The function never holds more bytes than the header promises (and never more than `max_bytes`), even if the file
    decompresses to more; the gzip checksum is verified to the end.

    Raises: LenetTrtError when the file cannot be read, is damaged, or has another shape.
    """
    path = Path(path)
    if not path.is_file():
        seen = "is not a regular file" if path.exists() else "does not exist"
        raise LenetTrtError(f"{path} {seen}; wanted an IDX file, plain or gzip: check the path")
    try:
        with path.open("rb") as file:
            return read_idx_from(file, path, axes, max_bytes=max_bytes)
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error


def read_idx_from(
    file: BinaryIO, path: Path | str, axes: IdxAxes, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> NDArray[np.uint8]:
    """Read IDX from an open file that can seek, as `read_idx` does; `path` is its name in messages.

    Raises: LenetTrtError as `read_idx` does; OSError when the file cannot be read.
    """
    head = file.read(len(GZIP_MAGIC))
    file.seek(0)
    stream = _Gzip(file, path) if head == GZIP_MAGIC else _Plain(file)
    shape = _read_header(stream, path, axes, max_bytes)
    return _read_body(stream, path, shape)


def read_idx_shape(file: BinaryIO, path: Path | str, axes: IdxAxes) -> tuple[tuple[int, ...], int | None]:
    """Read the header of an open IDX file alone: its shape, and where the data begin (None: they are compressed).

    Raises: LenetTrtError when the header is damaged, or is not what was asked for.
    """
    head = file.read(len(GZIP_MAGIC))
    file.seek(0)
    if head == GZIP_MAGIC:
        return _read_header(_Gzip(file, path), path, axes, DEFAULT_MAX_BYTES), None
    return _read_header(_Plain(file), path, axes, 1 << 62), file.tell()


def idx_bytes(values: NDArray[np.uint8]) -> bytes:
    """Write unsigned bytes as an uncompressed IDX file."""
    header = struct.pack(f">HBB{values.ndim}I", 0, UNSIGNED_BYTE, values.ndim, *values.shape)
    return header + values.tobytes()


def _read_header(stream: _Plain | _Gzip, path: Path | str, axes: IdxAxes, max_bytes: int) -> tuple[int, ...]:
    rank = len(axes)
    magic = stream.read(4)
    if len(magic) < 4:
        raise LenetTrtError(
            f"{path} holds {len(magic)} bytes; an IDX file starts with 4 bytes of magic number: "
            "it is empty or cut short"
        )
    zero, dtype, seen_rank = struct.unpack(">HBB", magic)
    if zero != 0 or dtype not in DTYPES:
        raise LenetTrtError(
            f"{path} is not an IDX file: its magic number is {magic.hex()}; "
            f"wanted {bytes((0, 0, UNSIGNED_BYTE, rank)).hex()}"
        )
    if dtype != UNSIGNED_BYTE:
        raise LenetTrtError(f"{path} holds {DTYPES[dtype]} values; wanted uint8: convert it")
    if seen_rank != rank:
        raise LenetTrtError(
            f"{path} has {seen_rank} axes; wanted {rank} (images have 3, labels have 1): "
            "is an image file named as a label file, or a label file as an image file?"
        )
    sizes = stream.read(4 * rank)
    if len(sizes) < 4 * rank:
        raise LenetTrtError(f"{path} is cut short: it ends inside its header")
    shape = struct.unpack(f">{rank}I", sizes)
    if any(want is not None and want != seen for want, seen in zip(axes, shape, strict=True)):
        wanted = ", ".join("any" if size is None else str(size) for size in axes)
        raise LenetTrtError(
            f"{path} has shape {list(shape)}; wanted [{wanted}]: it is another kind of data set, "
            "or its header is damaged"
        )
    if math.prod(shape) > max_bytes:
        raise LenetTrtError(
            f"{path} says that it holds {_times(shape)} bytes; at most {max_bytes} are taken: "
            "its header is damaged, or the data set is too large"
        )
    return shape


def _read_body(stream: _Plain | _Gzip, path: Path | str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    wanted = math.prod(shape)
    # Read in chunks, so that a header that promises far more than the file has costs no memory.
    data = bytearray()
    while len(data) < wanted:
        chunk = stream.read(min(_CHUNK_BYTES, wanted - len(data)))
        if not chunk:
            raise LenetTrtError(
                f"{path} is cut short: its header promises {wanted} bytes of data "
                f"({_times(shape)}), {len(data)} are there"
            )
        data += chunk
    # Reading one byte more than promised shows trailing data, and makes gzip check its checksum.
    if stream.read(1):
        raise LenetTrtError(
            f"{path} has more bytes than the {wanted} ({_times(shape)}) that its header promises: "
            "its header is damaged, or data was appended"
        )
    return np.frombuffer(data, np.uint8).reshape(shape)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
