"""Files are whole or not there."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import (
    atomic_path,
    cache_dir,
    check_can_read,
    check_can_write,
    exclusive,
    sha256_bytes,
    sha256_file,
    write_atomic,
)


def test_the_content_and_the_usual_mode_arrive(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_atomic(path, b"content")
    (tmp_path / "usual").write_bytes(b"")
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert sha256_file(path) == sha256_bytes(b"content")


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")])
def test_a_failure_keeps_the_old_file_and_leaves_no_part(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    wanted = LenetTrtError if isinstance(error, OSError) else type(error)

    def write() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(wanted):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    program = (
        "import resource, signal, sys; from pathlib import Path; from lenet_trt.files import write_atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "write_atomic(Path(sys.argv[1]), b'x' * 5000)"
    )
    assert resource.RLIMIT_FSIZE is not None
    answer = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert f"LenetTrtError: cannot write {path}: File too large" in answer.stderr
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LenetTrtError, match="cannot write"):
        write_atomic(tmp_path / "file" / "below", b"")


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    order: list[str] = []

    def hold(name: str) -> None:
        with exclusive(tmp_path / "engine"):
            order.append(f"{name} in")
            time.sleep(0.05)
            order.append(f"{name} out")

    threads = [threading.Thread(target=hold, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [step.split()[1] for step in order] == ["in", "out", "in", "out"]
    assert not list(tmp_path.iterdir())


def test_a_lock_that_its_holder_removed_is_not_taken(tmp_path: Path) -> None:
    inside, most = 0, 0
    guard = threading.Lock()

    def hold() -> None:
        nonlocal inside, most
        for _ in range(20):
            with exclusive(tmp_path / "engine"):
                with guard:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.0005)
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=hold) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


@pytest.mark.parametrize(
    ("name", "told"),
    [("", "it is a folder"), ("file/below", "a part of the path is a file"), ("file/far/below", "a part of the path")],
)
def test_a_path_that_cannot_be_a_file_is_told_in_words(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "file").write_text("")
    for write in (lambda path: write_atomic(path, b"content"), check_can_write):
        with pytest.raises(LenetTrtError, match=told) as error:
            write(tmp_path / name)
        assert "Free some space" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_is_no_file_to_read_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")  # opening it would wait for ever
    check_can_read(tmp_path / "file", "a model")
    for name, told in (
        ("none", "does not exist"),
        ("", "is a folder; wanted a model"),
        ("fifo", "is a device or a FIFO; wanted a model"),
        ("loop", f"cannot be read: {os.strerror(errno.ELOOP)}"),
        ("file/below", f"cannot be read: {os.strerror(errno.ENOTDIR)}"),
    ):
        with pytest.raises(LenetTrtError, match=f"^{tmp_path / name} {told}$"):
            check_can_read(tmp_path / name, "a model")


def test_what_can_be_written_leaves_nothing_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("new/below")
    os.mkfifo(tmp_path / "fifo")  # opening it would wait for ever
    before = set(os.listdir(tmp_path))
    for name in ("file", "link", "fifo", "far/below/it"):
        check_can_write(tmp_path / name)
    assert set(os.listdir(tmp_path)) == before
    assert (tmp_path / "file").read_text() == "old"


def test_a_folder_that_takes_no_files_is_told_before_the_work() -> None:
    with pytest.raises(LenetTrtError, match=r"cannot write /proc/far/below: .* Choose another place with -o"):
        check_can_write(Path("/proc/far/below"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LENET_TRT_CACHE", str(folder))
    return folder


@pytest.mark.parametrize("below", [(), ("kernels",)])
def test_a_cache_that_everybody_can_write_is_refused_with_the_way_out(cache: Path, below: tuple[str, ...]) -> None:
    folder = cache_dir(*below)
    folder.chmod(0o777)
    with pytest.raises(LenetTrtError, match=rf"everybody can write the cache {folder} \(mode 777\).*chmod -R o-w"):
        cache_dir("kernels")
    folder.chmod(0o775)
    assert cache_dir("kernels") == cache / "kernels"


def test_a_cache_that_all_users_share_is_not_to_be_closed(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o1777)  # as /tmp: other programs fail once it is closed
    with pytest.raises(LenetTrtError, match=rf"mode 1777\).*LENET_TRT_CACHE.* such as {cache}/lenet-trt$") as error:
        cache_dir()
    assert "chmod" not in str(error.value)


def test_a_cache_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_dir()
    if os.geteuid() == 0:
        os.chown(cache, 4711, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(LenetTrtError, match=rf"the cache {cache} belongs to another user .*LENET_TRT_CACHE"):
        cache_dir("kernels")


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_a_cache_that_is_made_here_is_taken_again(cache: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert [cache_dir("kernels"), cache_dir("kernels")] == [cache / "kernels"] * 2
    finally:
        os.umask(before)
    assert cache.stat().st_mode & 0o777 == 0o775 & ~umask
