"""Everything here needs a CUDA GPU: ``pytest tests/gpu`` says which one it ran on, or why it could not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lenet_trt.cuda.driver import context_lost
from lenet_trt.cuda.gpus import gpus

HERE = Path(__file__).parent


def pytest_report_header(config: pytest.Config) -> str:
    """Name the GPU at the top of the report."""
    found = gpus()
    if not found.devices:
        return f"GPU: none ({found.problem})"
    first = found.devices[0]
    return f"GPU: {first.name}, compute capability {first.sm}; driver for CUDA {found.driver_cuda}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and skip them where there is no GPU."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if not gpus().devices:
                item.add_marker(pytest.mark.skip(reason=f"needs a CUDA GPU: {gpus().problem}"))


@pytest.fixture(autouse=True)
def context_alive() -> Iterator[None]:
    """Stop at the first test after which nothing can run any more, instead of failing all that follow."""
    yield
    reason = context_lost()
    if reason:
        pytest.exit(f"a kernel of the test above ended with {reason}; nothing runs in this process after that", 1)


@pytest.fixture(scope="session", autouse=True)
def own_cache() -> None:
    """Keep compiled kernels where the user keeps them: they are the same, and there are many."""
