"""Downloads from mirrors that work, break off, lie or are dead, all on the loopback interface."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.export import download
from lenet_trt.export.download import RemoteFile, fetch, training_folder

CONTENT = bytes(range(256)) * 1000
FILE = RemoteFile("digits.gz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
OTHER = bytes(len(CONTENT))


class Mirrors:
    """One server; the first part of the path says how it behaves. `asked` notes each request's range."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        mirrors = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirrors.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, kind: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/{kind}/"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        _, kind, name = request.path.split("/")
        assert name == FILE.name
        wanted = request.headers.get("Range")
        self.asked.append((kind, wanted))
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and kind != "whole" else 0
        if kind == "missing":
            request.send_error(404)
            return
        content = {"other": OTHER, "longer": CONTENT + CONTENT, "page": b"<html>log in</html>"}.get(kind, CONTENT)
        request.send_response(206 if start else 200)
        if start:
            said = start + 1 if kind == "liar" else start
            request.send_header("Content-Range", f"bytes {said}-{len(content) - 1}/{len(content)}")
        body = content[start:]
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: 100_000 if kind in ("breaks", "liar") else len(body)])


@pytest.fixture
def mirrors() -> Iterator[Mirrors]:
    mirrors = Mirrors()
    yield mirrors
    mirrors.server.shutdown()
    mirrors.server.server_close()


def dead_url() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}/"


def get(folder: Path, *mirrors: str) -> Path:
    return fetch(FILE, folder, mirrors=mirrors, progress=False)


def test_fetches_once_and_keeps_it(mirrors: Mirrors, tmp_path: Path) -> None:
    path = get(tmp_path / "cache", mirrors.url("good"))
    assert path.read_bytes() == CONTENT
    assert get(tmp_path / "cache", mirrors.url("good")) == path
    assert mirrors.asked == [("good", None)]
    assert not list(path.parent.glob("*.part"))


def test_cached_file_that_is_damaged_is_fetched_again(mirrors: Mirrors, tmp_path: Path) -> None:
    (tmp_path / FILE.name).write_bytes(OTHER)
    assert get(tmp_path, mirrors.url("good")).read_bytes() == CONTENT


def test_resumes_a_mirror_that_breaks_off(mirrors: Mirrors, tmp_path: Path) -> None:
    assert get(tmp_path, mirrors.url("breaks")).read_bytes() == CONTENT
    assert mirrors.asked == [("breaks", None), ("breaks", "bytes=100000-"), ("breaks", "bytes=200000-")]


def test_resumes_what_an_earlier_run_left(mirrors: Mirrors, tmp_path: Path) -> None:
    (tmp_path / f"{FILE.name}.part").write_bytes(CONTENT[:777])
    assert get(tmp_path, mirrors.url("good")).read_bytes() == CONTENT
    assert mirrors.asked == [("good", "bytes=777-")]


def test_uses_a_part_that_was_complete(tmp_path: Path) -> None:
    (tmp_path / f"{FILE.name}.part").write_bytes(CONTENT)
    assert get(tmp_path, dead_url()).read_bytes() == CONTENT


def test_mirror_that_ignores_ranges_starts_over(mirrors: Mirrors, tmp_path: Path) -> None:
    (tmp_path / f"{FILE.name}.part").write_bytes(OTHER[:777])
    assert get(tmp_path, mirrors.url("whole")).read_bytes() == CONTENT


@pytest.mark.parametrize("left", [OTHER[:777], OTHER, OTHER + OTHER])
def test_wrong_part_is_thrown_away(mirrors: Mirrors, tmp_path: Path, left: bytes) -> None:
    (tmp_path / f"{FILE.name}.part").write_bytes(left)
    assert get(tmp_path, mirrors.url("good")).read_bytes() == CONTENT


@pytest.mark.parametrize("bad", ["missing", "other", "longer", "page", "liar"])
def test_falls_back_to_the_next_mirror(mirrors: Mirrors, tmp_path: Path, bad: str) -> None:
    assert get(tmp_path, dead_url(), mirrors.url(bad), mirrors.url("good")).read_bytes() == CONTENT


def test_error_names_every_mirror_and_the_way_out(mirrors: Mirrors, tmp_path: Path) -> None:
    dead = dead_url()
    with pytest.raises(LenetTrtError) as error:
        get(tmp_path, dead, mirrors.url("missing"), mirrors.url("other"), mirrors.url("page"))
    told = str(error.value)
    assert f"{dead}{FILE.name}: " in told
    assert "refused" in told
    assert "/missing/digits.gz: HTTP 404" in told
    assert f"/other/digits.gz: gave a different file; wanted {len(CONTENT)} bytes with SHA-256 {FILE.sha256}" in told
    assert "/page/digits.gz: broke off, with 19 of 256000 bytes" in told
    assert "--data DIR" in told
    assert not (tmp_path / FILE.name).exists()


def test_full_disk_is_not_the_mirrors_fault(mirrors: Mirrors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", no_room)
    with pytest.raises(LenetTrtError, match=r"cannot write .*digits\.gz\.part: No space left"):
        get(tmp_path, mirrors.url("good"))


def test_several_at_once_fetch_once(mirrors: Mirrors, tmp_path: Path) -> None:
    threads = [threading.Thread(target=get, args=(tmp_path, mirrors.url("good"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=600)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
    assert mirrors.asked == [("good", None)]


def test_training_folder_is_in_the_cache(mirrors: Mirrors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LENET_TRT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = training_folder(mirrors=[mirrors.url("good")], files=[FILE], progress=False)
    assert folder == tmp_path / "lenet-trt" / "mnist"
    assert (folder / FILE.name).read_bytes() == CONTENT


def test_the_real_mirrors_are_several_and_over_tls() -> None:
    assert len(set(download.MIRRORS)) >= 2
    assert all(mirror.startswith("https://") for mirror in download.MIRRORS)
    assert [file.name for file in download.TRAINING_FILES] == [
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
    ]
