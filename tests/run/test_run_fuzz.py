"""Files of images as nobody writes them: headers of every kind, cut anywhere, wrong shapes and types."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import warnings
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from PIL import Image

from lenet_trt.errors import LenetTrtError
from lenet_trt.export.idx import idx_bytes
from lenet_trt.images.files import read_labels, read_pixels
from lenet_trt.images.form import Form

SIZE = (4, 5)

IMAGES = npst.arrays(np.uint8, st.tuples(st.integers(0, 6), st.just(SIZE[0]), st.just(SIZE[1])))
relaxed = settings(max_examples=150)


def read(data: bytes, size: tuple[int, int] = SIZE) -> np.ndarray:
    return read_pixels(io.BytesIO(data), "file", Form(1, *size))[:, 0]


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, images=array)
    return file.getvalue()


def png(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


# What is right is read, whatever its values.


@relaxed
@given(IMAGES, st.sampled_from(["idx", "idx.gz", "npy", "npy-fortran", "npz"]))
def test_every_form_gives_back_what_was_written(images: np.ndarray, form: str) -> None:
    data = {
        "idx": lambda: idx_bytes(images),
        "idx.gz": lambda: gzip.compress(idx_bytes(images)),
        "npy": lambda: npy(images),
        "npy-fortran": lambda: npy(np.asfortranarray(images)),
        "npz": lambda: npz(images),
    }[form]()
    assert np.array_equal(read(data), images)


@relaxed
@given(npst.arrays(np.uint8, SIZE))
def test_a_png_gives_back_its_pixels(image: np.ndarray) -> None:
    assert np.array_equal(read(png(image)), image[None])


@relaxed
@given(npst.arrays(npst.integer_dtypes() | npst.unsigned_integer_dtypes(), st.integers(0, 9)))
def test_labels_of_any_integer_type(labels: np.ndarray) -> None:
    values = [int(value) for value in labels]
    if values and (min(values) < 0 or max(values) > np.iinfo(np.int64).max):
        with pytest.raises(LenetTrtError, match="wanted class numbers from 0 on"):
            read_labels(io.BytesIO(npy(labels)), "labels")
    else:
        assert read_labels(io.BytesIO(npy(labels)), "labels").tolist() == values


# What is cut short is refused: at every byte, not at some.


@pytest.mark.parametrize("form", ["idx", "idx.gz", "npy", "npz", "png"])
def test_a_file_that_is_cut_anywhere_is_refused(form: str) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, *SIZE), dtype=np.uint8)
    data = {
        "idx": idx_bytes(images),
        "idx.gz": gzip.compress(idx_bytes(images)),
        "npy": npy(images),
        "npz": npz(images),
        "png": png(images[0]),
    }[form]
    # Of a PNG the closing chunk and the checksums before it may be missing: all pixels are there, and Pillow takes it.
    refused = len(data) - (24 if form == "png" else 0)
    for length in range(refused):
        with pytest.raises(LenetTrtError):
            read(data[:length])
    for length in range(refused, len(data)):
        with suppress(LenetTrtError):
            assert np.array_equal(read(data[:length]), images[:1])


@relaxed
@given(IMAGES, st.sampled_from(["idx", "npy"]), st.binary(min_size=1, max_size=20))
def test_a_file_that_goes_on_is_refused(images: np.ndarray, form: str, more: bytes) -> None:
    with pytest.raises(LenetTrtError):
        read((idx_bytes(images) if form == "idx" else npy(images)) + more)


# Wrong shapes and types.


@relaxed
@given(npst.arrays(np.uint8, npst.array_shapes(min_dims=1, max_dims=5, min_side=0, max_side=6)))
@example(np.zeros((2, 1, *SIZE), np.uint8))
@example(np.zeros((2, *SIZE, 1), np.uint8))
@example(np.zeros((0, *SIZE), np.uint8))
def test_only_grey_images_of_the_size_are_taken(array: np.ndarray) -> None:
    shape = array.shape
    fits = shape == SIZE or (len(shape) == 3 and shape[1:] == SIZE)
    fits = fits or (len(shape) == 4 and (shape[1:] == (1, *SIZE) or shape[1:] == (*SIZE, 1)))
    if fits:
        assert np.array_equal(read(npy(array)), array.reshape(-1, *SIZE))
    else:
        with pytest.raises(LenetTrtError, match=r"has shape .*; wanted grey images \[n, 4, 5\]"):
            read(npy(array))


@relaxed
@given(npst.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6))
def test_an_idx_file_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    assume(not (len(shape) == 3 and shape[1:] == SIZE))
    told = r"wanted \[any, 4, 5\]" if len(shape) == 3 else f"has {len(shape)} axes; wanted 3"
    with pytest.raises(LenetTrtError, match=told):
        read(idx_bytes(np.zeros(shape, np.uint8)))


SCALARS = npst.scalar_dtypes() | npst.byte_string_dtypes() | npst.unicode_string_dtypes()


@relaxed
@given(SCALARS | npst.array_dtypes(subtype_strategy=npst.integer_dtypes()))
def test_a_numpy_file_of_another_type_is_refused(dtype: np.dtype[Any]) -> None:
    assume(dtype != np.uint8)
    file = io.BytesIO()
    with warnings.catch_warnings():  # names of fields that only a newer format can hold
        warnings.simplefilter("ignore", UserWarning)
        np.lib.format.write_array(file, np.zeros((2, *SIZE), dtype))
    with pytest.raises(LenetTrtError, match=r"holds|wanted|damaged"):
        read(file.getvalue())


# Headers that promise anything.

NUMBERS = st.integers(-(2**70), 2**70) | st.sampled_from([0, 1, -1, 4, 5, 2**31, 2**63, True, 1.0, None, "3"])


@relaxed
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "descr": st.sampled_from(["|u1", "<f4", ">i8", "|O", "|b1", "u1", "", "<c16", "|V9", [("a", "|u1")], 7]),
            "fortran_order": st.booleans() | st.sampled_from([None, 0, "no"]),
            "shape": st.lists(NUMBERS, max_size=5).map(tuple) | NUMBERS,
            "more": st.just(1),
        },
    ),
    st.sampled_from([(1, 0), (2, 0), (3, 0), (9, 9)]),
    st.integers(-3, 3),
    st.binary(max_size=64),
)
def test_any_numpy_header_gives_images_or_our_error(
    header: dict[str, Any], version: tuple[int, int], off: int, body: bytes
) -> None:
    text = repr(header).encode() + b"\n"
    length = max(len(text) + off, 0)
    count = struct.pack("<H", length) if version == (1, 0) else struct.pack("<I", length)
    data = b"\x93NUMPY" + bytes(version) + count + text + body
    tracemalloc.start()
    try:
        found = read(data)
    except LenetTrtError:
        found = None
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 << 20, "a promise cost memory"
    assert found is None or found.shape[1:] == SIZE


@relaxed
@given(
    st.integers(0, 255),
    st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 6) | st.sampled_from(SIZE), max_size=6),
    st.integers(0, 255) | st.none(),
    st.binary(max_size=80),
)
def test_any_idx_header_gives_images_or_our_error(kind: int, sizes: list[int], rank: int | None, body: bytes) -> None:
    data = bytes([0, 0, kind, len(sizes) if rank is None else rank]) + struct.pack(f">{len(sizes)}I", *sizes) + body
    for content in (data, gzip.compress(data)):
        tracemalloc.start()
        try:
            found = read(content)
        except LenetTrtError:
            found = None
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 4 << 20, "a promise cost memory"
        assert found is None or (kind == 0x08 and found.shape == (sizes[0], *SIZE) and found.tobytes() == body)


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


@pytest.mark.filterwarnings("ignore:Invalid APNG")
@relaxed
@given(
    st.sampled_from([SIZE[1], 1, 0, 28, 2**31]),
    st.sampled_from([SIZE[0], 1, 0, 28, 2**31]),
    st.integers(0, 255) | st.sampled_from([1, 2, 4, 8, 16]),
    st.integers(0, 255) | st.sampled_from([0, 2, 3, 4, 6]),
    st.tuples(*[st.integers(0, 2)] * 3),
    st.lists(st.sampled_from([b"PLTE", b"tRNS", b"gAMA", b"IDAT", b"iCCP", b"zTXt", b"acTL"]), max_size=4),
    st.binary(max_size=120),
    st.booleans(),
)
def test_any_png_header_gives_a_picture_or_our_error(
    width: int,
    height: int,
    depth: int,
    colour: int,
    methods: tuple[int, int, int],
    names: list[bytes],
    content: bytes,
    packed: bool,
) -> None:
    """Every checksum is right, so that what is inside gets read."""
    body = zlib.compress(content) if packed else content
    header = struct.pack(">IIBBBBB", width, height, depth, colour, *methods)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(name, body) for name in names)
    try:
        found = read(data + chunk(b"IDAT", body) + chunk(b"IEND", b""))
    except LenetTrtError:
        return
    assert (found.shape, found.dtype) == ((1, *SIZE), np.uint8)
    assert (height, width) == SIZE


@pytest.mark.filterwarnings("error")
def test_a_text_chunk_that_unpacks_to_a_gigabyte_costs_no_memory() -> None:
    good = png(np.zeros(SIZE, np.uint8))
    bomb = chunk(b"zTXt", b"comment\0\0" + zlib.compress(bytes(64 << 20), 9))
    tracemalloc.start()
    try:
        read(good[:33] + bomb + good[33:])
    except LenetTrtError as error:
        assert "damaged picture" in str(error)  # noqa: PT017 (either answer is right)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 8 << 20
