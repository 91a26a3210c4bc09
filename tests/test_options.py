"""Nonsense where an option takes a number or a file ends in one line that names the option, never in a traceback."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from lenet_trt.cli import main
from lenet_trt.errors import UsageError
from lenet_trt.options import LARGEST, batches_of, number, sizes_from_text, whole

HUGE = "99999999999999999999"
DIGITS = "9" * 5000  # more than Python's int() reads
NO_WHOLE_NUMBERS = ["", " ", "-1", "1.5", "nan", "inf", "1e3", "²", "٣", "1_000", HUGE, DIGITS]
NO_SHARES = ["", "nan", "inf", "-inf", "-1", "²", "1_0", "x"]
# Each takes a whole number; "-o" is never reached.
WHOLE = [
    ["build", "--batch"],
    ["build", "--workspace"],
    ["build", "--optimization-level"],
    ["run", "m.onnx", "--batch"],
    ["profile", "m.onnx", "--batch"],
    ["profile", "m.onnx", "--iterations"],
    ["profile", "m.onnx", "--warmup"],
    ["optimize", "m.onnx", "--batch"],
    ["bench", "10k", "--batch"],
    ["train", "--epochs"],
    ["train", "--seed"],
    ["export", "conv", "--batch"],
    ["export", "conv", "--filters"],
    ["export", "conv", "--kernel"],
    ["export", "conv", "--seed"],
    ["export", "matmul", "--dims"],
]
SHARES = [["build", "--max-drop"], ["optimize", "m.onnx", "--max-drop"], ["optimize", "m.onnx", "--tolerance"]]


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The last line that a refused call prints, after checking that its status is that of bad usage."""
    try:
        status = main(arguments)
    except SystemExit as stop:
        status = int(stop.code or 0)
    said = capsys.readouterr()
    assert status == 2, said.err
    assert said.out == ""
    return said.err.splitlines()[-1]


@pytest.fixture
def model(tmp_path: Path, lenet5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LeNet-5 as m.onnx in the current folder."""
    (tmp_path / "m.onnx").write_bytes(lenet5.read_bytes())
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("arguments", WHOLE, ids=" ".join)
def test_what_is_no_whole_number_is_refused_by_name(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for text in NO_WHOLE_NUMBERS:
        assert arguments[-1] in refusal([*arguments[:-1], f"{arguments[-1]}={text}"], capsys), text[:30]


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("arguments", SHARES, ids=" ".join)
def test_what_is_no_share_is_refused_by_name(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for text in NO_SHARES:
        assert arguments[-1] in refusal([*arguments[:-1], f"{arguments[-1]}={text}"], capsys), text


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("text", ["1:2:" + HUGE, "0:1:2", "2:1:3", "1:2", "²:²:²", "1::3", ":", "1:2:3:4", "-1:1:1"])
def test_what_is_no_range_of_batches_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--batch" in refusal(["build", f"--batch={text}"], capsys)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("option", ["--minShapes", "--optShapes", "--maxShapes"])
@pytest.mark.parametrize("shape", ["images:0x1x28x28", "images:²x1x28x28", "images:1x1x28x" + HUGE, "images:", ""])
def test_what_is_no_shape_is_refused_by_name(option: str, shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = dict.fromkeys(["--minShapes", "--optShapes", "--maxShapes"], "images:1x1x28x28") | {option: shape}
    assert option in refusal(["build", *(f"{name}={text}" for name, text in shapes.items())], capsys)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("shape", ["images:0x1x28x28", "images:²x1x28x28", "images:1x1x28x" + HUGE, ""])
def test_profile_refuses_what_is_no_shape(shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--shapes" in refusal(["profile", "m.onnx", f"--shapes={shape}"], capsys)


def test_a_number_is_read_as_it_is_written() -> None:
    assert whole()("7") == 7
    assert whole(0)("0") == 0
    assert whole()(str(LARGEST)) == LARGEST
    assert number(0)("1e-5") == 1e-5
    assert number(0, 100)("100") == 100
    with pytest.raises(argparse.ArgumentTypeError, match="from 0 to 100"):
        number(0, 100)("100.1")
    assert batches_of(["1,32", "32", "4"]) == (1, 32, 4)
    with pytest.raises(UsageError, match="--batch 0"):
        batches_of(["0"])


EMPTY_PATHS = [
    ["build", ""],
    ["build", "-o", ""],
    ["run", ""],
    ["run", "m.onnx", ""],
    ["run", "m.onnx", "--labels", ""],
    ["fuse", ""],
    ["fuse", "m.onnx", "-o", ""],
    ["inspect", ""],
    ["inspect", "m.onnx", "--svg", "-o", ""],
    ["profile", ""],
    ["roofline", ""],
    ["report", ""],
    ["optimize", ""],
    ["export", "lenet5", "-o", ""],
    ["export", "lenet5", "--weights", ""],
    ["train", "-o", ""],
    ["check", ""],
    ["plugins", ""],
]


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("arguments", EMPTY_PATHS, ids=" ".join)
def test_an_empty_name_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "is empty" in refusal(arguments, capsys)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("name", [".", "..", "/", "no/such.file"])
@pytest.mark.parametrize("verb", ["build", "run", "fuse", "inspect", "profile", "roofline", "report", "optimize"])
def test_a_folder_in_the_place_of_a_file_is_refused(verb: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, name]) in (1, 2)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith(f"lenet-trt {verb}: error: ")


@pytest.mark.parametrize("arguments", [["plugins"], ["doctor"], ["--help"]], ids=" ".join)
def test_a_closed_standard_output_is_one_line(arguments: list[str]) -> None:
    answer = _with_closed(">&-", arguments)
    assert answer.returncode == 1
    assert "standard output is closed" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_closed_standard_error_changes_no_output() -> None:
    answer = _with_closed("2>&-", ["plugins", "nothing"])
    assert (answer.returncode, answer.stdout) == (2, "")


def test_a_closed_standard_input_is_one_line(lenet5: Path) -> None:
    answer = _with_closed("<&-", ["run", str(lenet5), "-"])
    assert answer.returncode == 1
    assert "standard input is closed" in answer.stderr
    assert answer.stderr.count("\n") == 1


def _with_closed(redirection: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    program = f'exec "$@" {redirection}'
    words = ["sh", "-c", program, "sh", sys.executable, "-m", "lenet_trt.cli", *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)


def test_sizes_are_read_by_the_names_of_axes() -> None:
    assert sizes_from_text(None) == {}
    assert sizes_from_text("batch=8,sequence=128") == {"batch": 8, "sequence": 128}
    assert sizes_from_text(" n = 1 , n=1,") == {"n": 1}
    assert sizes_from_text(f"s77 + 1={LARGEST}") == {"s77 + 1": LARGEST}


@pytest.mark.parametrize("text", ["", ",", "n", "=3", "n=", "n=0", "n=-1", "n=1.5", "n=²", f"n={HUGE}", f"n={DIGITS}"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--sizes .*wanted NAME=N") as told:
        sizes_from_text(text)
    assert len(str(told.value)) < 300


def test_one_axis_has_one_size() -> None:
    with pytest.raises(UsageError, match="n has the sizes 3 and 4; wanted one size"):
        sizes_from_text("n=3,m=1,n=4")
