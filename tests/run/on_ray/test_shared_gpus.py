"""Several workers on each GPU: Ray is told of GPUs that are not here, and the workers compute on the CPU."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ray_data import plain_answers, read_answers

ray = pytest.importorskip("ray", reason="run --ray needs Ray Data: pip install 'lenet-trt[ray]'")
pytest.importorskip("ray.data")

MNIST = Path(__file__).parents[3] / "export/data/t10k-images-idx3-ubyte.gz"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


def test_each_gpu_holds_several_workers_and_every_image_gets_one_answer(
    tmp_path: Path, lenet5: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lenet_trt.run.on_ray import classify_files

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", num_cpus=2, num_gpus=2, include_dashboard=False, object_store_memory=200 << 20)
    try:
        done = classify_files(lenet5, [str(MNIST)], tmp_path / "out", runtime="ort-cpu", gpus=2, workers=4, shard=500)
    finally:
        ray.shutdown()
    assert done.workers == 4
    assert done.images == 10_000
    wanted = plain_answers(lenet5, MNIST)
    assert Counter(row["image"] for row in read_answers(tmp_path / "out")) == Counter(wanted.keys())
