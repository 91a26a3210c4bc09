"""The images a second of a job: from when every worker has finished its first shard until the last shard is done."""

from __future__ import annotations

import pytest

from lenet_trt.run.on_ray.stage import rate
from lenet_trt.run.on_ray.worker import Done


def done(events: list[tuple[float, str]]) -> tuple[list[Done], list[float]]:
    """Shards of 10 images, of workers at times."""
    ordered = sorted(events)
    return [Done(name, shard, 10, 0, "", 0.0) for shard, (_, name) in enumerate(ordered)], [at for at, _ in ordered]


def test_a_worker_that_starts_late_does_not_count_against_two() -> None:
    early = [(float(second), "a") for second in range(1, 101)]
    late = [(second + 0.5, "b") for second in range(60, 101)]
    # Behind 60.5 s: 40 shards of each, and b's last one is done at 100.5 s.
    assert rate(*done(early + late), 2) == pytest.approx(800 / 40)


def test_one_worker_counts_from_its_first_shard() -> None:
    assert rate(*done([(10.0 + 2 * shard, "a") for shard in range(31)]), 1) == pytest.approx(300 / 60)


@pytest.mark.parametrize(
    ("events", "workers"),
    [
        ([], 1),
        ([(float(second), "a") for second in range(20)], 1),  # 19 behind the first
        ([(float(second), "a") for second in range(100)], 2),  # the other one finished none
        ([(float(second), "a") for second in range(100)] + [(90.5, "b")], 2),  # 9 behind b's first, wanted 40
    ],
)
def test_of_few_shards_there_is_no_rate(events: list[tuple[float, str]], workers: int) -> None:
    assert rate(*done(events), workers) is None
