"""``run --ray`` where Ray starts workers again: one that ended while it waited, and one that ends itself each time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lenet_trt.child import child_environment
from lenet_trt.images.form import ImageOptions
from lenet_trt.run.on_ray.stage import JobSummary, classify_files
from ray_data import read_answers

ray = pytest.importorskip("ray", reason="run --ray needs Ray Data: pip install 'lenet-trt[ray]'")
pytest.importorskip("ray.data")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]
MNIST = Path(__file__).parents[3] / "export/data/t10k-images-idx3-ubyte.gz"
PICTURES = 6
SIDE = 7000  # to decode it takes long beside to classify it, so a worker has nothing to do most of the time
HANGS_SECONDS = 600


@pytest.fixture
def one_core() -> Iterator[Any]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def our_workers() -> list[int]:
    """The actors of Ray Data whose raylet this process started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (entry / "cmdline").read_bytes().startswith(b"ray::MapWorker"):
                process = int(entry.name)
                found += [process] if parent(parent(process)) == os.getpid() else []
        except (OSError, ValueError):  # it ended just now, or is no process
            continue
    return found


def test_a_worker_that_is_killed_while_it_waits_is_replaced(one_core: Any, tmp_path: Path, lenet5: Path) -> None:
    source = tmp_path / "pictures"
    source.mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (SIDE, SIDE), dtype=np.uint8)
    Image.fromarray(noise).save(source / "0.png", compress_level=1)
    for number in range(1, PICTURES):
        shutil.copy(source / "0.png", source / f"{number}.png")
    killed: list[int] = []
    summaries: list[JobSummary] = []

    def progress(done: int, images: int) -> None:
        if done == 2:
            time.sleep(0.02)  # until its answer is out of its hands
            killed.extend(our_workers())
            for process in killed:
                os.kill(process, signal.SIGKILL)

    def run() -> None:
        options = {"runtime": "ort-cpu", "workers": 1, "shard": 1, "images": ImageOptions(resize=True)}
        summaries.append(classify_files(lenet5, [str(source)], tmp_path / "out", progress=progress, **options))

    running = threading.Thread(target=run, daemon=True)
    running.start()
    running.join(HANGS_SECONDS)
    assert killed
    assert not running.is_alive(), "it waits for a worker that nobody starts"
    assert summaries[0].images == PICTURES
    assert len({row["image"] for row in read_answers(tmp_path / "out")}) == PICTURES


# What each process of Ray runs when it starts: there, a worker that gets its network ends as by a fault in a library.
FAULT = """
import os, sys
if any("default_worker" in word for word in sys.orig_argv):
    from lenet_trt.run.on_ray import worker
    worker.Worker.__init__ = lambda *arguments: os.abort()
"""


def test_workers_that_end_themselves_are_given_up(tmp_path: Path, lenet5: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(FAULT)
    words = [sys.executable, "-m", "lenet_trt.run", str(lenet5), str(MNIST), "--ray", "-o", str(tmp_path / "out")]
    words += ["--runtime", "ort-cpu", "--workers", "1", "--shard", "1000", "--address", "local"]
    environment = child_environment() | {"RAY_USAGE_STATS_ENABLED": "0"}
    environment["PYTHONPATH"] = os.pathsep.join((str(tmp_path), environment["PYTHONPATH"]))
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=HANGS_SECONDS)
    assert done.returncode == 1
    assert "error: a worker or its machine ended" in done.stderr
    assert "0 of 10 shards are in" in done.stderr
