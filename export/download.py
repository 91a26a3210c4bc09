"""Fetch MNIST's training files from public mirrors: checked, resumed, cached, and never left half-written."""

from __future__ import annotations

import http.client
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import cache_dir, exclusive, sha256_file

log = logging.getLogger(__name__)

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
TIMEOUT_SECONDS = 20.0
# When a mirror breaks off, the rest is requested from it this many times before the next mirror is tried.
RESUMES = 3
_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class RemoteFile:
    """Describe a file that every mirror holds under the same name: its size and hash."""

    name: str
    size: int
    sha256: str


# Source: the sizes are on MNIST's page; torchvision lists the same hashes.
TRAINING_FILES = (
    RemoteFile(
        "train-images-idx3-ubyte.gz",
        9_912_422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    RemoteFile(
        "train-labels-idx1-ubyte.gz",
        28_881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
)


def training_folder(
    *,
    mirrors: Sequence[str] = MIRRORS,
    files: Sequence[RemoteFile] = TRAINING_FILES,
    folder: Path | None = None,
    progress: bool = True,
) -> Path:
    """Return the folder with MNIST's training files; they are fetched into the cache if they are not there.

    Raises: LenetTrtError when no mirror gives a file that is right.
    """
    folder = folder or cache_dir("mnist")
    for file in files:
        fetch(file, folder, mirrors=mirrors, progress=progress)
    return folder


def fetch(file: RemoteFile, folder: Path, *, mirrors: Sequence[str] = MIRRORS, progress: bool = True) -> Path:
    """Bring one file into `folder` unless it is there; bytes from an earlier try are not fetched again.

    Raises: LenetTrtError when no mirror gives the file with the right hash.
    """
    path = folder / file.name
    # One process fetches the file; others wait and find it there.
    with exclusive(path):
        if _is_right(path, file):
            return path
        part = path.with_name(f"{file.name}.part")
        if _is_right(part, file):  # an earlier run was stopped just before its end
            part.replace(path)
            return path
        if _size(part) >= file.size:
            part.unlink()
        failures = []
        for mirror in mirrors:
            url = mirror.rstrip("/") + "/" + file.name
            failure = _fetch_from(url, part, file, progress)
            if failure is None:
                part.replace(path)
                return path
            log.warning("%s: %s", url, failure)
            failures.append(f"  {url}: {failure}")
    raise LenetTrtError(
        f"{file.name} could not be fetched from any mirror:\n"
        + "\n".join(failures)
        + "\nget MNIST's files another way and name their folder with --data DIR"
    )


def _fetch_from(url: str, part: Path, file: RemoteFile, progress: bool) -> str | None:
    """Fetch or finish `part` from one mirror; return None, or what went wrong."""
    failure = ""
    for _ in range(1 + RESUMES):
        before = _size(part)
        try:
            _append(url, part, file, progress)
        except (OSError, http.client.HTTPException, ValueError) as error:
            failure = _told(error)
        have = _size(part)
        if _is_right(part, file):
            return None
        if have >= file.size:
            part.unlink()
            failure = f"gave a different file; wanted {file.size} bytes with SHA-256 {file.sha256}"
            if before == 0:
                return failure
            # The bytes from before may have been wrong: try once more from the start.
        elif have <= before:
            break
    return failure or f"broke off, with {_size(part)} of {file.size} bytes"


def _append(url: str, part: Path, file: RemoteFile, progress: bool) -> None:
    have = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "lenet-trt"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        start = _start_of(response, have)
        # One extra byte shows that the mirror holds another file; more bytes are never read.
        missing = file.size + 1 - start
        with tqdm(
            total=file.size, initial=start, unit="B", unit_scale=True, desc=file.name, disable=not progress
        ) as bar:
            _write(part, start, b"")
            while missing > 0 and (block := response.read(min(_BLOCK_BYTES, missing))):
                _write(part, file.size + 1 - missing, block)
                missing -= len(block)
                bar.update(len(block))


def _write(part: Path, start: int, block: bytes) -> None:
    """Write `block` into `part` from `start` on, and cut off the rest. A full disk is not the mirror's failure."""
    try:
        with part.open("r+b" if part.exists() else "wb") as out:
            out.truncate(start)
            out.seek(start)
            out.write(block)
    except OSError as error:
        raise LenetTrtError(f"cannot write {part}: {error.strerror or error}: make room there") from error


def _start_of(response: http.client.HTTPResponse, have: int) -> int:
    """Return the place in the file where the response starts: a mirror may ignore the range and send the whole file."""
    if response.status != 206:
        return 0
    stated = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if stated is None or int(stated[1]) != have:
        raise ValueError(f"was asked for the bytes from {have} on and sent others")
    return have


def _is_right(path: Path, file: RemoteFile) -> bool:
    return _size(path) == file.size and sha256_file(path) == file.sha256


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _told(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or type(error).__name__
