"""What was to be reached: the times set before the kernels were written, and the figures of the write-ups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lenet_trt.kernel.registry import kernels, part


@dataclass(frozen=True)
class Goal:
    """At most ``us`` microseconds, and at least ``times`` faster than ``peer`` (None: than the best one), on an H200.

    ``workload`` is the name in the record of ``kernels``.
    """

    workload: str
    us: float
    times: float
    peer: str | None = None


@dataclass(frozen=True)
class Where:
    """A row: the suite, the backend, and what its case has at least."""

    suite: str
    backend: str
    case: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Quoted:
    """A figure of a write-up that this project began with: what took how long, and on which GPU, where it says so.

    ``same`` is the row that does it the same way here (``note``: how far it does), ``ours`` the one that does the same
    work best.
    """

    write_up: int
    what: str
    us: float
    gpu: str
    same: Where
    ours: Where
    note: str = ""


GPU_OF_GOALS = "NVIDIA H200"
# In the `graph` runtime, one image may take so much longer than the kernel's replay alone.
RUNTIME_US = 1.5
# What the host may add to that, from the call to the answer.
HOST_US = 10

_IN_GPU_MEMORY = (("images", "GPU memory"),)
_NETWORK = Where("10k", "lenet5 kernel", _IN_GPU_MEMORY)
# Those of the network. What is said of one kernel lies in its folder.
_QUOTED = (
    Quoted(1, "10,000 MNIST images, PyTorch, CPU", 0.30e6, "none", Where("10k", "torch CPU"), _NETWORK),
    Quoted(
        1,
        "10,000 MNIST images, PyTorch, GPU",
        0.015e6,
        "not named",
        Where("10k", "torch eager", _IN_GPU_MEMORY),
        _NETWORK,
    ),
    Quoted(
        1,
        "10,000 MNIST images, a launch a layer and image, a sync after each",
        6.31e6,
        "not named",
        Where("10k", "naive CUDA program", _IN_GPU_MEMORY),
        _NETWORK,
    ),
)


def goals() -> dict[str, Goal]:
    """The goals of all kernels, by workload: ``GOALS`` of ``goals.py`` in their folders."""
    return {goal.workload: goal for goal in _of_kernels("GOALS")}


def quotations() -> list[Quoted]:
    """The figures of the write-ups: those of the network, and ``QUOTED`` of ``goals.py`` in the kernels' folders."""
    return sorted([*_QUOTED, *_of_kernels("QUOTED")], key=lambda entry: entry.write_up)


def _of_kernels(what: str) -> Iterator[Any]:
    for name in kernels():
        yield from getattr(part(name, "goals"), what, ())
