"""Read from an engine's first bytes which TensorRT made it, without deserializing: an engine can contain code.

Source: trtexec's --getPlanVersionOnly (samples/common/sampleEngines.cpp) reads the tag and the version of full TensorRT
there; plans of TensorRT-RTX 1.7.1 have another tag and the version at the same place.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import check_can_read
from lenet_trt.tensorrt.flavors import PRODUCTS

# What verbs that run a network take, for messages.
WANTED_NETWORK = "an ONNX file (.onnx) or an engine"
_PRODUCTS = {b"ftrt": PRODUCTS["tensorrt"], b"vtrt": PRODUCTS["rtx"]}
_HEADER = struct.Struct("<4sI16x4B")  # tag, version of the header, major, minor, patch and build
_KNOWN_LAYOUT = 0


@dataclass(frozen=True)
class PlanHeader:
    """Hold the product that made a plan; ``version`` is None where the layout of the header is not known."""

    tag: str
    product: str
    version: str | None


def read_header(path: Path) -> PlanHeader:
    """Read the header of a plan.

    Raises:
        LenetTrtError: the file cannot be read, or does not begin like a plan.
    """
    check_can_read(path, WANTED_NETWORK)
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER.size)
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error
    product = _PRODUCTS.get(head[:4])
    if product is None or len(head) < _HEADER.size:
        seen = f"starts with the bytes {head[:8].hex(' ')}" if head else "is empty"
        tags = " or ".join(tag.decode() for tag in _PRODUCTS)
        raise LenetTrtError(
            f"{path} ({path.stat().st_size:,} bytes) {seen}; wanted an ONNX file (.onnx), or an engine, "
            f"which starts with {tags}"
        )
    _, layout, *version = _HEADER.unpack(head)
    return PlanHeader(head[:4].decode(), product, ".".join(map(str, version)) if layout == _KNOWN_LAYOUT else None)
