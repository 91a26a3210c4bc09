"""Read a file of images (IDX, PNG, JPEG or NumPy, by its first bytes) without trusting its content."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.export.idx import DEFAULT_MAX_BYTES, DTYPES, GZIP_MAGIC, read_idx_from
from lenet_trt.images.form import Form

MAX_BYTES = DEFAULT_MAX_BYTES
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg")
_FORMATS = "IDX (plain or gzip), PNG, JPEG, NumPy .npy or .npz"
_MAX_NPY_HEADER = 1 << 16
_CHUNK_BYTES = 1 << 20
_PIXEL_BYTES = 4  # per pixel of a decoded picture, with transparency
# Grey pixels with more than 8 bits, as Pillow names them.
_WIDE_MODES = ("I", "I;16", "I;16B", "I;16L")


def read_pixels(file: BinaryIO, name: str, form: Form) -> NDArray[np.uint8]:
    """Read the images of one open file that can seek; ``name`` is its name in messages.

    Shapes: [n, channels, height, width] uint8, 0 to 255 as the file has them (light on dark stays light on dark).

    Raises:
        LenetTrtError: the file is damaged, of no known format, or its images do not have this ``form``.
        OSError: the file cannot be read.
    """
    kind = kind_of(file, name)
    if kind == "idx":
        axes = form.shape[1:] if form.channels == 1 else form.shape
        return read_idx_from(file, name, (None, *axes)).reshape(-1, *form.shape)
    if kind == "picture":
        return _picture(file, name, form).reshape(1, *form.shape)
    array = _npy(file, name) if kind == "npy" else _npz(file, name, "images")
    return checked_images(array, name, form)


def read_labels(file: BinaryIO, name: str) -> NDArray[np.int64]:
    """Read class numbers: IDX, NumPy, or text with one number per line.

    Shapes: [n] int64.

    Raises:
        LenetTrtError: the file is damaged, or holds values other than whole numbers >= 0.
        OSError: the file cannot be read.
    """
    kind = kind_of(file, name, otherwise="text")
    if kind == "picture":
        raise LenetTrtError(f"{name} is a picture; wanted labels: IDX, NumPy, or text with one number per line")
    if kind == "text":
        return _text_labels(file, name)
    if kind == "idx":
        return read_idx_from(file, name, (None,)).astype(np.int64)
    array = _npy(file, name) if kind == "npy" else _npz(file, name, "labels")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise LenetTrtError(f"{name} has shape {list(array.shape)} {array.dtype}; wanted labels [n] of an integer type")
    if array.size and (array.min() < 0 or array.max() > np.iinfo(np.int64).max):
        raise LenetTrtError(f"{name} has labels from {array.min()} to {array.max()}; wanted class numbers from 0 on")
    return array.astype(np.int64)


def kind_of(file: BinaryIO, name: str, otherwise: str | None = None) -> str:
    """Tell by the first bytes what a file is: "idx", "picture", "npy", "npz", or ``otherwise``.

    Raises:
        LenetTrtError: it is none of them, and there is no ``otherwise``.
    """
    head = file.read(8)
    file.seek(0)
    if head.startswith(GZIP_MAGIC) or (len(head) >= 4 and head[:2] == b"\0\0" and head[2] in DTYPES):
        return "idx"
    if head.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")):
        return "picture"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "npz"
    if otherwise is not None:
        return otherwise
    seen = f"starts with the bytes {head.hex(' ')}" if head else "is empty"
    raise LenetTrtError(f"{name} {seen}; wanted {_FORMATS}")


def _picture(file: BinaryIO, name: str, form: Form) -> NDArray[np.uint8]:
    """Read one picture.

    Shapes: [channels, height, width], or [height, width] where it is grey.
    """
    from PIL import Image, ImageOps

    size = (form.width, form.height)
    with damage_told(name, "picture"):
        image: Image.Image = Image.open(file, formats=("PNG", "JPEG"))
        if image.size != size and not form.resize:  # checked before anything of this size is decoded
            raise LenetTrtError(
                f"{name} is {_extent(image.size)}; the network takes {_extent(size)}: "
                "cut out the part to classify and scale it to this size, or add --resize"
            )
        if image.size[0] * image.size[1] * _PIXEL_BYTES > MAX_BYTES:
            raise LenetTrtError(f"{name} is {_extent(image.size)}, more than {MAX_BYTES} bytes hold")
        image.load()
        if image.mode in _WIDE_MODES:
            image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
        if "A" in image.getbands() or "transparency" in image.info:
            image = image.convert("RGBA")
            if np.asarray(image)[..., 3].min() < 255:
                raise LenetTrtError(f"{name} has transparent pixels: flatten it onto the right background")
        image = image.convert("L" if form.channels == 1 else "RGB")
        if image.size != size:
            image = ImageOps.fit(image, size, Image.Resampling.BILINEAR)
        array = np.array(image, dtype=np.uint8)
        return array if form.channels == 1 else np.ascontiguousarray(array.transpose(2, 0, 1))


def _extent(size: tuple[int, int]) -> str:
    """Name both sides: pictures are told width first, and shapes and ``--size`` height first."""
    return f"{size[0]} pixels wide and {size[1]} high"


def _npz(file: BinaryIO, name: str, wanted: str) -> NDArray[Any]:
    """Return the array of that name, or the only one."""
    with damage_told(name, "NumPy archive"):
        archive = zipfile.ZipFile(file)
        members = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        if wanted not in members and len(members) != 1:
            found = ", ".join(sorted(members)[:20]) or "nothing"
            raise LenetTrtError(f"{name} holds {found}; wanted an array named {wanted}, or a single array")
        key = wanted if wanted in members else next(iter(members))
        with archive.open(members[key]) as member:
            return _npy(member, f"{name}[{key}]")


def _npy(file: Any, name: str) -> NDArray[Any]:
    """Read one array, without pickled objects, and with at most the bytes that its header names and we allow."""
    with damage_told(name, "NumPy file"):
        head = io.BytesIO(file.read(_MAX_NPY_HEADER))
        shape, fortran_order, dtype = npy_header(head, name)
        wanted = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or wanted > MAX_BYTES:
            raise LenetTrtError(
                f"{name} says that it has shape {list(shape)} {dtype}; at most {MAX_BYTES} bytes are read"
            )
        data = bytearray(head.read(wanted))
        while len(data) < wanted and (chunk := file.read(min(_CHUNK_BYTES, wanted - len(data)))):
            data += chunk
        if len(data) < wanted:
            raise LenetTrtError(f"{name} is cut short: its header promises {wanted} bytes, {len(data)} are there")
        # Reading beyond the end also makes zipfile compare the checksum.
        if head.read(1) or file.read(1):
            raise LenetTrtError(f"{name} has more bytes than the {wanted} that its header promises")
        return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran_order else "C")


def npy_header(head: BinaryIO, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of a NumPy file: shape, whether the first axis is the fastest, and type.

    Raises:
        LenetTrtError: the file holds anything but plain numbers.
        ValueError: the header is damaged.
    """
    version = np.lib.format.read_magic(head)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise LenetTrtError(f"{name} has NumPy's file version {version[0]}.{version[1]}; wanted plain numbers")
    shape, fortran_order, dtype = readers[version](head)
    if dtype.kind not in "biuf" or dtype.itemsize == 0:
        raise LenetTrtError(f"{name} holds {dtype}; wanted plain numbers, saved with np.save")
    return shape, fortran_order, dtype


