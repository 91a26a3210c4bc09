"""Kernels that stay on the GPU: they compile for each architecture and type that they are declared for."""

from __future__ import annotations

import pytest

from lenet_trt.cuda.compile import architectures, compile_variant
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.registry import kernels

RESIDENT = {name: kernel for name, kernel in kernels().items() if kernel.resident is not None}


def test_lenet5_has_one() -> None:
    assert "lenet5" in RESIDENT


@pytest.mark.parametrize("name", RESIDENT)
def test_it_compiles(name: str) -> None:
    kernel = RESIDENT[name]
    variant = kernel.resident
    assert variant is not None
    for types in kernel.types:
        bound = kernel.bind_axes({axis.name: 1 for axis in kernel.axes}, types)
        for sm in {variant.min_sm, max(architectures())}:
            assert compile_variant(bound.specialized, variant, f"sm_{sm}").image
        with pytest.raises(LenetTrtError, match=f"needs sm_{variant.min_sm} or newer"):
            compile_variant(bound.specialized, variant, f"sm_{min(architectures())}")
