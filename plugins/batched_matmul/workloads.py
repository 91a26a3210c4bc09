"""Say what ``bench`` times of ``batched_matmul``: small square matrices, vectors, and the attention of 7x7 windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from lenet_trt.bench import ours, peers
from lenet_trt.bench.backends.protocol import Precision
from lenet_trt.bench.layers import DTYPES, LAUNCHES, PRECISIONS, types_for
from lenet_trt.bench.workload import Inputs, Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL, example


@dataclass(frozen=True)
class Products:
    """Name some products of a network."""

    name: str
    axes: Mapping[str, int]


PRODUCTS = (
    Products("8x8 matrices", example(200_000, 8, 8, 8)),
    Products("32x32 matrices", example(20_000, 32, 32, 32)),
    Products("64x64 matrices", example(6000, 64, 64, 64)),
    Products("rows times 64x64 matrices", example(20_000, 1, 64, 64)),
    # Swin-T, 32 images, the first stage: 64 windows an image and 3 heads.
    Products("scores of 7x7 windows", example(6144, 49, 32, 49, "nt")),
    Products("values of 7x7 windows", example(6144, 49, 49, 32)),
)


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the products, beside torch."""
    for products in PRODUCTS:
        for precision in PRECISIONS:
            yield _workload(products, precision, autotune=not extent.quick)


def _workload(products: Products, precision: Precision, autotune: bool) -> Workload:
    bound = KERNEL.bind_axes(products.axes, types_for(KERNEL, precision))
    shapes = bound.input_shapes

    def draw() -> Inputs:
        return tuple(torch.randn(tuple(shape), device="cuda").to(DTYPES[precision]) for shape in shapes)

    return Workload(
        section="products",
        name=f"{products.name} {precision}",
        title=f"{products.name}, {_sizes(shapes[0])} x {_sizes(shapes[1])}, {precision}",
        axes=products.axes,
        precision=precision,
        work=ours.call_work(bound),
        draw=draw,
        reference=lambda inputs: _matmul(*(tensor.double() for tensor in inputs)),
        contenders=[
            *ours.contenders(bound, {}, LAUNCHES),
            peers.direct("torch.matmul", _matmul, LAUNCHES),
            peers.compiled("torch.compile of matmul", _matmul, LAUNCHES, autotune),
        ],
        mode="launch",
        launch_counts=False,
        kernel=KERNEL.name,
    )


def _matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply as torch does; a [batch, k or 1, m, 1 or k], b [batch, k or 1, n, 1 or k]."""
    rows, columns = (x[:, 0] if x.shape[1] == 1 else x[..., 0].mT for x in (a, b))
    return torch.matmul(rows, columns.mT)


def _sizes(shape: Sequence[int]) -> str:
    return f"({','.join(str(size) for index, size in enumerate(shape) if size > 1 or index == 0)})"
