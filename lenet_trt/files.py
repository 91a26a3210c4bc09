"""Write files that are either complete or absent, lock them, and hash them."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from lenet_trt.errors import LenetTrtError, LenetTrtWarning


def sha256_bytes(data: bytes) -> str:
    """Hash ``data``, as lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Hash the file's bytes without reading them into memory at once, as lower-case hexadecimal."""
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path; on success its content is what ``path`` leads to, on failure it is removed.

    A regular file is replaced in one step: readers see the old file or the new one, never a part of it. A symbolic
    link stays, and the file that it leads to is replaced. A device or a FIFO stays too, and the content goes through
    it.

    Raises:
        LenetTrtError: the folder cannot be written, or the disk is full; ``path`` is as it was.
    """
    import tempfile  # with all that it brings, which programs that only read do not need

    path = Path(path)
    temporary: Path | None = None
    _refuse_folder(path)
    through = is_special(path)
    try:
        target = path if through else Path(os.path.realpath(path))
        if not through:
            target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".part", dir=None if through else target.parent
        )
        os.close(handle)
        temporary = Path(name)
        yield temporary
        if through:
            _pass_on(temporary, path)
            return
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        # mkstemp makes files for their owner alone; give this one the mode that open() would have given.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except BrokenPipeError:  # the reader of a FIFO has gone: no fault of the place
        raise
    except OSError as error:
        ours = temporary is None or error.filename in (None, str(temporary), str(path))
        if not ours:  # about a file that the caller reads
            raise
        raise _cannot_write(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def check_can_read(path: Path, wanted: str) -> None:
    """Refuse a path that is no file to read, or to read twice; ``wanted`` says which would be, as in "an ONNX file".

    Raises:
        LenetTrtError: it does not exist, is a folder, a device or a FIFO, or may not be read; says which.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with open(path, "rb"):
                return
    except FileNotFoundError:
        raise LenetTrtError(f"{path} does not exist") from None
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error
    seen = "a folder" if stat.S_ISDIR(mode) else "a device or a FIFO"
    raise LenetTrtError(f"{path} is {seen}; wanted {wanted}")


def check_can_write(path: Path) -> None:
    """Refuse a path that ``atomic_path`` could not write, before the work for its content; nothing is left behind.

    Raises:
        LenetTrtError: it is a folder, or its folder cannot be written or made.
    """
    import tempfile  # see atomic_path

    _refuse_folder(path)
    if is_special(path):
        return
    folder = Path(os.path.realpath(path)).parent
    while not os.path.lexists(folder):
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _cannot_write(path, error) from error


def is_special(path: Path) -> bool:
    """Say whether the path leads to neither a regular file nor a folder: a device, a FIFO, a socket."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def report_stream(output: Path | None) -> TextIO:
    """Return where to print what was done: standard error where ``output`` is standard output, which has the content.

    It is asked before the content is written, which may replace the file that standard output goes to.
    """
    try:
        same = output is not None and os.path.samestat(output.stat(), os.fstat(1))
    except OSError:  # it is not there yet
        same = False
    return sys.stderr if same else sys.stdout


def _pass_on(source: Path, target: Path) -> None:
    """Write a file's content through a device or a FIFO, which must be there already."""
    handle = os.open(target, os.O_WRONLY)
    with open(source, "rb") as content, os.fdopen(handle, "wb") as sink:
        while block := content.read(1 << 20):
            sink.write(block)


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that no reader ever sees a part of it."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def sealed(data: bytes) -> bytes:
    """Put the data's hash behind it, so that damage shows."""
    return data + hashlib.sha256(data).digest()


def unsealed(data: bytes) -> bytes | None:
    """Return what ``sealed`` was given, or None where the bytes are not those that it returned."""
    content = data[: -hashlib.sha256().digest_size]
    return content if sealed(content) == data else None


def keep(path: Path, data: bytes, what: str) -> None:
    """Write a file into the cache; where that fails, warn and go on, since it can be made again."""
    try:
        write_atomic(path, data)
    except LenetTrtError:
        advice = f"{path.parent} cannot be written; LENET_TRT_CACHE names another folder"
        warnings.warn(f"{what} are not kept: {advice}", LenetTrtWarning, stacklevel=3)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock that belongs to ``path``: one process at a time, others wait."""
    lock = path.parent / f".{path.name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _locked(lock)
    except OSError as error:
        raise LenetTrtError(f"cannot write in {path.parent}: {_told(error)}. {_advice(error)}") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _locked(lock: Path) -> int:
    """Open the lock file and wait until it is ours; one that its holder removed meanwhile is not the lock any more."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            ours = os.path.samestat(os.fstat(handle), lock.stat())
        except FileNotFoundError:
            ours = False
        except BaseException:
            os.close(handle)
            raise
        if ours:
            return handle
        os.close(handle)


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise LenetTrtError(f"cannot write {path}: it is a folder; name a file in it")


def _cannot_write(path: Path, error: OSError) -> LenetTrtError:
    return LenetTrtError(f"cannot write {path}: {_told(error)}; what was there before is unchanged. {_advice(error)}")


def _told(error: OSError) -> str:
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return "a part of the path is a file, where a folder is wanted"
    return error.strerror or str(error)


def _advice(error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "Free some space or choose another place with -o." if full else "Choose another place with -o."


def cache_dir(*below: str) -> Path:
    """Return the folder for downloads and compiled kernels, $LENET_TRT_CACHE or ~/.cache/lenet-trt, or one below it.

    It is made where it is not there.

    Raises:
        LenetTrtError: another user owns it, or everybody can write it; what lies in it would be run as this user.
    """
    chosen = os.environ.get("LENET_TRT_CACHE")
    folder = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lenet-trt"
    for name in ("", *below):
        folder = folder / name
        with suppress(OSError):  # the file that is to be kept in it says why
            folder.mkdir(mode=0o775, parents=True, exist_ok=True)
        _refuse_others(folder)
    return folder


def _refuse_others(folder: Path) -> None:
    try:
        found = folder.stat()
    except OSError:  # there is nothing to take from it
        return
    advice = "let LENET_TRT_CACHE name a folder of your own"
    if found.st_uid not in (os.geteuid(), 0):
        raise LenetTrtError(
            f"the cache {folder} belongs to another user (uid {found.st_uid}), who could change what is run from it: "
            f"chown it to yours (uid {os.geteuid()}) if you trust its files, or {advice}"
        )
    if found.st_mode & stat.S_IWOTH:
        # A folder such as /tmp has to stay open to everybody; what lies in it belongs to its owner.
        shared = found.st_mode & stat.S_ISVTX
        close = f"`chmod -R o-w {folder}` if you trust its files, or {advice}"
        remedy = f"{advice}, such as {folder / 'lenet-trt'}" if shared else close
        raise LenetTrtError(
            f"everybody can write the cache {folder} (mode {stat.S_IMODE(found.st_mode):o}), and so change what is run "
            f"from it: {remedy}"
        )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
