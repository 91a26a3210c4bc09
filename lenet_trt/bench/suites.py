"""List the suites of ``bench`` by name."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lenet_trt.bench.record import Record
    from lenet_trt.bench.tables import Summary


# suite -> (module with measure() and charts(), and optionally columns() and summaries(); what the suite measures)
SUITES = {
    "engines": ("lenet_trt.bench.engines", "TensorRT's own layers against our plugins, in engines, by trtexec"),
    "10k": (
        "lenet_trt.bench.ten_thousand",
        "the time of 10,000 MNIST images, and whether the classes are right, by every backend",
    ),
    "sweep": ("lenet_trt.bench.sweep", "the time per image over the batch size, by every backend"),
    "cold": ("lenet_trt.bench.cold", "what the first inference costs, phase by phase"),
    "ladder": ("lenet_trt.bench.ladder", "the numbered steps of the kernels, from a loop on the CPU upwards"),
    "occupancy": ("lenet_trt.bench.occupancy", "how much of the GPU a batch uses"),
    "latency": ("lenet_trt.bench.latency.suite", "what a caller of one image waits for, to the slowest in 10,000"),
    "kernels": ("lenet_trt.bench.kernels", "every kernel beside its peers and the floor"),
    "zoo": ("lenet_trt.bench.zoo.survey", "where TensorRT loses time in networks of many kinds"),
}

# The suites of "all". The survey takes long, and needs torchvision.
USUAL = tuple(name for name in SUITES if name != "zoo")


def suite(name: str) -> ModuleType:
    """Import and return the module of a suite."""
    return importlib.import_module(SUITES[name][0])


def record_summaries(record: Record) -> Sequence[Summary]:
    """Return the small tables that the record's suite makes of its rows; most suites have none."""
    module = suite(record.suite)
    made: Sequence[Summary] = module.summaries(record) if hasattr(module, "summaries") else ()
    return made
