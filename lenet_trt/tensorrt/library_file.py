"""Read from a plugin library's bytes for which TensorRT it was made, before any of its code runs."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from lenet_trt.errors import LenetTrtError
from lenet_trt.tensorrt.capabilities import capabilities

# As library.cpp writes it.
_MARK = re.compile(rb"lenet_trt plugin library for TensorRT (\d+)\.(\d+)\0")
# Where a 64-bit ELF file says where its last part, the table of its sections, stands. Source: elf(5), Elf64_Ehdr.
_TABLE_AT, _TABLE_ENTRIES = struct.Struct("<40xQ"), struct.Struct("<58xHH")
_HEADER_BYTES = 64


def library_release(path: Path) -> tuple[int, int]:
    """Return the major and minor version of the TensorRT that a plugin library was made for.

    Raises:
        LenetTrtError: the file cannot be read, or is no plugin library.
    """
    return _release(path, _content(path))


def library_content(path: Path, flavor: str, version: str, product: str) -> bytes:
    """Read a plugin library that is to be loaded into a release of a flavor; ``product`` is what messages call it.

    Raises:
        LenetTrtError: the file cannot be read, is no plugin library, or is one for another TensorRT.
    """
    content = _content(path)
    major, minor = _release(path, content)
    if major not in capabilities(flavor, version).library_majors:
        raise LenetTrtError(
            f"{path} is a plugin library for TensorRT {major}.{minor}, and {product} is used: make one from its "
            "headers with lenet-trt library --headers DIR"
        )
    return content


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LenetTrtError(
            f"the plugin library {path} cannot be read ({error.strerror or error}): make it with lenet-trt library -o "
            f"{path}"
        ) from error


def _release(path: Path, content: bytes) -> tuple[int, int]:
    found = _MARK.search(content)
    if not content.startswith(b"\x7fELF") or found is None:
        raise LenetTrtError(f"{path} is no plugin library, or was cut: lenet-trt library makes one")
    if len(content) < (wanted := _whole_bytes(content)):  # a process that opened it would die
        raise LenetTrtError(
            f"the plugin library {path} has {len(content)} bytes instead of {wanted}: it was cut; copy it again, or "
            "make it again with lenet-trt library"
        )
    return int(found[1]), int(found[2])


def _whole_bytes(content: bytes) -> int:
    """Return how many bytes an ELF file says that it has."""
    if len(content) < _HEADER_BYTES:
        return _HEADER_BYTES
    (at,), (size, count) = _TABLE_AT.unpack_from(content), _TABLE_ENTRIES.unpack_from(content)
    return int(at + size * count)
