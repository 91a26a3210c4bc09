"""Read from a plugin library's bytes for which TensorRT it was made, before any of its code runs."""

from __future__ import annotations

import re
from pathlib import Path

from lenet_trt.errors import LenetTrtError
from lenet_trt.tensorrt.capabilities import capabilities

# As library.cpp writes it.
_MARK = re.compile(rb"lenet_trt plugin library for TensorRT (\d+)\.(\d+)\0")


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
        raise LenetTrtError(f"{path} is no plugin library: lenet-trt library makes one")
    return int(found[1]), int(found[2])
