"""Read from a kernel's data for which GPUs it has tuned choices."""

from __future__ import annotations

import struct

from lenet_trt.tensorrt.library.encode import HEADER_BYTES, TUNED


def tuned_names(data: bytes) -> list[str]:
    """Return the names of the GPUs for which the data of a plugin node, as ``encode`` wrote it, has tuned choices."""
    (sections,) = struct.unpack_from("<I", data, 12)
    for at in range(HEADER_BYTES, HEADER_BYTES + 24 * sections, 24):
        kind, _, begin, _ = struct.unpack_from("<IIQQ", data, at)
        if kind == TUNED:
            return _names(data, begin)
    return []


def _names(data: bytes, at: int) -> list[str]:
    (count,) = struct.unpack_from("<H", data, at)
    at += 2
    names = []
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        names.append(data[at + 2 : at + 2 + length].decode())
        at += 2 + length + struct.calcsize("<HI")
        (choices,) = struct.unpack_from("<H", data, at)
        at += 2
        for _ in range(choices):
            (code,) = struct.unpack_from("<H", data, at)
            at += 2 + code + 2
    return names
