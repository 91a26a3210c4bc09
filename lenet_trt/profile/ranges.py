"""Named ranges on the host, as a tracer takes them: NVTX for Nsight Systems, clock readings for CUPTI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lenet_trt.profile.request import RecorderError
from lenet_trt.runtimes.graph.replay_log import Ranges

# The NVTX domain, and what an inference's range is called in it.
DOMAIN = "lenet_trt"
_ITERATION = "iteration "


def iteration(number: int) -> str:
    """What the range of an inference is called."""
    return f"{_ITERATION}{number}"


def is_iteration(name: str) -> bool:
    """Whether a range is an inference."""
    return name.startswith(_ITERATION)


def nvtx() -> Ranges:
    """Mark ranges for whoever listens to NVTX; where nobody does, the package's own functions do nothing.

    Raises:
        RecorderError: the package is not installed.
    """
    try:
        import nvtx as package
    except ImportError as error:
        raise RecorderError(
            f"inferences are told apart by NVTX ranges, and the package nvtx is missing ({error}): "
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
