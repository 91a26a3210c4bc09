"""A kernel's geometry has one owner: what the declaration launches, the source asserts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lenet_trt.cuda.compile import compile_variant
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import Kernel, Launch, Variant, registry
from lenet_trt.kernel.dims import as_dim
from lenet_trt.kernel.examples import cases

OWN = [
    registry.load_kernel(path.parent) for path in sorted((Path(__file__).parents[1] / "kernels").glob("*/__init__.py"))
]


def more_threads(launch: Launch) -> Launch:
    x, y, z = launch.block
    return replace(launch, block=(x + 32, y, z))


def fewer_threads(launch: Launch) -> Launch:
    x, y, z = launch.block
    return replace(launch, block=(x - 1, y, z))


def a_second_row_of_threads(launch: Launch) -> Launch:
    x, y, z = launch.block
    return replace(launch, block=(x, y + 1, z))


def more_shared_memory(launch: Launch) -> Launch:
    return replace(launch, shared_bytes=as_dim(launch.shared_bytes) + 16)


def twice_the_shared_memory(launch: Launch) -> Launch:
    return replace(launch, shared_bytes=2 * as_dim(launch.shared_bytes) + 1)


CHANGES = (more_threads, fewer_threads, a_second_row_of_threads, more_shared_memory, twice_the_shared_memory)


def launches() -> Iterator[Any]:
    """All changes of a kernel's first variant, the first of them in the usual tests, and one of each other variant."""
    for kernel in [*registry.kernels().values(), *OWN]:
        for variant in kernel.variants:
            first = variant is kernel.variants[0]
            for change in CHANGES if first else CHANGES[:1]:
                usual = first and change is CHANGES[0]
                name = f"{kernel.name}-{variant.name}-{change.__name__}"
                yield pytest.param(kernel, variant, change, id=name, marks=[] if usual else pytest.mark.slow)


@pytest.mark.parametrize(("kernel", "variant", "change"), list(launches()))
def test_another_launch_does_not_compile(kernel: Kernel, variant: Variant, change: Callable[[Launch], Launch]) -> None:
    specialized = next(case.bound.specialized for case in cases(kernel) if case.variant is variant)
    other = replace(variant, launch=change(variant.launch))
    with pytest.raises(LenetTrtError, match=f"^{kernel.name} {variant.name} does not compile") as raised:
        compile_variant(specialized, other, f"compute_{variant.min_sm}")
    assert f'"{kernel.entry(variant)} is declared with ' in str(raised.value)
