"""Hold what the user asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lenet_trt.build.request import MAX_DROP_POINTS
from lenet_trt.cuda.timing import TimingPlan


@dataclass(frozen=True)
class Settings:
    """Hold how to measure and what to allow.

    ``batches``: sizes of the first axis; empty for a model whose shapes are fixed. ``sizes``: of other open axes, by
    their names. ``labels``, ``images``: labelled
    data; without them, the MNIST test set judges a classifier of MNIST's digits. ``recorder``: what traces (see
    ``lenet-trt profile``). ``flavor``, ``sms``: the TensorRT and the GPUs of engines, with the runtime "tensorrt".
    """

    runtime: str = "auto"
    batches: tuple[int, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    plugins: str = "all"
    tolerance: float | None = None
    max_drop: float = MAX_DROP_POINTS
    images: tuple[str, ...] = ()
    labels: str | None = None
    recorder: str = "auto"
    flavor: str = "auto"
    sms: tuple[str, ...] = ("current",)
    timing: TimingPlan = field(default_factory=lambda: TimingPlan(rounds=20, burst=8))

    def files(self) -> tuple[Path, ...]:
        """Return the files of the labelled data."""
        return tuple(Path(name) for name in (*self.images, *([self.labels] if self.labels else ())))
