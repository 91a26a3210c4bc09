"""Nothing is destroyed: no input, and no file that the same command did not make."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import onnx
import pytest

from lenet_trt.cli import VERBS, main, parser_for
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.files import atomic_path, write_atomic

TRACES = Path(__file__).parents[1] / "docs" / "lost-time"


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, a timeline and somebody's notes."""
    folder = tmp_path_factory.mktemp("given")
    profile = ["profile", "lenet5.onnx", "--with", "own", "--iterations", "2", "--warmup", "0", "-o", "t.json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["export", "lenet5", "--shipped"]) == 0
        assert main(profile) == 0
    (folder / "notes").write_text("mine")
    return folder


@pytest.fixture
def here(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to work in."""
    shutil.copytree(given, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


DATASHEET = ["--datasheet", "RTX 4090"]
# verb -> its command line without -o, how its output is called, and an input of it that it could destroy.
WRITERS = {
    "export": (["export", "lenet5", "--shipped"], "out.onnx", None),
    "fuse": (["fuse", "lenet5.onnx"], "out.onnx", "lenet5.onnx"),
    "build": (["build", "lenet5.onnx", "--batch", "1:1:1"], "out.engine", "lenet5.onnx"),
    "report": (["report", "t.json", *DATASHEET], "out.html", "t.json"),
    "report md": (["report", "t.json", *DATASHEET], "out.md", "t.json"),
    "report json": (["report", "t.json", *DATASHEET], "out.json", "t.json"),
    "roofline": (["roofline", "lenet5.onnx", *DATASHEET], "out.svg", None),
    "roofline png": (["roofline", "lenet5.onnx", *DATASHEET], "out.png", None),
    "inspect": (["inspect", "lenet5.onnx", "--svg"], "out.svg", "lenet5.onnx"),
    "profile": (["profile", "lenet5.onnx", "--with", "own", "--iterations", "2"], "out.json", None),
    "profile --from": (["profile", "--from", "t.json"], "out.json", "t.json"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_command_may_write_again_and_no_other_file_is_lost(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    words, output, given = WRITERS[name]
    assert main([*words, "-o", output]) == 0
    assert main([*words, "-o", output]) == 0
    shutil.copy("notes", output)
    if name == "build":  # what is beside it says whose it is
        shutil.copy("notes", "out.json")
    assert main([*words, "-o", output]) == 1
    assert "this command did not make it" in capsys.readouterr().err
    assert Path(output).read_text() == "mine"
    assert main([*words, "-o", output, "--overwrite"]) == 0
    assert Path(output).read_bytes()[:4] != b"mine"
    if given is not None and Path(given).suffix == Path(output).suffix:
        before = Path(given).read_bytes()
        assert main([*words, "-o", given]) == 2
        os.symlink(given, f"link{Path(given).suffix}")
        assert main([*words, "-o", f"link{Path(given).suffix}"]) == 2
        assert "is an input of this command" in capsys.readouterr().err
        assert Path(given).read_bytes() == before


def test_a_record_of_train_is_no_sidecar(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`train -o fashion.safetensors` keeps its record in fashion.json, where the sidecar of fashion.engine would go."""
    from lenet_trt.export.weights import WEIGHTS, load_weights, save_weights

    save_weights(Path("fashion.safetensors"), load_weights(WEIGHTS), {"test_accuracy": 0.9})
    before = Path("fashion.json").read_bytes()
    shutil.copy("lenet5.onnx", "fashion.onnx")
    assert main(["build", "fashion.onnx", "-o", "fashion.engine"]) == 1
    assert "fashion.json is there already" in capsys.readouterr().err
    assert Path("fashion.json").read_bytes() == before
    Path("lenet5.json").write_text('{"mine": 1}')
    assert main(["train", "-o", "lenet5.safetensors"]) == 1
    assert "lenet5.json is there already" in capsys.readouterr().err


def test_a_model_that_an_engine_was_built_from_is_not_replaced_by_its_own_build(here: Path) -> None:
    shutil.copy("lenet5.onnx", "m.engine.onnx")
    assert main(["build", "m.engine.onnx", "-o", "m.engine"]) == 2


def test_a_folder_with_other_things_is_not_optimized_into(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("work/tried").mkdir(parents=True)
    Path("work/tried/notes").write_text("mine")
    Path("work/notes").write_text("mine")
    assert main(["optimize", "lenet5.onnx", "-o", "work", "--runtime", "ort-cpu"]) == 1
    assert "has other things in it" in capsys.readouterr().err
    assert Path("work/tried/notes").read_text() == "mine"


def test_a_suite_does_not_replace_other_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("kernels.csv").write_text("mine")
    assert main(["bench", "kernels", "--quick", "-o", "."]) == 1
    assert "kernels.csv is there already" in capsys.readouterr().err


# verb -> its command line without -o, an output below a file, and the work that would be in vain.
IN_VAIN = {
    "profile": (["profile", "lenet5.onnx"], "notes/t.json", "lenet_trt.profile.__main__.profile_model"),
    "verify": (["verify"], "notes/out", "lenet_trt.verify.stage.verify"),
    "library": (["library"], "notes/lib.so", "lenet_trt.library.__main__.compile_library"),
    "fuse": (["fuse", "lenet5.onnx"], "notes/out.onnx", "lenet_trt.fuse.__main__.fuse"),
    "optimize": (["optimize", "lenet5.onnx"], "notes/out", "lenet_trt.optimize.result.optimize"),
    "train": (["train"], "notes/w.safetensors", "lenet_trt.train.__main__._log_on_stderr"),
}


@pytest.mark.parametrize("name", IN_VAIN)
@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_an_output_that_cannot_be_written_is_told_before_the_work(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, overwrite: list[str]
) -> None:
    words, output, work = IN_VAIN[name]
    begun: list[str] = []
    monkeypatch.setattr(work, lambda *arguments, **options: begun.append(name))
    before = set(os.listdir(here))
    assert main([*words, "-o", output, *overwrite]) == 1
    assert "a part of the path is a file, where a folder is wanted" in capsys.readouterr().err
    assert not begun
    assert set(os.listdir(here)) == before


@pytest.mark.parametrize(
    "verb",
    ["train", "export", "fuse", "build", "profile", "report", "roofline", "inspect", "optimize", "bench", "library"],
)
def test_every_verb_with_an_output_has_the_option(verb: str) -> None:
    assert verb in VERBS
    parser = parser_for(verb)
    if verb == "export":
        parser = next(iter(parser._subparsers._group_actions[0].choices.values()))  # type: ignore[union-attr]
    assert "--overwrite" in parser.format_help()


def test_a_shared_library_of_others_is_not_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("libmine.so").write_bytes(b"\x7fELF mine")
    assert main(["library", "-o", "libmine.so"]) == 1
    assert "libmine.so is there already" in capsys.readouterr().err


def test_a_fifo_is_written_through(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.append(path.read_bytes()), daemon=True)
    reader.start()
    write_atomic(path, b"content")
    reader.join(60)  # where the FIFO was replaced, nothing ever comes through it
    assert seen == [b"content"]
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert os.listdir(tmp_path) == ["fifo"]


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert os.listdir(tmp_path / "there") == ["file"]


def _null(folder: Path) -> Path:
    """A device that swallows what is written, made for the test; else a link to the machine's own."""
    device = folder / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.write_bytes(b"")
    except OSError:
        device.unlink(missing_ok=True)
        device.symlink_to(os.devnull)
    return device


@pytest.mark.parametrize("name", [name for name in WRITERS if "png" not in name])
def test_a_device_stays_a_device(here: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    device = _null(here)
    words, _, _ = WRITERS[name]
    before = set(os.listdir(here))
    status = main([*words, "-o", str(device)])
    assert status == (2 if name == "build" or name.startswith("roofline") else 0)
    assert stat.S_ISCHR(device.stat().st_mode)
    assert set(os.listdir(here)) == before
    if name == "build":
        assert "is a device or a FIFO" in capsys.readouterr().err


# verb -> its command line without -o, and how the content alone begins and ends.
INTO_A_PIPE = {
    "export lenet5": (["export", "lenet5", "--shipped"], None, None),
    "export matmul": (["export", "matmul", "--dims", "2,3,4,1,5"], None, None),
    "export conv": (["export", "conv", "--batch", "2", "--json"], None, None),
    "fuse": (["fuse", "lenet5.onnx"], None, None),
    "report": (["report", "t.json", *DATASHEET], b"<!doctype html>", b"</html>"),
    "inspect": (["inspect", "lenet5.onnx", "--svg"], b"<svg", b"</svg>"),
    "profile": (["profile", "--from", "t.json"], b"{", b"}"),
    "profile json": (["profile", "--from", "t.json", "--json"], b"{", b"}"),
    "tune": (["tune", "maxpool2", "--list"], b"{", b"}"),
}


@pytest.mark.parametrize("name", INTO_A_PIPE)
def test_what_goes_into_a_pipe_is_the_content_alone(here: Path, name: str) -> None:
    words, begin, end = INTO_A_PIPE[name]
    command = [sys.executable, "-m", "lenet_trt.cli", *words, "-o", "/dev/stdout"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)  # a reader of its own pipe never ends
    assert b"/dev/stdout" in done.stderr
    if begin is None:
        onnx.checker.check_model(onnx.load_model_from_string(done.stdout))
    else:
        assert done.stdout.lower().startswith(begin)
        assert done.stdout.rstrip().endswith(end)
    if begin == b"{":
        json.loads(done.stdout)


def test_what_goes_into_a_redirected_file_is_the_content_alone(here: Path) -> None:
    with open("out.svg", "w") as out:
        command = [sys.executable, "-m", "lenet_trt.inspect", "lenet5.onnx", "--svg", "-o", "/dev/stdout"]
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=True)
    assert b"graph  /dev/stdout" in done.stderr
    assert Path("out.svg").read_bytes().rstrip().endswith(b"</svg>")


def test_a_device_has_no_place_for_a_second_file_beside_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device, before = _null(here), set(os.listdir(here))
    assert main(["fuse", "lenet5.onnx", "--embed", "--sm", "8.6", "-o", str(device)]) == 2
    assert "name a file" in capsys.readouterr().err
    assert set(os.listdir(here)) == before | {device.name}


def test_a_timing_cache_replaces_no_model(here: Path) -> None:
    """TensorRT reads and writes the cache; no other file of the build may go that way."""
    from lenet_trt.build.request import BuildRequest
    from lenet_trt.build.stage import _guard
    from lenet_trt.errors import UsageError
    from lenet_trt.tensorrt.engine import BuildOptions

    def request(cache: str) -> BuildRequest:
        return BuildRequest(
            onnx=Path("lenet5.onnx"), output=Path("m.engine"), options=BuildOptions(timing_cache=Path(cache))
        )

    _guard(Path("m.engine"), request("notes.cache"))
    for name in ("lenet5.onnx", "m.engine", "m.json"):
        with pytest.raises(UsageError, match="is an input of this command"):
            _guard(Path("m.engine"), request(name))


def test_the_content_is_on_disk_before_it_takes_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut leaves the old file or the new one: the new content is synchronised before the rename."""
    steps: list[tuple[str, int, int]] = []
    fsync, rename = os.fsync, Path.replace

    def synced(handle: int) -> None:
        status = os.fstat(handle)
        steps.append(("fsync", status.st_ino, status.st_size))
        fsync(handle)

    def renamed(source: Path, target: Path) -> Path:
        steps.append(("replace", source.stat().st_ino, source.stat().st_size))
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    path = tmp_path / "file"
    write_atomic(path, b"content")
    inode = path.stat().st_ino
    assert steps == [("fsync", inode, 7), ("replace", inode, 7)]


def test_a_reader_that_has_the_old_file_open_keeps_it(tmp_path: Path) -> None:
    """Written in place, the old content would be gone under whoever reads it."""
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_text("old content")
    os.link(path, other)
    with open(path) as reader:
        write_atomic(path, b"new")
        assert reader.read() == "old content"
    assert other.read_text() == "old content"
    assert path.read_text() == "new"


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    program = (
        "import os, signal, sys; from pathlib import Path; from lenet_trt.files import atomic_path\n"
        "with atomic_path(Path(sys.argv[1])) as temporary:\n"
        "    with open(temporary, 'wb') as file:\n"
        "        file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -9
    assert path.read_text() == "old"


def test_nothing_goes_through_when_the_work_fails(tmp_path: Path) -> None:
    device = tmp_path / "fifo"
    os.mkfifo(device)

    def fail() -> None:
        with atomic_path(device) as temporary:
            temporary.write_text("half")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert stat.S_ISFIFO(device.stat().st_mode)


def test_a_truncated_record_of_a_build_is_still_one(here: Path) -> None:
    assert main(["build", "lenet5.onnx", "--batch", "1:1:1", "-o", "m.engine"]) == 0
    sidecar = Path("m.json")
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()), indent=2)[:200])
    assert main(["build", "lenet5.onnx", "--batch", "1:1:1", "-o", "m.engine"]) == 0


def test_fuse_knows_its_output_without_a_plugin_node(tmp_path: Path) -> None:
    shutil.copy(SHIPPED, tmp_path / "lenet5.onnx")
    words = ["fuse", str(tmp_path / "lenet5.onnx"), "-o", str(tmp_path / "z.onnx")]
    assert main([*words, "--plugins", "none"]) == 0
    assert main([*words, "--fp16"]) == 0
    assert main([*words, "--plugins", "none"]) == 0
    shutil.copy(SHIPPED, tmp_path / "z.onnx")
    assert main(words) == 1
