"""The sections of a kernel's data: where they are, and data in which one number is another."""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import NamedTuple

from lenet_trt.tensorrt.library.encode import HEADER_BYTES


class Section(NamedTuple):
    flags: int
    begin: int
    size: int


def section(data: bytes, kind: int) -> Section:
    """Find a section."""
    (count,) = struct.unpack_from("<I", data, 12)
    for at in range(HEADER_BYTES, HEADER_BYTES + 24 * count, 24):
        found, *rest = struct.unpack_from("<IIQQ", data, at)
        if found == kind:
            return Section(*rest)
    raise AssertionError(f"there is no section {kind}")


def with_number(data: bytes, at: int, number: int) -> bytes:
    """Put a number of 16 bits in, and a hash that fits."""
    (images_at,) = struct.unpack_from("<Q", data, 24)
    changed = bytearray(data)
    struct.pack_into("<H", changed, at, number)
    changed[32:64] = sha256(bytes(changed[:32]) + bytes(changed[64:images_at])).digest()
    return bytes(changed)
