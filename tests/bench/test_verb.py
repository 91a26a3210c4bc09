"""``lenet-trt bench`` from end to end, with a suite that any machine measures, and with those that need a GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import bench_data
from documents import ROOT, commands, fenced
from lenet_trt.bench import __main__ as bench
from lenet_trt.bench.record import Record, as_json, load_record
from lenet_trt.bench.suite import Recording, SuiteOptions
from lenet_trt.cli import main
from lenet_trt.cuda.gpus import gpus

# So many that a suite is in the middle of them when it is interrupted.
BATCHES = [str(batch) for batch in range(1, 60)]


@pytest.fixture(autouse=True)
def _a_quick_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bench.SUITES, "sorting", ("bench_data", "sorting lists"))


def test_without_a_folder_the_table_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["bench", "sorting", "--quick"]) == 0
    said = capsys.readouterr().out
    assert "quantum sort  there is no quantum computer here" in said
    assert all(f"{n:>4}  sorted" in said for n in bench_data.SIZES)
    assert not list(tmp_path.iterdir())


def test_with_a_folder_record_csv_and_picture_are_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    assert main(["bench", "sorting", "--quick", "--batch", "10", "20", "30", "-o", str(folder)]) == 0
    written = [folder / f"sorting.{suffix}" for suffix in ("json", "csv", "svg")]
    assert sorted(folder.iterdir()) == sorted(written), "and nothing else"
    assert capsys.readouterr().out.splitlines()[-3:] == [str(path) for path in written]
    record = load_record(written[0])
    assert {row.case["n"] for row in record.rows} == {10, 20, 30}
    assert record.command == "lenet-trt bench sorting --quick --batch 10 20 30"
    assert record.environment["cpu"]
    assert not record.interrupted
    assert len(written[1].read_text().splitlines()) == len(record.rows) + 1
    assert ET.parse(written[2]).getroot().tag.endswith("svg")
    assert main(["bench", "sorting", "--quick", "--png", "-o", str(folder)]) == 0
    assert (folder / "sorting.png").read_bytes().startswith(b"\x89PNG")


def test_json_goes_to_standard_output_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["bench", "sorting", "--quick", "--json", "-o", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["suite"] == "sorting"
    assert str(tmp_path / "sorting.json") in said.err
    assert main(["bench", "sorting", "--quick", "--json", "--compare", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["rows"]
    assert "changed by more than the noise" in said.err


def test_changes_since_an_old_record(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    old = tmp_path / "old"
    assert main(["bench", "sorting", "--quick", "-o", str(old)]) == 0
    path = old / "sorting.json"
    data = json.loads(path.read_text())
    for row in data["rows"]:
        if row["backend"] == "max":  # as if it had been a thousand times slower
            row["stats"] = {
                k: v * 1000 if k.endswith("_us") and k != "samples_us" else v for k, v in row["stats"].items()
            }
    path.write_text(json.dumps(data))
    capsys.readouterr()
    for given in (path, old):
        assert main(["bench", "sorting", "--quick", "--compare", str(given)]) == 0
        said = capsys.readouterr().out
        assert said.count("x faster)") >= 2
        assert "max n=100: " in said
        assert "changed by more than the noise" in said


def test_a_record_of_another_machine_is_refused_but_the_measured_is_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "old.json"
    path.write_text(as_json(bench_data.record(suite="sorting")))
    assert main(["bench", "sorting", "--quick", "--compare", str(path), "-o", str(tmp_path / "new")]) == 2
    assert "times of two machines" in capsys.readouterr().err
    assert load_record(tmp_path / "new" / "sorting.json").rows


def test_an_interruption_keeps_what_was_measured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sizes = ["50", str(10**6 + 1), "60"]  # the suite is interrupted after the second
    assert main(["bench", "sorting", "--quick", "--batch", *sizes, "-o", str(tmp_path)]) == bench.INTERRUPTED
    record = load_record(tmp_path / "sorting.json")
    assert record.interrupted
    assert [row.case["n"] for row in record.timed] == [50, 50, 10**6 + 1, 10**6 + 1]
    assert "rows are missing" in capsys.readouterr().err


def test_a_failure_keeps_what_was_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_data, "max", lambda values: 1 // (len(values) - 60), raising=False)
    assert main(["bench", "sorting", "--quick", "--batch", "50", "60", "70", "-o", str(tmp_path)]) == 1
    record = load_record(tmp_path / "sorting.json")
    assert {row.case["n"] for row in record.timed} == {50}
    assert record.interrupted
    said = capsys.readouterr().err
    assert "the run stopped (ZeroDivisionError" in said
    assert "Traceback" in said, "an error of the program itself is not hidden"


def test_several_suites_are_measured_in_processes_of_their_own(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old"
    monkeypatch.setenv("LENET_TRT_COMMIT", "abc")
    assert main(["bench", "kernels", "ladder", "--quick", "--only", "batched_matvec", "-o", str(old)]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == str(old / "ladder.csv")
    for name in ("kernels", "ladder"):
        record = load_record(old / f"{name}.json")
        assert record.command == f"lenet-trt bench {name} --quick --only batched_matvec"
        assert record.commit == "abc"
    (old / "ladder.json").unlink()
    assert main(["bench", "kernels", "ladder", "--quick", "--only", "batched_matvec", "--compare", str(old)]) == 0
    assert capfd.readouterr().out.count("changed by more than the noise") == 1, "only one has an old record"
    (old / "kernels.json").write_text(as_json(bench_data.record(suite="kernels")))
    assert main(["bench", "kernels", "ladder", "--quick", "--only", "batched_matvec", "--compare", str(old)]) == 2
    said = capfd.readouterr()
    assert "times of two machines" in said.err
    assert "ladder:" in said.out, "the other suite goes on"


@pytest.mark.slow
def test_on_ctrl_c_a_suite_keeps_what_it_has_and_no_other_begins(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "lenet_trt.bench", "sweep", "10k", "--batch", *BATCHES, "-o", str(tmp_path)]
    running = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert running.stderr is not None
    for line in running.stderr:
        if "timing batch 2" in line:
            break
    os.killpg(running.pid, signal.SIGINT)
    running.communicate(timeout=600)
    assert running.returncode == bench.INTERRUPTED
    assert load_record(tmp_path / "sweep.json").interrupted
    assert not (tmp_path / "10k.json").exists()


def test_the_environment_names_the_commit_of_an_installed_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LENET_TRT_COMMIT", "abc123")
    assert main(["bench", "sorting", "--quick", "--batch", "9", "-o", str(tmp_path)]) == 0
    record = load_record(tmp_path / "sorting.json")
    assert record.commit == "abc123"
    assert record.command == "lenet-trt bench sorting --quick --batch 9"


@pytest.mark.parametrize("sizes", [["10", "20"], ["10,20"], ["10,", "20"], ["10,20", "10"]])
def test_batch_sizes_with_spaces_or_commas(sizes: list[str], tmp_path: Path) -> None:
    assert main(["bench", "sorting", "--quick", "--batch", *sizes, "-o", str(tmp_path)]) == 0
    assert {row.case["n"] for row in load_record(tmp_path / "sorting.json").rows} == {10, 20}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["kernels", "sorting", "--only", "conv"],
            "--only is an option of engines, kernels, ladder, latency and zoo, not of sorting",
        ),
        (["sorting", "--batch", "0"], "--batch 0: '0' is not a whole number from 1 to"),
        (["sorting", "--batch", "1", "many"], "wanted sizes such as 1 32 1024 or 1,32,1024"),
        (["sorting", "--png"], "name a folder with -o"),
        (["sorting", "kernels", "--compare", "old.json"], "2 suites are measured: name a folder"),
        (["sorting", "--compare", "."], "has no sorting.json"),
    ],
)
def test_bad_usage_says_what_to_type(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_suite_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["bench", "fast"])
    assert stop.value.code == 2
    assert "kernels" in capsys.readouterr().err


@pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU: the suite is measured by tests/gpu")
def test_kernels_without_a_gpu_are_rows_that_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lenet_trt.kernel.registry import kernels

    assert main(["bench", "kernels", "-o", str(tmp_path)]) == 0
    rows = load_record(tmp_path / "kernels.json").rows
    assert {row.case["workload"] for row in rows} == set(kernels())
    assert all("needs a CUDA GPU" in (row.why or "") for row in rows)
    assert not (tmp_path / "kernels.svg").exists()
    said = capsys.readouterr().out
    assert said.count("needs a CUDA GPU") == 1, "the reason of all is told once"
    assert f": {'; '.join(kernels())}\n" in said
    for suite in ("kernels", "ladder"):
        assert main(["bench", suite, "--only", "nosuch"]) == 1
        assert "no kernel has such a name, and workloads are not known here: needs a" in capsys.readouterr().err


def test_every_suite_is_a_module_with_measure_and_charts() -> None:
    for name in bench.SUITES:
        module = bench.suite(name)
        assert callable(module.measure)
        assert callable(module.charts)


@pytest.mark.slow
def test_the_commands_and_the_program_of_the_page_work(tmp_path: Path) -> None:
    page = ROOT / "docs" / "bench.md"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    lines = commands(page)
    assert len(lines) == 2
    (program,) = fenced(page, "python")
    (tmp_path / "program.py").write_text(program)
    for line in [*lines, f"{sys.executable} program.py"]:
        done = subprocess.run(line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"$ {line}\n{done.stderr}"
        assert done.stdout, f"$ {line} printed nothing"
    for name in set(bench.SUITES) - {"sorting"}:
        assert f"| `{name}` |" in page.read_text()


def test_a_folder_that_cannot_be_one_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["bench", "sweep", "--quick", "--batch", "1", "-o", str(tmp_path / "file")]) == 2
    said = capsys.readouterr().err
    assert "wanted a folder" in said
    assert "opening" not in said


def test_a_text_that_is_in_no_name_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from lenet_trt.bench import engines

    def measure(options: SuiteOptions) -> Record:
        found = Recording("engines", options)
        for name in filter(found.wants, ("LeNet-5 fp32", "LeNet-5 fp16", "MatMul fp32")):
            found.cannot("ours", {"workload": name}, "no time")
        return found.finish()

    monkeypatch.setattr(engines, "measure", measure)
    assert main(["bench", "engines", "--only", "conv9", "resnet"]) == 2
    said = capsys.readouterr().err
    assert "--only: no workload of the suite engines has 'conv9' or 'resnet' in its name; they are LeNet-5" in said
    assert main(["bench", "engines", "--only", "fp16", "Mat", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["case"]["workload"] for row in rows] == ["LeNet-5 fp16", "MatMul fp32"]


def test_a_whole_name_stands_for_one_workload_alone() -> None:
    names = ("smollm", "smollm_long", "bert")
    for texts, wanted in ((("smollm",), ["smollm"]), (("smol",), ["smollm", "smollm_long"]), ((), list(names))):
        found = Recording("zoo", SuiteOptions(only=texts))
        assert [name for name in names if found.wants(name, names)] == wanted
