"""Say what ``bench`` times of ``linear_half``: the layers of ``linear`` in fp16."""

from __future__ import annotations

from collections.abc import Iterator

from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from ..linear.workloads import layers_by


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers in fp16."""
    yield from layers_by("linear_half", "fp16", extent)
