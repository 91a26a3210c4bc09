"""Find the plugin library of an engine: the one that the user names, or the one that its sidecar records."""

from __future__ import annotations

import argparse
from pathlib import Path

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_file
from lenet_trt.tensorrt.library.compile import DEFAULT_NAME
from lenet_trt.tensorrt.sidecar import Sidecar

DEFAULT_LIBRARY = Path(DEFAULT_NAME)  # where lenet-trt library writes it


def add_library_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names the plugin library."""
    parser.add_argument(
        "--library",
        type=Path,
        metavar="FILE.so",
        help="the plugin library, for engines that need it (default: the one of the build, beside the engine or here)",
    )


def library_for_build(given: Path | None) -> Path:
    """Find the library with which to build.

    Raises:
        LenetTrtError: none was given and none is in the current folder.
    """
    path = given or DEFAULT_LIBRARY
    if not path.is_file():
        raise LenetTrtError(
            f"the plugin library {path} is not there: make it with lenet-trt library"
            + ("" if given is None else f" -o {path}")
            + ", or give one with --library FILE"
        )
    return path


def library_for_engine(engine: Path, sidecar: Sidecar, given: Path | None) -> Path | None:
    """Find the library to load before the engine; None where it needs none.

    Without one that is given, only a file with the content that the sidecar records is taken: a library is code.

    Raises:
        LenetTrtError: the engine needs one, and it is neither given nor found.
    """
    wanted = sidecar.library
    if given is not None and wanted is None:
        raise LenetTrtError(f"--library {given}: {engine} needs no plugin library; leave it out")
    if wanted is None:
        return None
    if given is not None:
        return library_for_build(given)
    places = [engine.with_name(wanted.name), Path(wanted.name)]
    present = [path for path in places if path.is_file()]
    for path in present:
        if sha256_file(path) == wanted.sha256:
            return path
    seen = (
        f"{present[0]} is another one (its SHA-256 differs)" if present else "it is neither beside the engine nor here"
    )
    raise LenetTrtError(
        f"{engine} needs the plugin library {wanted.name} that it was built with, and {seen}: give it with "
        "--library FILE"
    )
