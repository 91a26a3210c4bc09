"""Make workloads of a kernel over rows, beside the torch function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from lenet_trt.bench import ours, peers
from lenet_trt.bench.layers import DTYPES, drawn_weight, precisions_of, types_for
from lenet_trt.bench.workload import Contender, Inputs, Mode, TorchCall, Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.kernel.attributes import AttributeValue
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.shapes import Shape

MODES: tuple[Mode, ...] = ("graph",)


@dataclass(frozen=True)
class Rows:
    """Describe one size: the network's layer that has it, the axes in declared order, and the kernel's attributes.

    ``made``: what makes an input of a shape that is not drawn, such as a causal mask.
    """

    label: str
    axes: tuple[int, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    made: Mapping[str, Callable[[Shape], torch.Tensor]] = field(default_factory=dict)


def causal_mask(shape: Shape) -> torch.Tensor:
    """Return masks of a shape that hide from each query the keys after its own."""
    return torch.full(shape, -torch.inf, device="cuda").triu(1)


def row_workloads(
    kernel: Kernel,
    sizes: Sequence[Rows],
    function: Callable[..., Any],
    extent: Extent,
    also: Mapping[str, Callable[..., Any]] | None = None,
) -> Iterator[Workload]:
    """Yield each size in every precision of the kernel.

    ``function`` takes the rows, the weights and the attributes by name. Where it gives several tensors, as the kernel
    does, the first one is compared. ``also``: other functions that compute the same, by name.
    """
    names = [axis.name for axis in kernel.axes]
    for size in sizes:
        axes = dict(zip(names, size.axes, strict=True))

        computed, *further = (partial(each, **size.attributes) for each in (function, *(also or {}).values()))

        for precision in precisions_of(kernel):
            bound = kernel.bind_axes(axes, types_for(kernel, precision), size.attributes)
            dtype = DTYPES[precision]
            shapes = dict(zip((tensor.name for tensor in kernel.inputs), bound.input_shapes, strict=True))
            weights = {t.name: drawn_weight(shapes[t.name]) for t in kernel.inputs if t.weight}
            rounded = [tensor.to(dtype) for tensor in weights.values()]

            makers = [(size.made.get(t.name, _drawn), shapes[t.name]) for t in kernel.inputs if not t.weight]

            def draw(
                dtype: torch.dtype = dtype,
                makers: Sequence[tuple[Callable[[Shape], torch.Tensor], Shape]] = tuple(makers),
            ) -> Inputs:
                return tuple(make(shape).to(dtype) for make, shape in makers)

            def reference(
                inputs: Inputs, constants: Sequence[torch.Tensor] = rounded, computed: Callable[..., Any] = computed
            ) -> torch.Tensor:
                return _first(computed(*(each.double() for each in (*inputs, *constants))))

            torch.compiler.reset()  # sizes of other rows must not become variables of these
            others = [peers.direct("torch, CUDA graph", computed, MODES)]
            if not extent.quick:
                others += [
                    peers.compiled(f"torch.compile{name}, CUDA graph", each, MODES, autotune=False)
                    for name, each in zip(
                        ("", *(f", {name}" for name in also or {})), (computed, *further), strict=True
                    )
                ]
            yield Workload(
                section="rows",
                name=f"{kernel.name} {size.label} {precision}",
                title=f"{kernel.name} of {list(size.axes)} ({size.label}), {precision}",
                axes=axes,
                precision=precision,
                work=ours.call_work(bound),
                draw=draw,
                reference=reference,
                contenders=[
                    *ours.contenders(bound, weights, MODES),
                    *(_with(contender, rounded) for contender in others),
                ],
                mode="graph",
                launch_counts=True,
                kernel=kernel.name,
                weights=weights,
            )


def _with(contender: Contender, weights: Sequence[torch.Tensor]) -> Contender:
    def prepare(inputs: Inputs) -> TorchCall:
        call = contender.prepare((*inputs, *weights))
        return lambda: _first(call())

    return Contender(contender.name, contender.ours, prepare, contender.modes, contender.details)


def _drawn(shape: Shape) -> torch.Tensor:
    return torch.randn(shape, device="cuda")


def _first(result: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result
