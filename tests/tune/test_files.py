"""The file in which choices are kept: whole or absent, shared by processes, and of no account where it is not meant."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from lenet_trt import __version__
from lenet_trt.bench.sources import Sources
from lenet_trt.bench.tuned_figures import tuned_apart_figure, tuned_figure
from lenet_trt.child import child_environment
from lenet_trt.cli import main
from lenet_trt.cuda.gpus import gpus
from lenet_trt.cuda.machine import Machine, tuning_folder
from lenet_trt.cuda.tuned import choices_for
from lenet_trt.cuda.tuning_file import FORMAT, TimedCall, Times, Tuning, declaration_sha256, read_tuning, write_tuning
from lenet_trt.cuda.tuning_record import read_tuning_record, tuning_record_of, write_tuning_record
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import registry
from lenet_trt.kernel.choice import TunedChoice
from lenet_trt.kernel.dims import AxisValue
from lenet_trt.tensorrt.library.embed import tuned_gpus
from lenet_trt.tensorrt.library.tuned_data import tuned_names
from lenet_trt.tune.stage import merged
from lenet_trt.tune.tables import calls_table, summary_table

H200 = Machine("NVIDIA H200", 90, 132, "580.95.05")
LENET5 = registry.kernel("lenet5")
CHOICE = TunedChoice("fp32", {}, {}, "n", 33, 66, "portable")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("LENET_TRT_CACHE", str(tmp_path / "cache"))
    choices_for.cache_clear()
    return tmp_path / "cache"


def tuning(kernel: str = "lenet5", machine: Machine = H200, choices: tuple[TunedChoice, ...] = (CHOICE,)) -> Tuning:
    declared = registry.kernel(kernel)
    calls = tuple(
        TimedCall(
            choice.types,
            choice.attributes,
            {**choice.axes, choice.free: choice.most},
            "cluster2",
            choice.variant,
            {"cluster2": Times(8.0, 7.9, 8.1), choice.variant: Times(5.0, 4.9, 5.1)},
        )
        for choice in choices
    )
    return Tuning(
        FORMAT, __version__, machine, kernel, declaration_sha256(declared), "2026-01-01 00:00 UTC", choices, calls
    )


def test_what_is_kept_is_read_again_and_decides() -> None:
    path = write_tuning(tuning())
    assert read_tuning(path, LENET5, H200) == tuning()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choices_for(LENET5, H200) == (CHOICE,)
        assert choices_for(LENET5, replace(H200, driver="581.1")) == (), "another driver has its own file"
        assert choices_for(LENET5, replace(H200, gpu="NVIDIA H100 80GB HBM3")) == ()
        assert choices_for(registry.kernel("softmax"), H200) == ()
        assert choices_for(LENET5, None) == ()
    bound = LENET5.bind_axes({"n": 40}, LENET5.types_named("fp32"))
    assert bound.variant(90, {"multiprocessors": 132}).name == "cluster2"
    assert bound.variant(90, {"multiprocessors": 132}, choices_for(LENET5, H200)).name == "portable"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def noise(path: Path) -> None:
    path.write_bytes(b"\x00\xff" * 50)


def changed(**fields: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return change


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (cut, "is not JSON"),
        (noise, "is not JSON"),
        (changed(choices="many"), "is not the choices of lenet-trt tune"),
        (changed(choices=[{"types": "fp32"}]), "is not the choices of lenet-trt tune"),
        (changed(format=FORMAT + 1), f"has format {FORMAT + 1}, and {FORMAT} is wanted"),
        (changed(kernel="softmax"), "is for the kernel softmax, not lenet5"),
        (changed(lenet_trt="0.0.1"), "and lenet-trt 0.0.1; here is NVIDIA H200"),
        (
            changed(machine={"gpu": "NVIDIA A30", "sm": 80, "multiprocessors": 56, "driver": "580.95.05"}),
            "is for NVIDIA A30 (sm_80, 56 multiprocessors, driver 580.95.05)",
        ),
        (changed(declaration="0" * 64), "is for another version of the kernel lenet5"),
    ],
)
def test_a_file_that_is_damaged_or_foreign_counts_for_nothing_and_is_told_of(
    damage: Callable[[Path], None], why: str
) -> None:
    damage(write_tuning(tuning()))
    with pytest.warns(RuntimeWarning) as told:
        assert choices_for(LENET5, H200) == ()
    (message,) = [str(each.message) for each in told]
    assert why in message
    assert "`lenet-trt tune lenet5` measures again" in message
    assert message.endswith("The declared choices of lenet5 hold until then")


def test_another_declaration_has_another_hash() -> None:
    other = replace(LENET5, variants=(replace(LENET5.variants[0], prefer=AxisValue("n") <= 3), *LENET5.variants[1:]))
    assert declaration_sha256(other) != declaration_sha256(LENET5)
    assert declaration_sha256(replace(LENET5)) == declaration_sha256(LENET5)


WRITER = """
import sys
from lenet_trt.cuda.machine import Machine
from lenet_trt.cuda.tuning_file import FORMAT, Tuning, write_tuning
from lenet_trt.kernel.choice import TunedChoice
name, count = sys.argv[1], int(sys.argv[2])
choices = tuple(TunedChoice("fp32", {}, {}, "n", i, i, name) for i in range(count))
tuning = Tuning(FORMAT, "0", Machine("NVIDIA H200", 90, 132, "580.95.05"), "lenet5", "0", name, choices, ())
print("ready", flush=True)
for _ in range(40):
    write_tuning(tuning)
