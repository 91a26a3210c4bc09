"""Shards and the record beside them; Ray is not needed for it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.run.on_ray.cluster import Workers, workers_of
from lenet_trt.run.on_ray.job import Job, open_job
from lenet_trt.run.on_ray.model import read_model
from lenet_trt.run.on_ray.shard import answers, shard_bytes, shard_name, shard_number
from lenet_trt.run.on_ray.worker import Answering, Classifier

pytest.importorskip("pyarrow", reason="shards are written with PyArrow: pip install 'lenet-trt[ray]'")
pq = pytest.importorskip("pyarrow.parquet")

from lenet_trt.run.on_ray.place import place  # noqa: E402

JOB = Job("m.onnx", "abc", ["data"], 100, 4, 25, "def", {"top": "None"})


def test_errors_stand_between_the_answers() -> None:
    shares = np.array([[0.25, 0.75], [np.nan, np.nan], [0.5, 0.5]])
    data = shard_bytes(list("abcde"), [None, "bad", None, "worse", None], answers(shares, None), {"job": "x"})
    table = pq.read_table(io.BytesIO(data))
    rows = table.to_pylist()
    assert [row["image"] for row in rows] == list("abcde")
    assert [row["error"] for row in rows] == [None, "bad", None, "worse", None]
    assert [row["class"] for row in rows] == [1, None, None, None, 0]
    assert rows[0]["probabilities"] == [0.25, 0.75]
    assert rows[1]["probabilities"] is None
    assert table.schema.metadata[b"job"] == b"x"


def test_of_many_classes_the_best_are_kept_in_order() -> None:
    shares = np.array([[0.1, 0.4, 0.2, 0.3]])
    (row,) = pq.read_table(io.BytesIO(shard_bytes(["a"], [None], answers(shares, 3), {}))).to_pylist()
    assert row["top_classes"] == [1, 3, 2]
    assert row["top_probabilities"] == pytest.approx([0.4, 0.3, 0.2])


def test_a_shard_of_which_nothing_could_be_read_has_the_same_columns(lenet5: Path) -> None:
    classifier = Classifier(read_model(lenet5, "ort-cpu", None), Answering(batch=2, threads=1))
    some, none = (classifier(np.zeros((count, 1, 28, 28), np.uint8)) for count in (5, 0))
    tables = [
        pq.read_table(io.BytesIO(shard_bytes(["a"] * 5, errors, found, {})))
        for errors, found in (([None] * 5, some), (["bad"] * 5, none))
    ]
    assert tables[0].schema == tables[1].schema
    assert tables[1]["class"].null_count == 5


@pytest.mark.parametrize(("images", "sizes"), [(9, [3, 3, 3]), (10, [3, 3, 2, 2]), (2, [2]), (4, [4]), (5, [3, 2])])
def test_the_batches_of_a_shard_have_nearly_equal_sizes(lenet5: Path, images: int, sizes: list[int]) -> None:
    most = 4 if images < 9 else 3
    classifier = Classifier(read_model(lenet5, "ort-cpu", None), Answering(batch=most, threads=1))
    pixels = np.arange(images * 784).astype(np.uint8).reshape(images, 1, 28, 28)
    parts = classifier.parts(pixels)
    assert [len(part) for part in parts] == sizes
    np.testing.assert_array_equal(np.concatenate(parts), pixels)


def test_names_of_shards_say_their_number() -> None:
    assert [shard_number(shard_name(number)) for number in (0, 7, 12345678)] == [0, 7, 12345678]
    assert shard_number(".part-0000001.parquet.x.part") is None
    assert shard_number("part-1.parquet") is None


def test_a_second_start_goes_on_and_another_job_is_refused(tmp_path: Path) -> None:
    output = place(str(tmp_path / "out"))
    assert open_job(output, JOB) == set()
    output.write(shard_name(2), b"x")
    assert open_job(output, JOB) == {2}
    for other in (replace(JOB, model_sha256="xyz"), replace(JOB, options={"top": "5"}), replace(JOB, shard_images=10)):
        with pytest.raises(LenetTrtError, match="the results of another job"):
            open_job(output, other)
    (tmp_path / "out/job.json").write_text("{}")
    with pytest.raises(LenetTrtError, match="is damaged"):
        open_job(output, JOB)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(LenetTrtError, match="holds files"):
        open_job(place(str(tmp_path / "mine")), JOB)


def test_a_file_of_another_file_system_is_whole_or_absent(tmp_path: Path) -> None:
    from pyarrow import fs

    far = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    output = place("out", far)
    assert not output.local
    output.write("a", b"1")
    output.write("a", b"22")
    assert output.read("a") == b"22"
    assert output.names() == {"a"}
    (tmp_path / "out/b").mkdir()
    with pytest.raises(LenetTrtError, match="cannot write out/b"):
        output.write("b", b"3")
    assert output.names() == {"a"}, "the half of it is taken away"


def test_workers_are_shared_out_over_what_the_cluster_has() -> None:
    assert workers_of({"CPU": 16.0, "GPU": 2.0}, None, None) == Workers(2, 1.0)
    assert workers_of({"CPU": 16.0, "GPU": 2.0}, 1, None) == Workers(1, 1.0)
    assert workers_of({"CPU": 16.0, "GPU": 2.0}, None, 3) == Workers(3, 0.0)
    assert workers_of({"CPU": 16.0, "GPU": 2.0}, 2, 8) == Workers(8, 0.25)
    assert workers_of({"CPU": 16.0, "GPU": 2.0}, 1, 3) == Workers(3, 0.3333)
    assert workers_of({"CPU": 16.0}, None, None) == Workers(8, 0.0)
    assert workers_of({"CPU": 1.0}, None, None) == Workers(1, 0.0)
    for gpus, workers, message in (
        (3, None, "has 2 GPUs"),
        (None, 17, "has 16 processor cores"),
        (2, 3, "take a multiple of 2 workers"),
        (2, 1, "take a multiple of 2 workers"),
    ):
        with pytest.raises(UsageError, match=message):
            workers_of({"CPU": 16.0, "GPU": 2.0}, gpus, workers)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ray"], "name their folder with -o"),
        (["--ray", "-o", "OUT"], "wants IMAGES"),
        (["x.npy", "--ray", "-o", "OUT", "--labels", "l"], "--labels does not go with --ray"),
        (["x.npy", "--ray", "-o", "OUT", "--throughput"], "--throughput does not go"),
        (["x.npy", "-o", "OUT"], "--output is an option of a run on Ray"),
        (["x.npy", "--gpus", "1"], "--gpus is an option of a run on Ray"),
        (["x.npy", "--ray", "-o", "OUT", "--gpus", "0"], "not a whole number"),
    ],
)
def test_options_that_contradict_are_refused(
    words: list[str], message: str, lenet5: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["run", str(lenet5), *words])
    except SystemExit as stop:
        status = int(str(stop.code))
    assert status == 2
    assert message in capsys.readouterr().err


def test_answers_do_not_go_into_the_folder_that_is_read(tmp_path: Path, lenet5: Path) -> None:
    from lenet_trt.run.on_ray.stage import classify_files

    with pytest.raises(UsageError, match="lies in"):
        classify_files(lenet5, [str(tmp_path)], tmp_path / "out")
    assert not (tmp_path / "out").exists()
