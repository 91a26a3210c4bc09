"""Say what ``bench`` times of ``patch_embedding_half``: the layers of ``patch_embedding`` in fp16."""

from __future__ import annotations

from collections.abc import Iterator

from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from ..patch_embedding.workloads import layers_by


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers in fp16."""
    yield from layers_by("patch_embedding_half", extent)
