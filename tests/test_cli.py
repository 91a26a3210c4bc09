"""The command line itself: every verb is documented, thin and quick to start."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lenet_trt.cli import VERBS, main, parser_for

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_says_what_it_does(verb: str) -> None:
    undocumented = list(undocumented_options(parser_for(verb)))
    assert not undocumented


def undocumented_options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from undocumented_options(below)
        elif not action.help:
            yield f"{parser.prog} {action.dest}"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_readme(verb: str) -> None:
    assert f"lenet-trt {verb}" in README.read_text() or f"python -m lenet_trt.{verb}" in README.read_text()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_a_module_too(verb: str) -> None:
    module = importlib.import_module(f"lenet_trt.{verb}")
    source = Path(module.__file__ or "")
    if source.name == "__init__.py":
        source = source.with_name("__main__.py")
    assert f'main(["{verb}", *sys.argv[1:]])' in source.read_text()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_prints_for_programs(verb: str) -> None:
    parser = parser_for(verb)
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for each in [*below[0].choices.values()] if below else [parser]:
        assert "--json" in each.format_help()


def test_the_package_is_the_command_line() -> None:
    answers = [
        subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, check=False)
        for module in ("lenet_trt", "lenet_trt.cli")
        for words in (["--version"], ["inspect", "none.onnx"])
    ]
    assert [each.returncode for each in answers] == [0, 1] * 2
    assert [(each.stdout, each.stderr) for each in answers[:2]] == [(each.stdout, each.stderr) for each in answers[2:]]


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(verb in said for verb in VERBS)
    assert main(["--version"]) == 0


def test_the_help_of_build_names_its_targets_and_every_choice_of_plugins() -> None:
    text = " ".join(parser_for("build").format_help().split())
    assert "for TensorRT-RTX 8.0, 8.6, 8.9, 12.0, 12.1, for full TensorRT the GPU here" in text
    assert "Ampere" not in text  # later than Ampere is also 9.0, for which TensorRT-RTX does not build
    assert [text.count(f"{which} shape of each dynamic input") for which in ("smallest", "usual", "largest")] == [1] * 3
    for verb in ("build", "fuse"):
        assert "all (at every size" in " ".join(parser_for(verb).format_help().split())


def test_a_warning_is_one_line_without_the_program(lenet5: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    # The kernel that compiles fastest.
    words = ["fuse", str(lenet5), "--plugins", "maxpool2", "--embed", "--sm", "8.6", "-o", str(tmp_path / "fused.onnx")]
    environment = os.environ | {"LENET_TRT_CACHE": str(tmp_path / "file")}
    answer = subprocess.run(
        [sys.executable, "-m", "lenet_trt.cli", *words], capture_output=True, text=True, check=True, env=environment
    )
    (line,) = answer.stderr.splitlines()
    assert line.startswith("warning: compiled kernels are not kept: ")
    assert "LENET_TRT_CACHE" in line


@pytest.mark.parametrize("verb", VERBS)
def test_help_tells_defaults_in_words(verb: str) -> None:
    said = " ".join(parser_for(verb).format_help().split())
    assert "default: )" not in said
    assert "None" not in said


def command_line(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "lenet_trt.cli", *arguments]
    return subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False, **settings)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["doctor"], ["plugins", "--json"]])
def test_a_full_disk_under_the_output_is_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        answer = command_line(*arguments, stdout=full)
    assert answer.returncode == 1
    assert answer.stderr == f"lenet-trt {arguments[0]}: error: No space left on device\n"


def test_a_reader_that_goes_is_no_error(lenet5: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        answer = command_line("inspect", str(lenet5), stdout=writing)
    finally:
        os.close(writing)
    assert (answer.returncode, answer.stderr) == (1, "")


def test_names_that_the_terminal_cannot_show_are_escaped(tmp_path: Path, lenet5: Path) -> None:
    shutil.copy(lenet5, tmp_path / "netz\u00e9.onnx")
    ascii_alone = {**os.environ, "PYTHONIOENCODING": "ascii"}
    answer = command_line("inspect", "netz\u00e9.onnx", stdout=subprocess.PIPE, cwd=tmp_path, env=ascii_alone)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "netz\\xe9.onnx" in answer.stdout


def test_importing_the_package_is_light() -> None:
    program = "import sys, lenet_trt, lenet_trt.cli; print(sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    for heavy in ("torch", "tensorrt", "tensorrt_rtx", "onnx", "onnxruntime", "numpy"):
        assert f"'{heavy}'" not in loaded


def test_running_a_network_does_not_wait_for_what_only_conversions_need() -> None:
    program = "import sys, lenet_trt.inspect, lenet_trt.runtimes.ort; print({'torch', 'sympy'} & {*sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded == "set()\n"


@pytest.mark.parametrize(
    "arguments", [["inspect", "m.onnx", "--svg", "--json"], ["report", "t.json", "--markdown", "--json"]]
)
def test_two_forms_of_output_exclude_each_other(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


def test_doctor_tells_what_can_run_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "TensorRT-RTX" in said
    assert main(["doctor", "--json"]) == 0
    findings = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["build engines"]["ok"]
    assert all(finding["ok"] or finding["fix"] for finding in findings.values())


def test_inspect_reads_an_onnx_file(lenet5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(lenet5), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"] == 44426
    assert found["operators"]["Gemm"] == 3
    assert found["tensors"]["logits"]["shape"] == ["n", 10]


@pytest.mark.parametrize("name", ["folder", "fifo", "folder.onnx", "fifo.onnx"])
def test_every_verb_says_alike_what_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if name.startswith("folder"):
        Path(name).mkdir()
    else:
        os.mkfifo(name)  # opening it would wait for ever
    seen = "a folder" if name.startswith("folder") else "a device or a FIFO"
    for words in (
        ["build", name],
        ["fuse", name],
        ["quantize", name, "--int8", "--data", "."],
        ["optimize", name],
        ["roofline", name],
        ["inspect", name],
        ["run", name],
        ["profile", name],
        ["deploy", "triton", name, "-o", "served"],
    ):
        if words[0] == "deploy" and name.endswith(".onnx"):
            words.append("--backend=python")
        assert main(words) == 1, words
        assert f"error: {name} is {seen}; wanted an ONNX file" in capsys.readouterr().err, words
