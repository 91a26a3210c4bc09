"""Say what ``bench`` times of ``batched_matvec``: the MatMul of the write-ups, with a column on the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from lenet_trt.bench import ours, peers
from lenet_trt.bench.backends.protocol import Precision
from lenet_trt.bench.layers import DTYPES, LAUNCHES, PRECISIONS, types_for
from lenet_trt.bench.workload import Inputs, Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.export.cases import MATMUL_DIMS

from . import KERNEL

AXES = dict(zip(("outer", "broadcast", "inner", "rows", "k"), MATMUL_DIMS, strict=True))


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the MatMul, whose second operand is broadcast, beside five ways to compute it in torch."""
    autotune = not extent.quick
    for precision in PRECISIONS:
        bound = KERNEL.bind_axes(AXES, types_for(KERNEL, precision))
        shapes = bound.input_shapes

        def draw(shapes: Sequence[Sequence[int]] = shapes, precision: Precision = precision) -> Inputs:
            return tuple(torch.randn(tuple(shape), device="cuda").to(DTYPES[precision]) for shape in shapes)

        yield Workload(
            section="matmul",
            name=f"matmul {precision}",
            title=f"MatMul {_sizes(shapes[0])} x {_sizes(shapes[1])}, {precision}",
            axes=AXES,
            precision=precision,
            work=ours.call_work(bound),
            draw=draw,
            reference=lambda inputs: _multiply_and_sum(*(tensor.double() for tensor in inputs)),
            contenders=[
                *ours.contenders(bound, {}, LAUNCHES),
                peers.direct("torch.matmul", torch.matmul, LAUNCHES),
                peers.direct("torch.einsum", _einsum, LAUNCHES),
                peers.direct("multiply and sum", _multiply_and_sum, LAUNCHES),
                peers.compiled("torch.compile of multiply and sum", _multiply_and_sum, LAUNCHES, autotune),
                peers.compiled("torch.compile of matmul", torch.matmul, LAUNCHES, autotune),
            ],
            mode="launch",
            launch_counts=False,
            kernel=KERNEL.name,
        )


def _einsum(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.einsum("obirk,oik->obir", a, x[:, 0, :, :, 0]).unsqueeze(-1)


def _multiply_and_sum(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (a * x.transpose(-1, -2)).sum(-1, keepdim=True)


def _sizes(shape: Sequence[int]) -> str:
    return f"({','.join(map(str, shape))})"
