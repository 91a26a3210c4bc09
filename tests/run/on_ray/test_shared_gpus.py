"""Workers that share GPUs or have one: Ray is told of GPUs that are not here, and the workers compute on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lenet_trt.child import child_environment
from ray_data import plain_answers, read_answers

ray = pytest.importorskip("ray", reason="run --ray needs Ray Data: pip install 'lenet-trt[ray]'")
pytest.importorskip("ray.data")

MNIST = Path(__file__).parents[3] / "export/data/t10k-images-idx3-ubyte.gz"
IMAGES = 10_000
HANGS_SECONDS = 600
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", num_cpus=2, num_gpus=2, include_dashboard=False, object_store_memory=200 << 20)
    yield
    ray.shutdown()


def assert_every_image_has_one_answer(output: Path, model: Path) -> None:
    wanted = plain_answers(model, MNIST)
    rows = read_answers(output)
    assert Counter(row["image"] for row in rows) == Counter(wanted.keys())
    assert all(row["class"] == wanted[row["image"]].argmax() for row in rows)


@pytest.mark.usefixtures("two_gpus")
def test_each_gpu_holds_several_workers_and_every_image_gets_one_answer(tmp_path: Path, lenet5: Path) -> None:
    from lenet_trt.run.on_ray import classify_files

    options = {"runtime": "ort-cpu", "shard": 500}
    done = classify_files(lenet5, [str(MNIST)], tmp_path / "out", gpus=2, workers=4, **options)
    assert done.workers == 4
    assert done.images == IMAGES
    assert_every_image_has_one_answer(tmp_path / "out", lenet5)


# What each process of Ray runs when it starts: there, a worker that has classified a shard waits until another thread
# of it has too, before both write their files. And once, with two shards in its hands, a worker ends.
PAIRS = """
import os, signal, sys, threading
if any("default_worker" in word for word in sys.orig_argv):
    from lenet_trt.run.on_ray import worker
    shard_bytes, pairs = worker.shard_bytes, threading.Barrier(2)

    def in_pairs(*arguments):
        at = os.environ["KILLED_ONCE"]
        if not os.path.exists(at):  # what is left behind the end may be an odd number of shards
            pairs.wait(60)
            if arguments[3]["shard"] > "5":
                open(at, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
        return shard_bytes(*arguments)

    worker.shard_bytes = in_pairs
"""
# A program whose Ray has one GPU; its words are the network, the images and the folder of answers.
PROGRAM = """
import sys, ray
from lenet_trt.run.on_ray import classify_files
ray.init(address="local", num_cpus=2, num_gpus=1, include_dashboard=False, object_store_memory=200 << 20)
done = classify_files(sys.argv[1], [sys.argv[2]], sys.argv[3], runtime="ort-cpu", gpus=1, shard=500)
print(done.workers, done.images)
"""


def test_a_worker_with_a_gpu_has_two_shards_at_the_same_time(tmp_path: Path, lenet5: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(PAIRS)
    environment = child_environment() | {"RAY_USAGE_STATS_ENABLED": "0", "KILLED_ONCE": str(tmp_path / "killed")}
    environment["PYTHONPATH"] = os.pathsep.join((str(tmp_path), environment["PYTHONPATH"]))
    words = [sys.executable, "-c", PROGRAM, str(lenet5), str(MNIST), str(tmp_path / "out")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=HANGS_SECONDS)
    assert done.returncode == 0, done.stderr
    assert f"1 {IMAGES}" in done.stdout.splitlines()  # beside what Ray says of a worker that ended
    assert "the others are run again" in done.stderr
    assert_every_image_has_one_answer(tmp_path / "out", lenet5)
