"""Places on any file system that PyArrow opens: a path, or a URI such as s3://bucket/folder."""

from __future__ import annotations

import os
import re
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import write_atomic
from lenet_trt.run.on_ray.packages import arrow_files

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# An object of these stores appears when it is whole, and moving one means to copy it.
_OBJECT_STORES = ("s3", "gcs", "abfs")


@dataclass(frozen=True)
class FoundFile:
    """A file below a place: its path in the file system, its name as the user would write it, size and change."""

    path: str
    name: str
    size: int
    changed_ns: int


@dataclass(frozen=True)
class DataPlace:
    """A file or folder; ``given`` is how the user wrote it, ``path`` where it lies in ``filesystem``."""

    filesystem: Any
    path: str
    given: str

    @property
    def local(self) -> bool:
        """Say whether the place lies in the file system of this machine."""
        return str(self.filesystem.type_name) == "local"

    def files(self) -> list[FoundFile] | None:
        """List the files of a folder and of its folders, in the order of their paths; None where this is one file.

        Files and folders whose name begins with a dot or an underscore are left out, as Spark and Ray do.

        Raises:
            LenetTrtError: there is nothing, or it cannot be listed.
        """
        fs = arrow_files()
        try:
            info = self.filesystem.get_file_info(self.path)
            if info.type == fs.FileType.NotFound:
                raise LenetTrtError(f"{self.given} does not exist; wanted a file or a folder")
            if info.type == fs.FileType.File:
                return None
            entries = self.filesystem.get_file_info(fs.FileSelector(self.path, recursive=True))
        except OSError as error:
            raise LenetTrtError(f"{self.given} cannot be listed: {error}") from error
        found = []
        for entry in entries:
            inside = os.path.relpath(entry.path, self.path)
            if entry.type == fs.FileType.File and not any(part[0] in "._" for part in inside.split("/")):
                found.append(_found(entry, f"{self.given.rstrip('/')}/{inside}"))
        return sorted(found, key=lambda each: each.path)

    def itself(self) -> FoundFile:
        """Describe the file that this is."""
        return _found(self.filesystem.get_file_info(self.path), self.given)

    def open(self, path: str) -> BinaryIO:
        """Open a file that can seek."""
        return cast(BinaryIO, self.filesystem.open_input_file(path))

    def read(self, name: str) -> bytes | None:
        """Read a file of this folder; None where there is none."""
        try:
            with self.open(f"{self.path}/{name}") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def names(self) -> set[str]:
        """Return the names of the files of this folder, without those of its folders; none where it is not there."""
        fs = arrow_files()
        selector = fs.FileSelector(self.path, allow_not_found=True)
        return {entry.base_name for entry in self.filesystem.get_file_info(selector) if entry.type == fs.FileType.File}

    def write(self, name: str, data: bytes) -> None:
        """Write a file of this folder, which is whole or absent.

        Raises:
            LenetTrtError: it cannot be written.
        """
        if self.local:
            write_atomic(Path(self.path) / name, data)
            return
        target = f"{self.path}/{name}"
        direct = str(self.filesystem.type_name) in _OBJECT_STORES
        written = target if direct else f"{self.path}/.{name}.{uuid.uuid4().hex}.part"
        try:
            self.filesystem.create_dir(self.path, recursive=True)
            with self.filesystem.open_output_stream(written) as stream:
                stream.write(data)
            if not direct:
                self.filesystem.move(written, target)
        except OSError as error:
            with suppress(OSError):
                if not direct:
                    self.filesystem.delete_file(written)
            raise LenetTrtError(f"cannot write {target}: {error}: choose another place with -o") from error


def place(given: str | os.PathLike[str], filesystem: Any = None) -> DataPlace:
    """Say where a path or a URI lies; ``filesystem``, of PyArrow or fsspec, is where its paths are meant.

    Raises:
        LenetTrtError: PyArrow knows no such file system.
    """
    fs = arrow_files()
    text = os.fspath(given)
    if filesystem is not None:
        known = isinstance(filesystem, fs.FileSystem)
        return DataPlace(filesystem if known else fs.PyFileSystem(fs.FSSpecHandler(filesystem)), text.rstrip("/"), text)
    if not _URI.match(text):
        return DataPlace(fs.LocalFileSystem(), os.path.abspath(text), text)
    try:
        opened, path = fs.FileSystem.from_uri(text)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        raise LenetTrtError(
            f"{text}: PyArrow does not open it ({error}); wanted a path, or a URI as s3://..."
        ) from error
    return DataPlace(opened, path.rstrip("/"), text)


def _found(entry: Any, name: str) -> FoundFile:
    return FoundFile(entry.path, name, entry.size or 0, entry.mtime_ns or 0)
