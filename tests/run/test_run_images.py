"""The image readers: every format, what is refused and why, hostile bytes, and folders of any size."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lenet_trt.errors import LenetTrtError
from lenet_trt.export.idx import idx_bytes
from lenet_trt.images import batches as images_module
from lenet_trt.images.batches import UNKNOWN, batches
from lenet_trt.images.files import read_labels, read_pixels
from lenet_trt.images.form import Form

SIZE = (28, 28)
FORM = Form(1, *SIZE)
PIXELS = np.random.default_rng(0).integers(0, 256, (5, *SIZE), dtype=np.uint8)


def picture(array: np.ndarray, form: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, form, **options)
    return file.getvalue()


def npy(array: np.ndarray, **options: bool) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def read(data: bytes) -> np.ndarray:
    return read_pixels(io.BytesIO(data), "file", FORM)[:, 0]


GOOD: dict[str, Callable[[], bytes]] = {
    "idx": lambda: idx_bytes(PIXELS),
    "idx.gz": lambda: gzip.compress(idx_bytes(PIXELS)),
    "npy": lambda: npy(PIXELS),
    "npy-channel-first": lambda: npy(PIXELS[:, None]),
    "npy-channel-last": lambda: npy(PIXELS[..., None]),
    "npy-fortran": lambda: npy(np.asfortranarray(PIXELS)),
    "npz-alone": lambda: npz(anything=PIXELS),
    "npz-named": lambda: npz(images=PIXELS, labels=np.arange(5)),
}


@pytest.mark.parametrize("form", GOOD)
def test_files_of_several_images(form: str) -> None:
    assert np.array_equal(read(GOOD[form]()), PIXELS)


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGB", "RGBA", "LA", "I;16"])
def test_pictures_of_every_kind_become_grey_with_their_polarity(mode: str) -> None:
    grey = PIXELS[0] if mode != "1" else np.where(PIXELS[0] > 127, 255, 0).astype(np.uint8)
    if mode == "I;16":
        data = picture(grey.astype(np.uint16) * 257)
    else:
        file = io.BytesIO()
        Image.fromarray(grey).convert(mode).save(file, "PNG")
        data = file.getvalue()
    assert np.array_equal(read(data), grey[None])


def test_jpeg_and_one_image_without_an_axis_for_it() -> None:
    smooth = np.tile(np.arange(0, 252, 9, dtype=np.uint8), (28, 1))
    assert np.abs(read(picture(smooth, "JPEG", quality=95)).astype(int) - smooth).max() < 8
    assert np.array_equal(read(npy(smooth)), smooth[None])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty; wanted IDX"),
        (b"GIF89a..", "starts with the bytes 47 49 46"),
        (picture(np.zeros((32, 30), np.uint8)), "is 30 pixels wide and 32 high; the network takes 28 pixels"),
        (picture(np.zeros((28, 28, 4), np.uint8)), "has transparent pixels"),
        (picture(PIXELS[0])[:-40], "is a damaged picture"),
        (idx_bytes(PIXELS)[:-1], "is cut short"),
        (idx_bytes(PIXELS[:, :27]), r"has shape \[5, 27, 28\]; wanted \[any, 28, 28\]"),
        (npy(PIXELS[:, :27]), r"has shape \[5, 27, 28\]; wanted grey images \[n, 28, 28\]"),
        (npy(np.zeros((5, 28, 28, 3), np.uint8)), "wanted grey images"),
        (npy(PIXELS / np.float32(255)), "holds float32; wanted uint8 pixels, 0 to 255: if they are 0 to 1"),
        (npy(np.array([{}]), allow_pickle=True), "holds object; wanted plain numbers"),
        (npy(PIXELS) + b"x", "has more bytes than"),
        (npy(PIXELS)[:-1], "is cut short"),
        (npz(a=PIXELS, b=PIXELS), "holds a, b; wanted an array named images"),
        (npz(images=PIXELS)[:-30], "is a damaged NumPy archive"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(data: bytes, told: str) -> None:
    with pytest.raises(LenetTrtError, match=told):
        read(data)


def promising(shape: tuple[int, ...]) -> bytes:
    """A .npy header that promises an array, and nothing after it."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return file.getvalue()


