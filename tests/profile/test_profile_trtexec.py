"""trtexec in the words of its versions: a script in its place refuses every flag that the version does not have."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from lenet_trt.build.evaluate import Evaluation
from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.profile import trtexec
from lenet_trt.profile.trtexec import Run, Trtexec
from lenet_trt.tensorrt.sidecar import FileRecord, Sidecar, sidecar_path
from lenet_trt.trace.timeline import load_timeline
from trtexec_files import CASK_10, profile, times

SCRIPTS = Path(__file__).parents[2] / "scripts"
COMMON = (
    "loadEngine",
    "shapes",
    "iterations",
    "warmUp",
    "duration",
    "profilingVerbosity",
    "dumpProfile",
    "dumpLayerInfo",
)
EXPORTS = ("exportProfile", "exportLayerInfo", "exportTimes")
OLD = ("noDataTransfers", "useSpinWait", "useCudaGraph", "separateProfileRun", "fp16", "int8", "best")
NEW = ("includeDataTransfers", "noSpinWait", "noCudaGraph")
ONCE_ASKED_FOR = {"noDataTransfers", "useSpinWait", "useCudaGraph", "separateProfileRun"}
# Version as the banner has it -> (its options, which of them a run must be given).
VERSIONS = {
    "TensorRT.trtexec [TensorRT v8601]": (
        OLD,
        ONCE_ASKED_FOR,
    ),
    "TensorRT.trtexec [TensorRT v101303] [b9]": (OLD, ONCE_ASKED_FOR),
    "TensorRT.trtexec [TensorRT v110400] [b106]": (NEW, set()),
}
_FAKE = """#!/usr/bin/env bash
# Behaves as the trtexec of one version does towards its flags, and leaves exports that were written before.
echo "&&&& RUNNING BANNER # $0 $*"
known="OPTIONS"
if [ "$1" = --help ]; then
    for option in $known; do echo "  --$option   what it does"; done
    exit 0
fi
for argument in "$@"; do
    option=${argument%%=*}
    value=${argument#*=}
    case " $known " in
        *" ${option#--} "*) ;;
        *) echo "[01/01/2026-00:00:00] [E] Unknown option: $argument"; exit 1 ;;
    esac
    printf '%s\\n' "$argument" >> "$0.flags"
    case $option in
        --exportProfile) cp "$0.profile" "$value" ;;
        --exportLayerInfo) cp "$0.layers" "$value" ;;
        --exportTimes) cp "$0.times" "$value" ;;
    esac
