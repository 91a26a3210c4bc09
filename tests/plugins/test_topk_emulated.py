"""The variants of ``topk`` on the CPU: their own source, a fiber for each thread, against ``argsort``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import registry

KERNEL = registry.kernel("topk")
Rows = Callable[[np.ndarray], None]


def equal(x: np.ndarray) -> None:
    """Make all elements equal: more reach any bound than a pool can hold."""
    x[:] = 1


def few_values(x: np.ndarray) -> None:
    x[:] = np.round(x)


def rising(x: np.ndarray) -> None:
    x.sort(axis=-1)


def falling(x: np.ndarray) -> None:
    x[:] = -np.sort(x, axis=-1)


def in_one_part(x: np.ndarray) -> None:
    """Let all that is large lie side by side, so that one block of a cluster has it."""
    x[:, 300:700] += 100


def not_finite(x: np.ndarray) -> None:
    x[:, 5::7] = -np.inf
    x[0, 6::1000] = np.nan
    x[-1, ::500] = np.inf


def nothing(x: np.ndarray) -> None:
    """Let no element be larger than another, as where a mask hides all."""
    x[:] = -np.inf


def plain(x: np.ndarray) -> None:
    unchanged([x])


# Rows, elements, k; rows shorter than what the threads read at once, such whose bound is of few warps, odd lengths, and
# rows that a thread does not hold at once.
RUNS = [
    *[("block", (2, n, k), plain, "fp32") for n, k in ((1, 1), (7, 5), (200, 128), (1000, 100), (1001, 5))],
    *[("block", (2, 4099, 100), change, "fp32") for change in (few_values, rising, falling, in_one_part, not_finite)],
    *[("block", (1, 17_001, 50), change, "fp32") for change in (plain, equal, nothing)],
    ("block", (2, 1003, 100), not_finite, "fp16"),
    *[("cluster4", (2, 9003, 100), change, "fp32") for change in (plain, equal, rising, in_one_part, not_finite)],
    ("cluster4", (1, 9000, 7), few_values, "fp16"),
    ("cluster8", (1, 17_001, 128), plain, "fp32"),
    ("cluster8", (1, 17_001, 128), equal, "fp32"),
    ("cluster8", (2, 100, 60), plain, "fp32"),
    ("lanes", (9, 100, 8), not_finite, "fp32"),
]


def test_every_variant_is_tried() -> None:
    assert {variant for variant, *_ in RUNS} == {variant.name for variant in KERNEL.variants}


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "sizes", "change", "types"), RUNS, ids=lambda each: getattr(each, "__name__", str(each))
)
def test_a_variant_finds_the_largest(
    variant: str, sizes: tuple[int, int, int], change: Rows, types: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows, n, k = sizes
    axes, attributes = {"rows": rows, "n": n}, {"k": k}
    found = disagreement_on_cpu(KERNEL, variant, axes, attributes, lambda x: change(x[0]), tmp_path_factory, types)
    assert found is None
