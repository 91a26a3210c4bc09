"""Mark named ranges on the host for a tracer: NVTX for Nsight Systems, clock readings for CUPTI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lenet_trt.profile.request import RecorderError
from lenet_trt.runtimes.graph.replay_log import Ranges

# The NVTX domain, and the beginning of an inference's name in it.
DOMAIN = "lenet_trt"
_ITERATION = "iteration "


def iteration(number: int) -> str:
    """Return the name of an inference's range."""
    return f"{_ITERATION}{number}"


def is_iteration(name: str) -> bool:
    """Say whether a range is an inference."""
    return name.startswith(_ITERATION)


def nvtx() -> Ranges:
    """Return a function that marks NVTX ranges; where no tool listens, the package's functions do nothing.

    Raises:
        RecorderError: the package is not installed.
    """
    try:
        import nvtx as package
    except ImportError as error:
        raise RecorderError(
            f"NVTX ranges separate inferences, and the package nvtx is missing ({error}): "
            "pip install 'lenet-trt[profile]'"
        ) from error
    domain = package.get_domain(DOMAIN)

    @contextmanager
    def marked(name: str) -> Iterator[None]:
        domain.push_range(domain.get_event_attributes(message=name))
        try:
            yield
        finally:
            domain.pop_range()

    return marked
