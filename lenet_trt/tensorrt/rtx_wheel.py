"""Prepare what the wheel of TensorRT-RTX needs before it is imported.

Its ONNX parser opens ``libtensorrt_rtx.so`` when it meets a node that it takes for a plugin, and looks for that name in
the folder that it was loaded from. The wheel has only ``libtensorrt_rtx.so.1``, and the parser then ends the process.
So a folder in our cache holds links to the wheel's files under both names, and they are loaded from there first.
Needed by tensorrt_rtx 1.7; delete this file when the wheel has both names.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import cache_dir, sha256_bytes

_linked = False


def link() -> None:
    """Load TensorRT-RTX's libraries from a folder that has both names; too late once it is imported."""
    global _linked
    libraries = _libraries()
    if libraries is None or _linked or "tensorrt_rtx_bindings" in sys.modules:
        return
    core, parser = libraries
    folder = _writable(cache_dir("lib") / sha256_bytes(str(core.parent).encode())[:16])
    for name, target in (("libtensorrt_rtx.so", core), (core.name, core), (parser.name, parser)):
        _link(folder / name, target)
    for name in (core.name, parser.name):
        ctypes.CDLL(str(folder / name))
    _linked = True


def check_parser() -> None:
    """Refuse to parse where a plugin or an unknown operator would end the process.

    Raises:
        LenetTrtError: ``tensorrt_rtx`` was imported before ``link``.
    """
    if _libraries() is not None and not _linked:
        raise LenetTrtError(
            "tensorrt_rtx was imported before lenet_trt could load its libraries, and its ONNX parser would end this "
            "process at the first plugin: call lenet_trt.tensorrt.flavors.select('rtx') before import tensorrt_rtx"
        )


def _libraries() -> tuple[Path, Path] | None:
    """Find the wheel's library and parser; None where both names exist, as in the SDK."""
    spec = importlib.util.find_spec("tensorrt_rtx_libs")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))).resolve()
    core, parser = folder / "libtensorrt_rtx.so.1", folder / "libtensorrt_onnxparser_rtx.so.1"
    if not (core.exists() and parser.exists()) or (folder / "libtensorrt_rtx.so").exists():
        return None
    return core, parser


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="lenet-trt-lib-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="lenet-trt-lib-"))


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and Path(os.readlink(link)) == target:
        return
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)
