"""``run --ray`` in a cluster of two nodes: workers, nodes and drivers are killed, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lenet_trt.child import child_environment
from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError, LenetTrtWarning
from lenet_trt.run.on_ray.stage import JobSummary, classify_files
from ray_data import DAMAGED, plain_answers, read_answers, write_sources

ray = pytest.importorskip("ray", reason="run --ray needs Ray Data: pip install 'lenet-trt[ray]'")
pytest.importorskip("ray.data")

MNIST = Path(__file__).parents[3] / "export/data/t10k-images-idx3-ubyte.gz"
IMAGES = 10_000
SHARD = 250
# Ray's own threads and sockets outlive the calls that made them.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of two processor cores each; the second one may be killed by the last test."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    memory = 200 << 20
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": memory})
    made.add_node(num_cpus=2, object_store_memory=memory)
    made.wait_for_nodes()
    yield made
    made.shutdown()


def workers_below(raylet: int) -> list[int]:
    """The actors of Ray Data that a node started, by the process of its raylet."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            title = (entry / "cmdline").read_bytes()
        except OSError:  # it ended just now
            continue
        if parent == raylet and title.startswith(b"ray::MapWorker"):
            found.append(int(entry.name))
    return found


def workers(cluster: Any) -> set[int]:
    """The actors of Ray Data on all nodes; those of a job that has ended may be among them for a while."""
    raylets = [int(node.all_processes["raylet"][0].process.pid) for node in cluster.list_all_nodes()]
    return {pid for raylet in raylets for pid in workers_below(raylet)}