"""


def test_two_processes_write_whole_files() -> None:
    """A reader sees what one of them wrote, from beginning to end."""
    path = write_tuning(tuning())
    path.unlink()
    lengths = {"portable": 700, "cluster2": 30}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, name, str(count)],
            stdout=subprocess.PIPE,
            env=child_environment(),
        )
        for name, count in lengths.items()
    ]
    seen = set()
    while any(writer.poll() is None for writer in writers) or not path.is_file():
        if path.is_file():
            found = read_tuning(path)
            assert {choice.variant for choice in found.choices} == {found.date}
            assert len(found.choices) == lengths[found.date]
            seen.add(found.date)
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen <= set(lengths)
    assert seen
    assert [each.name for each in path.parent.iterdir()] == ["lenet5.json"], "nothing is left beside it"


def test_what_an_earlier_run_found_of_other_examples_stays() -> None:
    one = TunedChoice("fp32", {}, {"k": 64}, "rows", 1, 8, "row128")
    same, other = replace(one, least=2), replace(one, axes={"k": 128})
    old, new = tuning("softmax", choices=(one, other)), tuning("softmax", choices=(same,))
    assert merged(old, new, "rows").choices == (same, other)
    assert len(merged(old, new, "rows").calls) == 2


def test_a_record_is_written_read_and_told(tmp_path: Path) -> None:
    record = tuning_record_of("lenet-trt tune", [tuning()], 9, 3, 1.25, ["softmax: no"])
    write_tuning_record(tmp_path / "record.json", record)
    found = read_tuning_record(tmp_path / "record.json")
    assert (found.tunings, found.ladders, found.timed, found.problems) == ((tuning(),), 9, 3, ("softmax: no",))
    assert summary_table(found.tunings)[-1] == "| lenet5 | 1 | 1 | 1.60x | 1.60x | 1.600x |"
    assert calls_table(found.tunings)[-1] == "| lenet5 | fp32 | n=66 | cluster2 | 8.0 | portable | 5.0 | 1.60x |"
    assert calls_table(found.tunings, 0)[-1] == "and 1 more"


def test_embedding_takes_what_was_measured_on_gpus_of_its_targets() -> None:
    orin = Machine("Orin", 87, 16, "540.4.0")
    tunings = [tuning(), tuning(machine=orin), tuning("softmax")]
    assert [gpu.name for gpu in tuned_gpus(LENET5, ["sm_87", "sm_90"], tunings)] == ["NVIDIA H200", "Orin"]
    assert [gpu.name for gpu in tuned_gpus(LENET5, ["sm_87"], tunings)] == ["Orin"]
    assert tuned_gpus(LENET5, ["sm_120"], tunings) == []
    with pytest.raises(LenetTrtError, match=r"the record of Orin .* is for another version of the kernel lenet5"):
        tuned_gpus(LENET5, ["sm_87"], [replace(tuning(machine=orin), declaration="0")])


def test_fuse_embeds_the_choices_of_another_gpu(
    lenet5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, out = tmp_path / "orin.json", tmp_path / "out.onnx"
    write_tuning_record(
        record, tuning_record_of("", [tuning(machine=Machine("Orin", 87, 16, "540.4.0"))], 1, 1, 1.0, [])
    )
    command = ["fuse", str(lenet5), "--plugins", "lenet5", "--embed", "--sm", "8.7", "-o", str(out)]

    def data() -> bytes:
        (node,) = onnx.load(out.with_suffix(".trt.onnx")).graph.node
        return bytes(node.attribute[-1].t.raw_data)

    assert main(command) == 0
    assert b"Orin" not in data()
    assert tuned_names(data()) == []
    assert "tuned" not in capsys.readouterr().out
    assert main([*command, "--tuned", str(record)]) == 0
    assert tuned_names(data()) == ["Orin"]
    assert "lenet5 has choices that were tuned on Orin" in capsys.readouterr().out
    assert main([*command, "--tuned", str(record), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tuned"] == {"lenet5": ["Orin"]}
    assert main(["fuse", str(lenet5), "--tuned", str(record)]) == 2
    assert "--tuned gives choices to embedded kernels: add --embed" in capsys.readouterr().err


@pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU here")
def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["lenet5", "--seconds", "1"]):
        assert main(["tune", *options]) == 1
        assert "a choice is for the GPU here, and there is none" in capsys.readouterr().err


@pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU here")
def test_without_a_gpu_it_lists_what_is_kept_for_every_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--list"]) == 0
    assert capsys.readouterr().out == "nothing is kept: the declared choices hold\n"
    a30 = Machine("NVIDIA A30", 80, 56, "580.95.05")
    for found in (tuning(), tuning("softmax", choices=()), tuning(machine=a30)):
        write_tuning(found)
    damaged = tuning("topk", a30)
    cut(write_tuning(damaged))
    assert main(["tune", "--list"]) == 1
    said = capsys.readouterr()
    first, second = said.out.split("\n\nNVIDIA H200")
    assert first.startswith(f"{a30}, lenet-trt {__version__}:\n")
    assert "| lenet5 | fp32 | n=66 | cluster2 | 8.0 | portable | 5.0 | 1.60x |" in first
    assert "softmax" not in first
    assert "| softmax | 0 | 0 | - | - | - |" in second
    assert "there is no GPU here (" in said.err
    assert "does not count: " in said.err
    assert "is not JSON" in said.err
    assert main(["tune", "softmax", "--list"]) == 0
    assert "A30" not in capsys.readouterr().out


def test_forgetting_deletes_what_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [write_tuning(tuning()), write_tuning(tuning("softmax"))]
    assert main(["tune", "lenet5", "--forget"]) == 0
    assert capsys.readouterr().out.splitlines() == [str(paths[0])]
    assert [path.exists() for path in paths] == [False, True]
    assert main(["tune", "--forget"]) == 0
    assert list(tuning_folder().glob("*/*.json")) == []
    assert main(["tune", "--forget"]) == 0
    assert main(["tune", "--forget", "--list"]) == 2
    assert main(["tune", "no_such_kernel", "--forget"]) == 2


def test_a_document_has_the_table_of_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LENET_TRT_COMMIT", "0123456789abcdef")
    sources = Sources(tmp_path, tmp_path / "page.md")
    assert tuned_figure(sources, "tune/h200") == "not measured"
    write_tuning_record(tmp_path / "tune" / "h200.json", tuning_record_of("lenet-trt tune", [tuning()], 9, 3, 2.0, []))
    head, _, *rows = tuned_figure(sources, "tune/h200").splitlines()
    assert head == f"{H200}; 3 of 9 ladders in 2 s; `lenet-trt tune`, commit `0123456789ab`."
    assert rows[-1] == "| lenet5 | fp32 | n=66 | cluster2 | 8.0 | portable | 5.0 | 1.60x |"


def test_two_gpus_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def timed(machine: Machine, portable: float, most: float) -> Tuning:
        times = {"cluster2": Times(8.0, 7.9, 8.1), "portable": Times(portable, portable, most)}
        # What was tuned is of no account: the times are compared.
        call = TimedCall("fp32", {}, {"n": 64}, "cluster2", "cluster2", times)
        return replace(tuning(machine=machine), calls=(call,))

    paths = [tmp_path / f"{name}.json" for name in ("h200", "h100", "noisy")]
    h100 = replace(H200, gpu="NVIDIA H100 PCIe", multiprocessors=114)
    for path, found in zip(paths, (timed(H200, 5.0, 5.0), timed(h100, 10.0, 10.0), timed(H200, 7.0, 8.0)), strict=True):
        write_tuning_record(path, tuning_record_of("", [found], 1, 1, 1.0, []))
    assert main(["tune", "--compare", *map(str, paths[:2])]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == (
        "1 of 1 calls want another variant on NVIDIA H100 PCIe than on NVIDIA H200; times are of NVIDIA H100 PCIe."
    )
    assert last == "| lenet5 | fp32 | n=64 | portable | 10.0 | cluster2 | 8.0 | 1.25x |"
    for first, second in ((paths[0], paths[0]), (paths[2], paths[1]), (paths[1], paths[2])):
        assert main(["tune", "--compare", str(first), str(second)]) == 0
        assert capsys.readouterr().out.startswith("0 of 1 calls want another variant")
    sources = Sources(tmp_path, tmp_path / "page.md")
    assert tuned_apart_figure(sources, "h200", "h100").splitlines()[-1] == last
    assert tuned_apart_figure(sources, "h200", "a30") == "not measured"
