"""Say what ``bench`` times of ``linear_half``: the layers of ``linear`` in fp16, and layers of one row an image."""

from __future__ import annotations

from collections.abc import Iterator

from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

from ..linear.workloads import SIZES, layers_by

# What a step and a class are for each layer of DiT-XL/2, and a layer of a language model that writes one word.
OF_ONE_ROW = ((1, 1152, 6912, "none"), (1, 4096, 4096, "none"))


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers in fp16."""
    yield from layers_by("linear_half", "fp16", extent, (*OF_ONE_ROW, *SIZES))