def bomb() -> bytes:
    """A megabyte of zip that becomes a gigabyte."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w") as out,
    ):
        out.write(promising((1 << 40, 28, 28)))
        for _ in range(64):
            out.write(bytes(1 << 20))
    return file.getvalue()


def huge_png() -> bytes:
    """A picture whose header promises 10^10 pixels."""
    small = picture(PIXELS[0])
    header = struct.pack(">II", 100_000, 100_000) + small[24:29]
    return small[:16] + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + small[33:]


@pytest.mark.parametrize("data", [promising((1 << 19, 28, 28)), promising((1 << 40, 28, 28)), bomb(), huge_png()])
def test_promises_cost_no_memory(data: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(LenetTrtError):
        read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


SEEDS = [*(make() for make in GOOD.values()), picture(PIXELS[0]), picture(PIXELS[0], "JPEG")]


@settings(max_examples=400)
@given(st.sampled_from(SEEDS), st.data())
def test_damaged_bytes_give_images_or_our_error(seed: bytes, data: st.DataObject) -> None:
    damaged = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 6))):
        position = data.draw(st.integers(0, min(len(damaged) - 1, 400)))
        damaged[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for content in (bytes(damaged), bytes(damaged[:cut])):
        for reader in (read, lambda content: read_labels(io.BytesIO(content), "file")):
            try:
                found = reader(content)
            except LenetTrtError:
                continue
            assert found.shape[1:] in (SIZE, ())


@settings(max_examples=200)
@given(
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\x93NUMPY\x01\x00", b"PK\x03\x04", b"\0\0\x08\x03"]),
    st.binary(max_size=300),
)
def test_arbitrary_bytes_give_our_error(start: bytes, rest: bytes) -> None:
    with pytest.raises(LenetTrtError):
        read(start + rest)


@pytest.mark.parametrize(
    "data", [idx_bytes(np.array([3, 1, 4], np.uint8)), npy(np.array([3, 1, 4])), b"3\n1\n4\n", b"3\r\n1\r\n4"]
)
def test_labels_of_every_kind(data: bytes) -> None:
    assert read_labels(io.BytesIO(data), "labels").tolist() == [3, 1, 4]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"3\nseven\n", "line 2, is b'seven'"),
        (b"-3\n", "line 1"),
        (npy(np.array([1.0])), "wanted labels"),
        (npy(np.array([-1])), "wanted class numbers from 0 on"),
        (picture(PIXELS[0]), "is a picture; wanted labels"),
    ],
)
def test_what_is_wrong_with_labels_is_said(data: bytes, told: str) -> None:
    with pytest.raises(LenetTrtError, match=told):
        read_labels(io.BytesIO(data), "labels")


def write(folder: Path, name: str, data: bytes) -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def test_the_idx_pair_beside_gives_the_labels(tmp_path: Path) -> None:
    labels = np.array([5, 0, 4, 1, 9], np.uint8)
    source = write(tmp_path, "some-images-idx3-ubyte.gz", gzip.compress(idx_bytes(PIXELS)))
    (batch,) = batches([source], FORM, 10)
    assert batch.labels.tolist() == [UNKNOWN] * 5
    write(tmp_path, "some-labels-idx1-ubyte.gz", gzip.compress(idx_bytes(labels)))
    first, second = batches([source], FORM, 3)
    assert [*first.labels, *second.labels] == [5, 0, 4, 1, 9]
    assert second.names == [f"{source}[3]", f"{source}[4]"]
    write(tmp_path, "some-labels-idx1-ubyte.gz", idx_bytes(labels[:4]))
    with pytest.raises(LenetTrtError, match=r"has 5 images and .* 4 labels"):
        list(batches([source], FORM, 10))


def test_one_labels_file_for_several_sources(tmp_path: Path) -> None:
    sources = [write(tmp_path, "a.npy", npy(PIXELS)), write(tmp_path, "b.png", picture(PIXELS[0]))]
    labels = write(tmp_path, "labels.txt", b"".join(b"%d\n" % value for value in range(6)))
    found = list(batches(sources, FORM, 4, labels))
    assert [value for batch in found for value in batch.labels.tolist()] == [0, 1, 2, 3, 4, 5]
    assert np.array_equal(np.concatenate([batch.pixels[:, 0] for batch in found]), [*PIXELS, PIXELS[0]])
    for text, told in (("0\n" * 5, "there are more images"), ("0\n" * 7, "has 7 labels, and there are 6 images")):
        Path(labels).write_text(text)
        with pytest.raises(LenetTrtError, match=told):
            list(batches(sources, FORM, 4, labels))


def test_without_images_it_is_the_test_set() -> None:
    found = list(batches([], FORM, 4096))
    assert [len(batch.names) for batch in found] == [4096, 4096, 1808]
    assert min(batch.labels.min() for batch in found) == 0
    with pytest.raises(LenetTrtError, match="images have another form"):
        list(batches([], Form(1, 32, 32), 4096))


@pytest.mark.slow
def test_a_folder_with_very_many_entries_is_streamed_in_order(tmp_path: Path) -> None:
    """Links to a few pictures: most of the entries are never opened here, and none of them twice."""
    folder = tmp_path / "many"
    folder.mkdir()
    data = tmp_path / "data"
    data.mkdir()
    files = [write(data, f"{index}.png", picture(PIXELS[index])) for index in range(5)]
    count = 100_000
    for index in reversed(range(count)):
        os.symlink(files[index % 5], folder / f"{index:06}.png")
    (folder / "notes.txt").write_text("not a picture")
    tracemalloc.start()
    found = batches([str(folder)], FORM, 250)
    seen = list(itertools.islice(found, 8))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * count  # bytes: the names, and nothing for each picture
    names = [Path(name).name for batch in seen for name in batch.names]
    assert names == [f"{index:06}.png" for index in range(2000)]
    assert np.array_equal(np.concatenate([batch.pixels[:, 0] for batch in seen]), np.tile(PIXELS, (400, 1, 1)))


def test_what_is_no_file(tmp_path: Path) -> None:
    for source, told in (
        (str(tmp_path / "nothing.png"), "does not exist"),
        ("/dev/zero", "is no regular file"),
        (str(tmp_path), "has no pictures; wanted files that end in .png"),
    ):
        with pytest.raises(LenetTrtError, match=told):
            list(batches([source], FORM, 4))


def test_standard_input_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        def __init__(self, data: bytes) -> None:
            self.buffer = io.BytesIO(data)

    monkeypatch.setattr("sys.stdin", Input(idx_bytes(PIXELS)))
    (batch,) = batches(["-"], FORM, 10)
    assert batch.names[1] == "-[1]"
    assert np.array_equal(batch.pixels[:, 0], PIXELS)
    monkeypatch.setattr(images_module, "MAX_BYTES", 1000)
    monkeypatch.setattr("sys.stdin", Input(idx_bytes(PIXELS)))
    with pytest.raises(LenetTrtError, match="standard input is longer than 1000 bytes"):
        list(batches(["-"], FORM, 10))
