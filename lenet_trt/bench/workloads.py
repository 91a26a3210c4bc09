"""Find what the suites ``kernels`` and ``ladder`` time: the modules ``workloads.py`` in the kernels' folders.

A kernel's ``workloads.py`` has ``workloads(extent)`` for the sizes that the kernel was written for, ``layers(extent)``
for layers of a network that it computes, or both; each yields ``Workload`` objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.kernel.registry import kernels, part

if TYPE_CHECKING:
    from lenet_trt.bench.workload import Workload

BATCHES = (1, 32, 1024, 10_000)
# A quick run times a network's layers at this batch alone.
QUICK_LAYERS = (1024,)


@dataclass(frozen=True)
class Extent:
    """Hold how much to measure: batch sizes of networks and of layers; a quick run lets no compiler search for long."""

    batches: Sequence[int] = BATCHES
    layer_batches: Sequence[int] = BATCHES
    quick: bool = False


def extent_of(options: SuiteOptions, quick_batches: Sequence[int]) -> Extent:
    """Return what a suite's options ask for; ``quick_batches`` are the batch sizes of a quick run."""
    if not options.quick:
        return Extent(options.batches or BATCHES, options.batches or BATCHES)
    return Extent(options.batches or quick_batches, options.batches or QUICK_LAYERS, quick=True)


def workloads_of(extent: Extent) -> Iterator[Workload]:
    """Yield every kernel's own workloads; the next one is made after the one before has been timed."""
    yield from _made("workloads", extent)


def layer_workloads_of(extent: Extent) -> Iterator[Workload]:
    """Yield the layers that the kernels compute."""
    yield from _made("layers", extent)


def without_workloads() -> list[str]:
    """Return the kernels for which nothing is timed."""
    return [name for name in kernels() if part(name, "workloads") is None]


def _made(what: str, extent: Extent) -> Iterator[Workload]:
    for name in kernels():
        make = getattr(part(name, "workloads"), what, None)
        if make is not None:
            yield from make(extent)