def checked_images(array: NDArray[Any], name: str, form: Form) -> NDArray[np.uint8]:
    """Bring the axes in order, and refuse what has others.

    Shapes: [n, channels, height, width].
    """
    seen = array.shape
    channels, *size = form.shape
    if channels == 1 and list(seen[-2:]) == size and len(seen) in (2, 3):
        array = array.reshape(-1, *form.shape)
    elif channels > 1 and len(seen) == 3:  # one image
        array = array[None]
    if array.ndim == 4 and array.shape[1:] != form.shape and array.shape[1:] == (*size, channels):
        array = array.transpose(0, 3, 1, 2)
    if array.shape[1:] != form.shape:
        raise LenetTrtError(f"{name} has shape {list(seen)}; wanted {form}")
    if array.dtype != np.uint8:
        raise LenetTrtError(
            f"{name} holds {array.dtype}; wanted uint8 pixels, 0 to 255"
            + (": if they are 0 to 1, save (255 * x).round().astype('uint8')" if array.dtype.kind == "f" else "")
        )
    return np.ascontiguousarray(array)


def _text_labels(file: BinaryIO, name: str) -> NDArray[np.int64]:
    values: list[int] = []
    seen_bytes = 0
    for number, line in enumerate(iter(lambda: file.readline(64), b""), 1):
        seen_bytes += len(line)
        word = line.strip()
        if not (word.isdigit() and len(word) <= 9):
            raise LenetTrtError(f"{name}, line {number}, is {word[:20]!r}; wanted one class number per line")
        if seen_bytes > MAX_BYTES:
            raise LenetTrtError(f"{name} is longer than {MAX_BYTES} bytes; wanted one class number per line")
        values.append(int(word))
    return np.array(values, np.int64)


@contextmanager
def damage_told(name: str, what: str) -> Iterator[None]:
    """Turn every error that a decoder raises on damaged bytes into a LenetTrtError."""
    try:
        yield
    except LenetTrtError:
        raise
    except MemoryError as error:
        raise LenetTrtError(f"{name} is a {what} that needs more memory than there is") from error
    # On damaged files Pillow, zipfile and NumPy raise many kinds of errors, from struct.error to RecursionError.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise LenetTrtError(f"{name} is a damaged {what}: {reason[:200]}: copy or save it again") from error