def once(then: Callable[[], None]) -> Callable[[int, int], None]:
    """A progress that does something after the second shard."""
    left = [2]

    def progress(done: int, images: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            then()

    return progress


def assert_every_image_once_as_in_a_plain_run(output: Path, model: Path) -> None:
    wanted = plain_answers(model, MNIST)
    rows = read_answers(output)
    assert Counter(row["image"] for row in rows) == Counter(wanted.keys())
    for row in rows:
        assert row["error"] is None
        assert row["class"] == wanted[row["image"]].argmax()
    shares = np.array([row["probabilities"] for row in rows])
    np.testing.assert_allclose(shares, [wanted[row["image"]] for row in rows], atol=1e-6)


def run(cluster: Any, model: Path, output: Path, then: Callable[[], None], **options: int) -> JobSummary:
    options = {"shard": SHARD, **options}
    return classify_files(
        model, [str(MNIST)], output, runtime="ort-cpu", address=cluster.address, progress=once(then), **options
    )


@pytest.mark.usefixtures("no_ray_cluster")
def test_without_a_cluster_one_is_started_here(
    tmp_path: Path, lenet5: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = write_sources(tmp_path / "data")
    words = ["run", str(lenet5), str(sources.folder), "--ray", "-o", str(tmp_path / "out"), "--shard", "64", "--json"]
    assert main([*words, "--runtime", "ort-cpu"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["images"], said["errors"], said["of_shards"]) == (620, 3, said["shards"])
    assert not ray.is_initialized(), "what was started is ended"
    rows = read_answers(tmp_path / "out")
    assert Counter(row["image"] for row in rows) == Counter(sources.pixels.keys())
    damaged = {row["image"] for row in rows if row["error"] is not None}
    assert damaged == {name for name, pixels in sources.pixels.items() if pixels is None}
    assert all((row["class"] is None) == (row["image"] in damaged) for row in rows)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert main([*words, "--runtime", "ort-cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.usefixtures("no_ray_cluster")
def test_the_cluster_of_another_program_is_not_joined(cluster: Any, tmp_path: Path, lenet5: Path) -> None:
    joined: list[str] = []

    def progress(done: int, images: int) -> None:
        joined.append(ray.get_runtime_context().gcs_address)

    classify_files(lenet5, [str(MNIST)], tmp_path / "out", runtime="ort-cpu", shard=IMAGES, progress=progress)
    assert len(joined) == 1
    assert joined != [cluster.address], "it would end with the other program"


def test_a_driver_that_ends_in_the_middle_is_started_again(cluster: Any, tmp_path: Path, lenet5: Path) -> None:
    """Once by Ctrl-C, and once by what it does not hear."""
    output = tmp_path / "out"
    words = [sys.executable, "-m", "lenet_trt.run", str(lenet5), str(MNIST), "--ray", "-o", str(output)]
    words += ["--shard", str(SHARD), "--runtime", "ort-cpu", "--address", cluster.address]
    before: dict[Path, int] = {}
    for how in (signal.SIGINT, signal.SIGKILL):
        driver = subprocess.Popen(words, env=child_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while len(list(output.glob("part-*.parquet"))) < len(before) + 3:
            assert driver.poll() is None, "it ended before it was killed"
            time.sleep(0.01)
        driver.send_signal(how)
        _, said = driver.communicate(timeout=600)
        if how == signal.SIGINT:
            assert driver.returncode == 130, said
            assert b"the same command goes on with what is in" in said
        time.sleep(1)  # what its workers were writing
        assert {path: path.stat().st_mtime_ns for path in before} == before
        before = {path: path.stat().st_mtime_ns for path in output.glob("part-*.parquet")}
        assert len(before) < IMAGES // SHARD, "nothing was left to do"
    done = run(cluster, lenet5, output, lambda: None)
    # Workers of a killed driver may have written some more since.
    assert 0 < done.shards <= IMAGES // SHARD - len(before)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert_every_image_once_as_in_a_plain_run(output, lenet5)


def test_a_worker_that_is_killed_costs_nothing(cluster: Any, tmp_path: Path, lenet5: Path) -> None:
    """It is the only worker, so it has the next shards; and they are so small that many are left."""
    shard = 100
    shards = IMAGES // shard
    before = workers(cluster)
    killed: list[int] = []

    def kill() -> None:
        (worker,) = workers(cluster) - before
        os.kill(worker, signal.SIGSTOP)
        time.sleep(1)  # it gets a shard, and does not begin with it
        os.kill(worker, signal.SIGKILL)
        killed.append(worker)

    with pytest.warns(LenetTrtWarning, match=f"of {shards} shards are in .*: the others are run again"):
        done = run(cluster, lenet5, tmp_path / "out", kill, workers=1, shard=shard)
    assert killed
    assert done.shards == shards
    assert_every_image_once_as_in_a_plain_run(tmp_path / "out", lenet5)


def test_a_ray_program_classifies_its_own_dataset(cluster: Any, lenet5: Path) -> None:
    from lenet_trt.export.mnist import test_set as mnist
    from lenet_trt.run import load
    from lenet_trt.run.on_ray import classify_dataset

    images = mnist()[0][:300]
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        dataset = ray.data.from_numpy(images).rename_columns({"data": "image"})
        rows = classify_dataset(dataset, lenet5, runtime="ort-cpu", workers=1).take_all()
        encoded = ray.data.from_items([{"image": DAMAGED, "key": 5}])
        (bad,) = classify_dataset(encoded, lenet5, runtime="ort-cpu", workers=1).take_all()
    finally:
        ray.shutdown()
    wanted = load(lenet5, "ort-cpu")(images[:, None]).argmax(axis=1)
    assert [row["class"] for row in rows] == wanted.tolist()
    assert (bad["key"], bad["class"]) == (5, None)
    assert "damaged picture" in bad["error"]


def test_what_a_worker_says_is_what_the_user_reads(cluster: Any, tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    shape = ["n", 1, 28, 28]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "i.onnx")
    with pytest.raises(LenetTrtError, match=r"it is no classifier.*0 of 40 shards are in .*goes on from there"):
        run(cluster, tmp_path / "i.onnx", tmp_path / "out", lambda: None)
    # Ray ends the program where one of its threads still fetches rows behind ray.shutdown.
    assert "iter_threaded" not in {thread.name for thread in threading.enumerate()}


def test_a_node_that_is_killed_costs_time_alone(cluster: Any, tmp_path: Path, lenet5: Path) -> None:
    killed: list[bool] = []

    def kill() -> None:
        cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
        killed.append(True)

    done = run(cluster, lenet5, tmp_path / "out", kill, workers=4)  # one for each core, of which two go
    assert killed
    assert done.shards == IMAGES // SHARD
    assert_every_image_once_as_in_a_plain_run(tmp_path / "out", lenet5)
