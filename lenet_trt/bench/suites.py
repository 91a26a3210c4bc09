"""The suites that ``bench`` knows, by name."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lenet_trt.bench.record import Record


# suite -> (module with measure() and charts(), columns() where the usual ones do not do, notes() where rows make them;
# what it measures)
SUITES = {
    "engines": ("lenet_trt.bench.engines", "TensorRT's own layers against our plugins, in engines, by trtexec"),
    "10k": ("lenet_trt.bench.ten_thousand", "10,000 MNIST images, all right, by every backend"),
    "sweep": ("lenet_trt.bench.sweep", "time an image over the batch size, by every backend"),
    "cold": ("lenet_trt.bench.cold", "what the first inference costs, phase by phase"),
    "ladder": ("lenet_trt.bench.ladder", "the numbered steps of the kernels, with the CPU loop they began with"),
    "occupancy": ("lenet_trt.bench.occupancy", "how much of the GPU a batch uses"),
    "kernels": ("lenet_trt.bench.kernels", "every kernel beside its peers and the floor"),
}


def suite(name: str) -> ModuleType:
    """The module of a suite, imported now."""
    return importlib.import_module(SUITES[name][0])


def notes(name: str, record: Record) -> Sequence[str]:
    """What the figures tell: as the suite says it today where it needs the rows alone, else as it was recorded."""
    module = suite(name)
    made: Sequence[str] = module.notes(record.rows) if hasattr(module, "notes") else record.notes
    return made
