"""Read traces of any tool as timelines: Nsight Systems, trtexec, tensorrt_rtx, and our own timeline.json."""

from __future__ import annotations

import gzip
import json
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path

from lenet_trt.errors import LenetTrtError
from lenet_trt.trace.engine import with_layers
from lenet_trt.trace.readers import nsys, trtexec, trtexec_exports
from lenet_trt.trace.readers.database import MAGIC
from lenet_trt.trace.readers.nsys_tool import exported_sqlite
from lenet_trt.trace.timeline import Timeline, load_timeline

WANTED = (
    "wanted a report of Nsight Systems (.nsys-rep, or its .sqlite export), a file of trtexec (--exportProfile, "
    "--exportLayerInfo, --exportTimes), or a timeline.json of lenet-trt profile"
)
_GZIP = b"\x1f\x8b"
_SUFFIXES = (".nsys-rep", ".qdrep")
_REPORT_MAGIC = b"NVIDIA Tegra Profiler Report"
# A larger JSON file is no timeline and no export of trtexec; it would not fit into memory either.
_LARGEST_JSON = 2 << 30
# gzip makes traces 5 to 30 times smaller; a file that grows by more than this factor was made to fill a disk.
_MOST_TIMES = 100
_SMALL_UNPACKED = 64 << 20


def timeline_from(path: Path | str, *more: Path | str, model: str | None = None) -> Timeline:
    """Read a trace of any tool; the file's content, not its name, says which tool made it.

    ``more``: further files of trtexec about the same engine, since trtexec writes each export into its own file. For a
    trace of another tool, ``more`` may only have the engine's layer information. ``model`` names the network in the
    timeline. A file that is compressed with gzip is read too.

    Raises:
        LenetTrtError: the file is empty, damaged, cut off, or of an unknown kind or version; the message says which
            and what is wanted.
    """
    paths = [Path(path), *map(Path, more)]
    if len(paths) > 1:
        others = [path for path in paths if not _is_json(_start(path))]
        found = _with_layer_information(others, [path for path in paths if path not in others], paths)
    else:
        found = _one(paths[0])
    return found if model is None else replace(found, model=model)


def _one(path: Path) -> Timeline:
    start = _start(path)
    if start.startswith(MAGIC):
        return nsys.read_nsys(path)
    if start.startswith(_GZIP):
        return _unpacked(path)
    if _is_report(path, start):
        with exported_sqlite(path) as sqlite:
            return nsys.read_nsys(sqlite)
    if path.suffix == ".qdstrm":
        raise LenetTrtError(
            f"{path} is a recording of nsys that is not yet a report: run QdstrmImporter -i {path}, which comes "
            "with Nsight Systems, and give the .nsys-rep"
        )
    if _is_json(start):
        text = _text(path)
        if _is_timeline(text):
            return load_timeline(path)
        return _exports([path])
    raise LenetTrtError(f"{path} is no trace of a known kind (it begins with {start[:16]!r}): {WANTED}")


def _with_layer_information(traces: list[Path], exports: list[Path], paths: list[Path]) -> Timeline:
    """Read trtexec's exports, or one trace of Nsight Systems with the layers that an export names."""
    if not traces:
        return _exports(paths)
    parts = [trtexec_exports.read_trtexec(_text(path), str(path)) for path in exports]
    if len(traces) > 1 or len(parts) != 1 or parts[0] is None or parts[0][0] != "layers":
        raise LenetTrtError(
            f"{', '.join(map(str, paths))} cannot be read together: several files are the exports of one run of "
            "trtexec, or one trace of Nsight Systems with the engine's --exportLayerInfo"
        )
    return with_layers(_one(traces[0]), parts[0][1].layers)


def _exports(paths: list[Path]) -> Timeline:
    kinds: dict[str, Path] = {}
    parts = []
    for path in paths:
        start = _start(path)
        if not _is_json(start):
            raise LenetTrtError(f"{path} is no trace of a known kind (it begins with {start[:16]!r}): {WANTED}")
        found = trtexec_exports.read_trtexec(_text(path), str(path))
        if found is None:
            raise LenetTrtError(f"{path} is JSON, but no trace of a known kind: {WANTED}")
        kind, part = found
        if kind in kinds:
            raise LenetTrtError(
                f"{path} and {kinds[kind]} are both of --export{_FLAGS[kind]}: give the files of one run"
            )
        kinds[kind] = path
        parts.append(part)
    return trtexec.trtexec_timeline(parts)


_FLAGS = {"profile": "Profile", "layers": "LayerInfo", "times": "Times"}


def _unpacked(path: Path) -> Timeline:
    """Unpack a compressed trace into a temporary file, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="lenet-trt-trace-") as folder:
        inner = Path(folder) / path.name.removesuffix(".gz")
        try:
            most = max(_SMALL_UNPACKED, _MOST_TIMES * path.stat().st_size)
            with gzip.open(path) as packed, open(inner, "wb") as file:
                while block := packed.read(1 << 20):
                    if file.tell() + len(block) > most:
                        raise LenetTrtError(
                            f"{path} grows to more than {most:,} bytes when it is unpacked, as no trace does: unpack "
                            "it yourself (gunzip) if it is a trace, and give the result"
                        )
                    file.write(block)
        except (OSError, EOFError, zlib.error) as error:
            raise LenetTrtError(f"{path} cannot be unpacked ({error}): it is damaged or was cut off") from error
        if _start(inner).startswith(_GZIP):
            raise LenetTrtError(f"{path} was compressed twice: unpack it once (gunzip) and give the result")
        try:
            return _one(inner)
        except LenetTrtError as error:
            raise LenetTrtError(str(error).replace(str(inner), str(path))) from error


def _start(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except FileNotFoundError:
        raise LenetTrtError(f"{path} does not exist") from None
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error
    if not start:
        raise LenetTrtError(f"{path} is empty: {WANTED}")
    return start


def _is_report(path: Path, start: bytes) -> bool:
    return start.startswith(_REPORT_MAGIC) or path.suffix in _SUFFIXES


def _is_json(start: bytes) -> bool:
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def _text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > _LARGEST_JSON:
            raise LenetTrtError(f"{path} has {size} bytes, too many for a JSON file: {WANTED}")
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error


def _is_timeline(text: str) -> bool:
    """Say whether the text is a timeline of ours; its reader reports damage further on."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return '"schema"' in text[:64]
    return isinstance(data, dict) and "schema" in data
