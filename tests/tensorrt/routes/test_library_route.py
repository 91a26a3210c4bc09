"""The route ``library``: what is built by it, what its sidecar and the printed commands say, and what is refused.

TensorRT-RTX's real builder and registry take the library that is compiled from the headers of TensorRT 10.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lenet_trt.cuda.gpus import Gpu
from lenet_trt.errors import LenetTrtError
from lenet_trt.tensorrt import vouch
from lenet_trt.tensorrt.find_library import library_for_build, library_for_engine
from lenet_trt.tensorrt.flavors import Flavor, select
from lenet_trt.tensorrt.library_file import library_content
from lenet_trt.tensorrt.routes import ROUTES, recorded_route
from lenet_trt.tensorrt.routes.library import load_library
from lenet_trt.tensorrt.sidecar import Sidecar, read_sidecar
from lenet_trt.tensorrt.summary import next_commands


@pytest.fixture(scope="module")
def libraries(library: Callable[[str], Path]) -> dict[str, Path]:
    """The library for two majors of TensorRT."""
    return {version: library(version) for version in ("8.6", "10.16")}


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """A verb in a process of its own: a library that is loaded stays."""
    return subprocess.run([sys.executable, "-m", *map(str, words)], capture_output=True, text=True, check=False)


def build(library: Path, *words: object) -> subprocess.CompletedProcess[str]:
    options = ("--flavor", "rtx", "--plugins", "lenet5", "--plugin-route", "library", "--sm", "8.6")
    return run("lenet_trt.build", *options, "--library", library, *words)


@pytest.fixture(scope="module")
def engine(libraries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engine") / "m.engine"
    done = build(libraries["10.16"], "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def test_the_sidecar_and_the_next_commands_name_the_library(engine: Path, libraries: dict[str, Path]) -> None:
    library = libraries["10.16"]
    sidecar = read_sidecar(engine.with_suffix(".json"))
    assert [entry["route"] for entry in sidecar.plugins] == ["library"]
    assert sidecar.library is not None
    assert sidecar.library.name == library.name
    assert sidecar.library.size_bytes == library.stat().st_size
    first, second = next_commands(engine, sidecar, library)
    assert first == f"lenet-trt run {engine} --library {library}"
    assert f"--loadEngine={engine} --dynamicPlugins={library}" in second
    assert f"library    {library.name}" in run("lenet_trt.inspect", engine).stdout


@pytest.mark.parametrize(
    ("version", "option"), [("8.5.3", "--plugins"), ("8.6.0", "--staticPlugins"), ("11.1.0", "--staticPlugins")]
)
def test_trtexec_is_given_the_library_as_its_release_wants_it(engine: Path, version: str, option: str) -> None:
    data = json.loads(engine.with_suffix(".json").read_text())
    data["inputs"] |= {"flavor": "tensorrt", "flavor_version": version}
    path = engine.with_name("other.json")
    path.write_text(json.dumps(data))
    command = next_commands(engine, read_sidecar(path), Path("lib.so"))[1]
    assert f"trtexec --loadEngine={engine} {option}=./lib.so" in command


def test_only_the_very_library_of_the_build_is_found_by_itself(
    engine: Path, libraries: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sidecar = read_sidecar(engine.with_suffix(".json"))
    library = libraries["10.16"]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LenetTrtError, match="it is neither beside the engine nor here: give it with --library"):
        library_for_engine(engine, sidecar, None)
    shutil.copy(libraries["8.6"], tmp_path / library.name)
    with pytest.raises(LenetTrtError, match="is another one"):
        library_for_engine(engine, sidecar, None)
    shutil.copy(library, tmp_path / library.name)
    assert library_for_engine(engine, sidecar, None) == Path(library.name)
    assert library_for_engine(engine, sidecar, libraries["8.6"]) == libraries["8.6"]
    with pytest.raises(LenetTrtError, match=r"make it with lenet-trt library -o none\.so"):
        library_for_engine(engine, sidecar, Path("none.so"))


def test_an_engine_without_its_library_does_not_run_and_says_why(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(vouch, "first_gpu", lambda: Gpu(0, "a GPU", 86, 8 << 30))
    reason = vouch.engine_obstacle(engine, read_sidecar(engine.with_suffix(".json")), select("rtx"))
    assert reason is not None
    assert "needs the plugin library liblenet_trt_plugins-10.16.so" in reason


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (None, "liblenet_trt_plugins-10.16.so that it was built with, and it is neither beside the engine"),
        ("8.6", "is a plugin library for TensorRT 8.6, and tensorrt_rtx 1.7.1 is used: make one from its headers"),
    ],
)
def test_trtexec_is_not_started_on_an_engine_without_the_right_library(
    engine: Path, libraries: dict[str, Path], tmp_path: Path, version: str | None, why: str
) -> None:
    program = tmp_path / "tensorrt_rtx"
    options = "--loadEngine --iterations --duration --exportProfile --exportLayerInfo --exportTimes --staticPlugins"
    started = tmp_path / "started"
    program.write_text(
        f"#!/bin/sh\ncase $1 in --help) echo '[TensorRT-RTX v1.7.1] {options}' ;; *) touch {started}; exit 1 ;; esac\n"
    )
    program.chmod(0o755)
    given = [] if version is None else ["--library", libraries[version]]
    command = [engine, "--trtexec", "--trtexec-path", program, *given, "-o", tmp_path / "out.timeline.json"]
    done = run("lenet_trt.profile", *command)
    assert done.returncode == 1
    assert why in done.stderr
    assert not started.exists()


def test_a_library_for_an_engine_that_needs_none_is_refused(engine: Path, libraries: dict[str, Path]) -> None:
    fields = vars(read_sidecar(engine.with_suffix(".json"))) | {"library": None, "plugins": []}
    with pytest.raises(LenetTrtError, match="needs no plugin library"):
        library_for_engine(engine, Sidecar(**fields), libraries["10.16"])


def test_a_build_without_a_library_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        LenetTrtError, match=r"liblenet_trt_plugins.so is not there: make it with lenet-trt library, or"
    ):
        library_for_build(None)


def test_a_library_of_another_major_is_refused_before_it_runs(libraries: dict[str, Path], tmp_path: Path) -> None:
    done = build(libraries["8.6"], "-o", tmp_path / "m.engine")
    assert done.returncode == 1
    assert "is a plugin library for TensorRT 8.6, and TensorRT-RTX" in done.stderr
    assert not list(tmp_path.iterdir())


def test_two_libraries_in_one_process_are_refused(libraries: dict[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    other.write_bytes(libraries["10.16"].read_bytes() + b"\0")
    program = (
        "import sys; from pathlib import Path; from lenet_trt.tensorrt.flavors import select\n"
        "from lenet_trt.tensorrt.routes.library import load_library\n"
        "for path in sys.argv[1:]: load_library(select('rtx'), Path(path)); print('loaded')\n"
    )
    paths = (libraries["10.16"], libraries["10.16"], other)
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, paths)], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["loaded"] * 2
    assert f"{other} is another plugin library" in done.stderr


@pytest.mark.parametrize(
    ("flavor", "version", "taken"),
    [
        ("tensorrt", "8.5.3", {"8.6"}),
        ("tensorrt", "8.6.1", {"8.6"}),
        ("tensorrt", "9.3.0", set()),
        ("tensorrt", "10.0.1", {"10.16"}),
        ("tensorrt", "11.4.0", set()),
        ("rtx", "1.7.1", {"10.16"}),
    ],
)
def test_a_library_goes_with_its_major_alone(libraries: dict[str, Path], flavor: str, version: str, taken: set) -> None:
    for made_for, path in libraries.items():
        if made_for in taken:
            assert library_content(path, flavor, version, "it") == path.read_bytes()
            continue
        with pytest.raises(LenetTrtError, match=f"is a plugin library for TensorRT {made_for}, and it is used: make"):
            library_content(path, flavor, version, "it")


@pytest.mark.parametrize("content", [b"", b"\x7fELF and nothing else", b"\0getCreators\0"])
def test_a_file_that_is_no_plugin_library_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "some.so"
    path.write_bytes(content)
    with pytest.raises(LenetTrtError, match="is no plugin library"):
        load_library(select("rtx"), path)


@pytest.mark.parametrize(
    "share", [pytest.param(0.7, marks=pytest.mark.slow), 0.95, pytest.param(None, marks=pytest.mark.slow)]
)
def test_a_library_that_was_cut_is_refused_before_it_is_opened(
    libraries: dict[str, Path], tmp_path: Path, share: float | None
) -> None:
    """To open what is left of it would end the process."""
    whole = libraries["10.16"].read_bytes()
    path = tmp_path / "cut.so"
    path.write_bytes(whole[: -1 if share is None else int(share * len(whole))])
    with pytest.raises(LenetTrtError, match=rf"bytes instead of {len(whole)}: it was cut; copy it again"):
        load_library(select("rtx"), path)
    for command in (["lenet_trt.build", "--flavor", "rtx", "--plugins", "lenet5", "--plugin-route", "library"],):
        done = run(*command, "--sm", "8.6", "--library", path, "-o", tmp_path / "m.engine")
        assert (done.returncode, done.stdout) == (1, "")
        assert "it was cut" in done.stderr


@pytest.mark.parametrize("old", ["ahead-of-time", "plugin_v3", ""])
def test_a_route_of_an_older_sidecar_is_refused(old: str) -> None:
    with pytest.raises(LenetTrtError, match="build the engine again"):
        recorded_route(old)


@pytest.mark.parametrize(
    ("flavor", "version", "taken"),
    [
        ("tensorrt", "8.5.3", ["library"]),
        ("tensorrt", "8.6.0", ["library"]),
        ("tensorrt", "10.0.1", ["library"]),
        ("tensorrt", "10.8.0", ["python", "library"]),
        ("tensorrt", "10.9.0", ["ptx", "python", "library"]),
        ("tensorrt", "11.4.0", ["ptx", "python", "library"]),
        ("rtx", "1.7.1.116", ["python", "library"]),
    ],
)
def test_each_release_takes_the_routes_that_it_can(flavor: str, version: str, taken: list[str]) -> None:
    found = Flavor(flavor, select("rtx").trt, version, "test")
    assert [name for name, route in ROUTES.items() if route.obstacle(found) is None] == taken
