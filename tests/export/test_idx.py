"""The IDX reader against good, damaged, lying and hostile files."""

from __future__ import annotations

import gzip
import os
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lenet_trt.errors import LenetTrtError
from lenet_trt.export import idx
from lenet_trt.export.idx import idx_bytes, read_idx

IMAGES = np.random.default_rng(1).integers(0, 256, (7, 5, 3), dtype=np.uint8)
PLAIN = idx_bytes(IMAGES)
PACKED = gzip.compress(PLAIN, mtime=0)
ANY = (None, None, None)


def header(*shape: int, dtype: int = 8, zero: int = 0, rank: int | None = None) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", zero, dtype, len(shape) if rank is None else rank, *shape)


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        PACKED,
        gzip.compress(PLAIN[:9]) + gzip.compress(PLAIN[9:]),  # several members are one file
        gzip.compress(PLAIN, 0),
        PACKED + bytes(20_000),  # zero padding, as tapes have it
        gzip.compress(b"") + PACKED + gzip.compress(b""),
    ],
)
@pytest.mark.parametrize("axes", [ANY, (7, 5, 3), (None, 5, 3)])
def test_reads_what_was_written(tmp_path: Path, data: bytes, axes: idx.IdxAxes) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    np.testing.assert_array_equal(read_idx(path, axes), IMAGES)


@pytest.mark.parametrize("shape", [(0, 5, 3), (1, 1, 1), (100_001, 1, 2)])
def test_reads_empty_and_odd_sizes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).astype(np.uint8).reshape(shape)
    for data in (idx_bytes(values), gzip.compress(idx_bytes(values))):
        (tmp_path / "x").write_bytes(data)
        np.testing.assert_array_equal(read_idx(tmp_path / "x", ANY), values)


HUGE = 2**32 - 1
BAD_FILES = {
    "empty": (b"", "holds 0 bytes"),
    "three bytes": (PLAIN[:3], "holds 3 bytes"),
    "header cut": (PLAIN[:10], "inside its header"),
    "data cut": (PLAIN[:-1], "cut short: its header promises 105 bytes of data"),
    "trailing byte": (PLAIN + b"\0", "has more bytes than"),
    "not IDX": (b"\x89PNG\r\n\x1a\n", "is not an IDX file"),
    "no zero": (header(7, 5, 3, zero=1) + IMAGES.tobytes(), "magic number is 00010803; wanted 00000803"),
    "unknown type": (header(7, 5, 3, dtype=7) + IMAGES.tobytes(), "is not an IDX file"),
    "float32": (header(7, 5, 3, dtype=0x0D) + bytes(420), "holds float32 values; wanted uint8"),
    "labels as images": (header(105) + IMAGES.tobytes(), "has 1 axes; wanted 3"),
    "255 axes": (header(7, 5, 3, rank=255) + IMAGES.tobytes(), "has 255 axes; wanted 3"),
    "sizes that lie": (header(HUGE, HUGE, HUGE) + IMAGES.tobytes(), "at most 536870912 are taken"),
    "a size that lies": (header(8, 5, 3) + IMAGES.tobytes(), "promises 120 bytes"),
    "gzip cut": (PACKED[:-9], "its gzip data ends in the middle"),
    "gzip checksum cut": (PACKED[:-1], "its gzip data ends in the middle"),
    "gzip header cut": (PACKED[:5], "its gzip data ends in the middle"),
    "gzip checksum wrong": (PACKED[:-8] + bytes(4) + PACKED[-4:], "its gzip data cannot be read"),
    "gzip length wrong": (PACKED[:-4] + bytes(4), "its gzip data cannot be read"),
    "gzip then junk": (PACKED + b"junk", "its gzip data cannot be read"),
    "gzip then more": (PACKED + gzip.compress(b"x"), "has more bytes than"),
    "gzip of short data": (gzip.compress(PLAIN[:-1]), "cut short"),
    "gzip of a gzip": (gzip.compress(PACKED), "is not an IDX file"),
    "gzip of nothing": (gzip.compress(b""), "holds 0 bytes"),
    "many members": (gzip.compress(b"") * 20_000, "more than 10000 gzip members"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_get_a_clear_error(tmp_path: Path, name: str) -> None:
    data, message = BAD_FILES[name]
    path = tmp_path / "bad"
    path.write_bytes(data)
    with pytest.raises(LenetTrtError, match=message) as error:
        read_idx(path, ANY)
    assert str(path) in str(error.value)


def test_other_shape_is_refused_before_the_data_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(header(1000, 32, 32))
    with pytest.raises(LenetTrtError, match=r"has shape \[1000, 32, 32\]; wanted \[any, 28, 28\]"):
        read_idx(path, (None, 28, 28))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(LenetTrtError, match="does not exist"):
        read_idx(tmp_path / "absent", ANY)
    with pytest.raises(LenetTrtError, match="is not a regular file"):
        read_idx(tmp_path, ANY)
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    with pytest.raises(LenetTrtError, match="is not a regular file"):
        read_idx(tmp_path / "pipe", ANY)


def bomb(size: int, start: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(start)]
    block = bytes(1 << 20)
    parts += [packer.compress(block) for _ in range(size >> 20)]
    return b"".join((*parts, packer.flush()))


@pytest.mark.parametrize("promised", [(7, 5, 3), (2**28, 1, 1), (HUGE, HUGE, HUGE)])
def test_gzip_bomb_costs_no_more_than_the_header_promises(tmp_path: Path, promised: tuple[int, ...]) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(bomb(64 << 20, header(*promised)))
    tracemalloc.start()
    try:
        with pytest.raises(LenetTrtError, match="promises"):
            read_idx(path, ANY, max_bytes=2**97)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    small = int(np.prod(promised, dtype=object)) < 1 << 20
    # A header that promises much may cost what is really there, twice while the buffer grows.
    assert peak < (1 << 20 if small else 160 << 20)


@settings(max_examples=300)
@given(
    data=st.data(),
    source=st.sampled_from([PLAIN, PACKED]),
    kind=st.sampled_from(["cut", "flip", "insert", "delete", "swap"]),
)
def test_damaged_files_never_do_harm(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, source: bytes, kind: str
) -> None:
    damaged = bytearray(source)
    at = data.draw(st.integers(0, len(source) - 1))
    if kind == "cut":
        del damaged[at:]
    elif kind == "flip":
        damaged[at] ^= data.draw(st.integers(1, 255))
    elif kind == "insert":
        damaged[at:at] = data.draw(st.binary(min_size=1, max_size=40))
    elif kind == "delete":
        del damaged[at : at + data.draw(st.integers(1, 40))]
    else:
        other = data.draw(st.binary(min_size=4, max_size=4))
        damaged[at : at + 4] = other
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(damaged)
    try:
        values = read_idx(path, ANY)
    except LenetTrtError:
        return
    # The damage hit a pixel, a size that still fits, or a byte of gzip that means nothing.
    assert values.size == IMAGES.size


@settings(max_examples=200)
@given(data=st.binary(max_size=200), prefix=st.sampled_from([b"", b"\0\0\x08\x03", b"\x1f\x8b\x08\0", PLAIN[:16]]))
def test_random_bytes_never_do_harm(tmp_path_factory: pytest.TempPathFactory, data: bytes, prefix: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "random"
    path.write_bytes(prefix + data)
    try:
        values = read_idx(path, ANY)
    except LenetTrtError:
        return
    assert values.nbytes <= len(data)
