"""``run --ray`` on GPUs: a worker for each answers as a run without Ray does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.cuda.gpus import gpus
from ray_data import plain_answers, read_answers

pytest.importorskip("ray", reason="run --ray needs Ray Data: pip install 'lenet-trt[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
MNIST = Path(__file__).parents[2] / "export/data/t10k-images-idx3-ubyte.gz"


@pytest.mark.parametrize("count", range(1, 1 + max(1, len(gpus().devices))))
def test_each_gpu_has_a_worker_and_every_image_one_answer(count: int, tmp_path: Path, lenet5: Path) -> None:
    from lenet_trt.run.on_ray import classify_files

    done = classify_files(lenet5, [str(MNIST)], tmp_path / "out", gpus=count, shard=500)
    assert done.workers == count
    assert "CPU" not in done.where
    wanted = plain_answers(lenet5, MNIST)
    rows = read_answers(tmp_path / "out")
    assert Counter(row["image"] for row in rows) == Counter(wanted.keys())
    shares = np.array([row["probabilities"] for row in rows])
    np.testing.assert_allclose(shares, [wanted[row["image"]] for row in rows], atol=1e-4)