done
ENDING
"""
INFERENCES = [{"start": 1.0 + at, "h2d": 0.0, "compute": 0.5, "d2h": 0.0, "enqueue": 0.1} for at in range(4)]

Fake = Callable[..., Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def make(
        banner: str, options: tuple[str, ...], ending: str = "exit 0", name: str = "trtexec", exports: bool = True
    ) -> Path:
        path = folder / name
        known = " ".join((*COMMON, *EXPORTS, *options))
        path.write_text(_FAKE.replace("BANNER", banner).replace("OPTIONS", known).replace("ENDING", ending))
        path.chmod(0o755)
        if exports:
            layers = [("conv1 + relu1", 0.2), ("__myl_MaxPoolMulAdd_myl2_3", 0.1)]
            Path(f"{path}.profile").write_text(profile(layers))
            Path(f"{path}.layers").write_text(CASK_10)
            Path(f"{path}.times").write_text(times(INFERENCES))
        return path

    return make


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    path = tmp_path / "net.engine"
    path.write_bytes(b"an engine")
    return path


def vouch(engine: Path, flavor: str = "tensorrt", plugins: list[dict[str, str]] | None = None) -> None:
    inputs = {"flavor": flavor, "flavor_version": "10.9.0", "targets": [], "gpu": None, "precision": None}
    inputs["options"] = {"tf32": False}
    record = FileRecord.of(engine.name, engine.read_bytes())
    rows = [{"node": "n", "types": None, "replaced": [], "source_sha256": "0", **row} for row in plugins or []]
    sidecar = Sidecar(record, record, inputs, "here", rows, {}, asdict(Evaluation(problem="not asked for")), {})
    sidecar_path(engine).write_text(sidecar.to_json())


def flags_given(path: Path) -> dict[str, str]:
    lines = Path(f"{path}.flags").read_text().splitlines()
    return dict(line.removeprefix("--").partition("=")[::2] for line in lines)


def run_of(engine: Path, folder: Path, **more: object) -> Run:
    values = {"shapes": {"x": (32, 1, 28, 28)}, "iterations": 7, "transfers": False, "trust": True, **more}
    return Run(engine, exports=folder, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("banner", VERSIONS)
@pytest.mark.parametrize("transfers", [False, True])
def test_each_version_gets_the_flags_that_make_it_measure_the_network_alone(
    banner: str, transfers: bool, fake: Fake, engine: Path, tmp_path: Path
) -> None:
    options, needed = VERSIONS[banner]
    path = fake(banner, options)
    tool = trtexec.find_trtexec()
    assert tool.path == str(path)
    timeline = trtexec.traced_engine(run_of(engine, tmp_path / "out", transfers=transfers), tool)
    given = flags_given(path)
    assert given["loadEngine"] == str(engine)
    assert (given["iterations"], given["duration"], given["shapes"]) == ("7", "0", "x:32x1x28x28")
    assert given["profilingVerbosity"] == "detailed"
    assert needed - {"noDataTransfers"} <= set(given)
    assert ("noDataTransfers" in given) == (not transfers and options is OLD)
    assert ("includeDataTransfers" in given) == (transfers and options is NEW)
    assert set(EXPORTS) <= set(given)
    assert [activity.node for activity in timeline.activities] == ["conv1 + relu1", "pool1 + /fc[1]/Gemm"]
    assert timeline.unprofiled_us == pytest.approx(500)
    assert timeline.source == str(tool)
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == ["layers.json", "profile.json", "times.json"]


@pytest.mark.parametrize(
    ("banner", "name", "version", "rtx"),
    [
        ("TensorRT.trtexec [TensorRT v8503]", "trtexec", (8, 5, 3), False),
        ("TensorRT.trtexec [TensorRT v8601]", "trtexec", (8, 6, 1), False),
        ("TensorRT.trtexec [TensorRT v100600] [b26]", "trtexec", (10, 6, 0), False),
        ("TensorRT.trtexec [TensorRT v110400] [b106]", "trtexec", (11, 4, 0), False),
        ("TensorRT_RTX.tensorrt_rtx [TensorRT-RTX v10701] [b116]", "tensorrt_rtx", (1, 7, 1), True),
        ("tensorrt_rtx [TensorRT-RTX v1.7.1]", "tensorrt_rtx", (1, 7, 1), True),
    ],
)
def test_versions(banner: str, name: str, version: tuple[int, int, int], rtx: bool, fake: Fake) -> None:
    path = fake(banner, NEW, name=name)
    found = trtexec.find_trtexec(str(path))
    assert (found.version, found.rtx) == (version, rtx)
    assert found.new_defaults == (rtx or version[0] >= 11)


def test_it_is_looked_for(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such program"):
        trtexec.find_trtexec(str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(trtexec, "_PLACES", ())
    with pytest.raises(LenetTrtError, match=r"neither trtexec nor tensorrt_rtx is on the PATH.*--trtexec-path"):
        trtexec.find_trtexec()


def test_a_program_that_is_no_trtexec(fake: Fake) -> None:
    path = fake("something else", OLD)
    with pytest.raises(LenetTrtError, match="does not say which TensorRT it is"):
        trtexec.find_trtexec()
    path.write_text("#!/bin/sh\necho 'trtexec: error while loading shared libraries: libnvinfer.so.10'; exit 127\n")
    with pytest.raises(LenetTrtError, match=r"exit 127; it says: trtexec: error while.*LD_LIBRARY_PATH"):
        trtexec.find_trtexec()
    path.write_text("#!/bin/sh\necho '[TensorRT v7203]'; echo '  --loadEngine --iterations --duration'\n")
    with pytest.raises(LenetTrtError, match=r"7\.2\.3 and has no --exportProfile.*wanted 8\.4"):
        trtexec.find_trtexec()


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ('echo "[E] Error[6]: engine of another version"; echo "&&&& FAILED"; exit 1', r"exit 1\): \[E\] Error\[6\]"),
        ("exit 139", "exit 139"),
        ("kill -ABRT $$", r"ended by SIGABRT\): .*RUNNING"),
    ],
)
def test_a_run_that_fails_tells_trtexecs_own_words(
    ending: str, said: str, fake: Fake, engine: Path, tmp_path: Path
) -> None:
    fake("TensorRT.trtexec [TensorRT v101303]", OLD, ending)
    with pytest.raises(LenetTrtError, match=said):
        trtexec.traced_engine(run_of(engine, tmp_path / "out"), trtexec.find_trtexec())


def test_a_run_that_a_signal_ends_is_done_once_more(fake: Fake, engine: Path, tmp_path: Path) -> None:
    ending = '[ -e "$0.again" ] && exit 0; touch "$0.again"; kill -ABRT $$'
    fake("TensorRT.trtexec [TensorRT v8600]", OLD, ending)
    timeline = trtexec.traced_engine(run_of(engine, tmp_path / "out"), trtexec.find_trtexec())
    assert timeline.iterations
    assert "a first run of trtexec 8.6.0 was ended by SIGABRT" in timeline.notes


def test_a_run_without_exports_is_a_failure_and_older_ones_do_not_stand_in(
    fake: Fake, engine: Path, tmp_path: Path
) -> None:
    fake("TensorRT.trtexec [TensorRT v101303]", OLD)
    trtexec.traced_engine(run_of(engine, tmp_path / "out"), trtexec.find_trtexec())
    fake("TensorRT.trtexec [TensorRT v101303]", OLD).with_name("trtexec.times").unlink()
    with pytest.raises(LenetTrtError, match=r"exit 0; it left no times.json"):
        trtexec.traced_engine(run_of(engine, tmp_path / "out"), trtexec.find_trtexec())


def test_an_engine_that_nobody_vouches_for_is_not_run(fake: Fake, engine: Path, tmp_path: Path) -> None:
    path = fake("TensorRT.trtexec [TensorRT v101303]", OLD)
    with pytest.raises(LenetTrtError, match="run only with --trust"):
        trtexec.traced_engine(run_of(engine, tmp_path / "out", trust=False), trtexec.find_trtexec())
    assert not Path(f"{path}.flags").exists()
    vouch(engine)
    trtexec.traced_engine(run_of(engine, tmp_path / "out", trust=False), trtexec.find_trtexec())
    assert Path(f"{path}.flags").exists()


def test_an_engine_for_another_program_is_not_run(fake: Fake, engine: Path, tmp_path: Path) -> None:
    fake("TensorRT.trtexec [TensorRT v101303]", OLD)
    vouch(engine, "rtx")
    with pytest.raises(LenetTrtError, match=r"was built by rtx, and .* is trtexec 10\.13\.3: give"):
        trtexec.traced_engine(run_of(engine, tmp_path / "out"), trtexec.find_trtexec())
    vouch(engine, plugins=[{"kernel": "lenet5", "route": "python"}])
    with pytest.raises(LenetTrtError, match=r"its plugins need Python \(lenet5\)"):
        trtexec.traced_engine(run_of(engine, tmp_path / "out"), trtexec.find_trtexec())


def test_the_verb(fake: Fake, engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake("TensorRT.trtexec [TensorRT v110400]", NEW)
    vouch(engine)
    output = tmp_path / "t" / "timeline.json"
    assert main(["profile", str(engine), "--trtexec", "--iterations", "7", "-o", str(tmp_path / "t")]) == 0
    printed = capsys.readouterr().out
    assert "net.engine on" in printed
    assert printed.splitlines()[-2:] == [str(output), str(tmp_path / "t" / "timeline")]
    timeline = load_timeline(output)
    assert timeline.source == "trtexec 11.4.0"
    assert timeline.model == "../net.engine"
    assert timeline.runtime == "tensorrt"
    assert (tmp_path / "t" / "timeline" / "profile.json").is_file()
    assert main(["profile", str(engine), "--trtexec", "-o", str(sidecar_path(engine))]) == 2
    assert "sidecar" in capsys.readouterr().err
    assert json.loads(sidecar_path(engine).read_text())["inputs"]["flavor"] == "tensorrt"


@pytest.mark.parametrize("banner", VERSIONS)
def test_the_shell_recipe_gives_the_same_flags(banner: str, fake: Fake, engine: Path, tmp_path: Path) -> None:
    options, needed = VERSIONS[banner]
    path = fake(banner, options)
    recipe = [str(SCRIPTS / "trtexec_profile.sh"), str(engine), str(tmp_path / "out"), "--iterations=3"]
    done = subprocess.run(recipe, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    given = flags_given(path)
    assert set(given) & {*OLD, *NEW} == needed
    assert given["iterations"] == "3"
    files = done.stdout.splitlines()[-3:]
    assert main(["profile", "--from", *files, "-o", str(tmp_path / "t.json")]) == 0
    assert load_timeline(tmp_path / "t.json").unprofiled_us == pytest.approx(500)


def test_a_tool_says_what_it_is() -> None:
    assert str(Trtexec("/x/tensorrt_rtx", True, (1, 7, 1), frozenset())) == "tensorrt_rtx 1.7.1"
