"""Make workloads of one layer: a kernel beside the torch function that computes the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from lenet_trt.bench import ours, peers
from lenet_trt.bench.backends.protocol import Precision
from lenet_trt.bench.workload import Contender, Inputs, Mode, Workload
from lenet_trt.bench.workloads import Extent
from lenet_trt.kernel.attributes import AttributeValue
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.dims import as_dim
from lenet_trt.kernel.layouts import LAYOUTS
from lenet_trt.kernel.registry import kernel as kernel_named
from lenet_trt.kernel.tensors import Types

PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16")
DTYPES = {"fp32": torch.float32, "fp16": torch.float16}
LAUNCHES: tuple[Mode, ...] = ("launch", "graph")


@dataclass(frozen=True)
class Layer:
    """Describe a layer: the kernel that computes it, its sizes except ``n``, its attributes, and the torch function."""

    name: str
    kernel: str
    axes: Mapping[str, int]
    function: peers.TorchFunction
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)


def types_for(kernel: Kernel, precision: Precision) -> Types:
    """Return the kernel's types in which ``T`` has this precision."""
    return ours.types_of(kernel, T=_name(precision))


def _name(precision: Precision) -> str:
    return str(DTYPES[precision]).removeprefix("torch.")


def precisions_of(kernel: Kernel) -> list[Precision]:
    """Return the precisions that are timed and that the kernel is declared for."""
    declared = {types.variables.get("T") for types in kernel.types}
    return [precision for precision in PRECISIONS if _name(precision) in declared]


def each_alone(layers: Sequence[Layer], extent: Extent) -> Iterator[Workload]:
    """Yield the layers of a network one by one, in every precision that their kernels have and every batch size."""
    for layer in layers:
        for precision in precisions_of(kernel_named(layer.kernel)):
            tail = peers.network_peers(layer.function, autotune=False, quick=extent.quick)
            for n in extent.layer_batches:
                name = f"{layer.name} {precision} n={n}"
                title = f"{layer.name}, {precision}, n = {n}"
                yield layer_workload("layers", layer, n, precision, name, title, tail, ("graph",))


def layer_workload(
    section: str,
    layer: Layer,
    n: int,
    precision: Precision,
    name: str,
    title: str,
    others: Sequence[Contender],
    modes: tuple[Mode, ...],
) -> Workload:
    """Make the workload of one layer at one batch size; ``others`` are functions of the inputs and the weights."""
    kernel = kernel_named(layer.kernel)
    axes = {"n": n, **layer.axes}
    dtype = DTYPES[precision]
    bound = kernel.bind_axes(axes, types_for(kernel, precision), layer.attributes)
    # As torch has them: ``ours`` packs weights for the kernel.
    plain = kernel.plain_inputs
    shapes = {tensor.name: tuple(as_dim(size).evaluate(bound.sizes) for size in tensor.shape) for tensor in plain}
    weights = {tensor.name: drawn_weight(shapes[tensor.name]) for tensor in plain if tensor.weight}
    given = [tensor for tensor in plain if not tensor.weight]
    channels_last = any(LAYOUTS[tensor.layout].packs_last for tensor in (*given, *kernel.outputs))
    rounded = [_ordered(tensor.to(dtype), channels_last) for tensor in weights.values()]
    exact = [tensor.double() for tensor in weights.values()]

    def draw() -> Inputs:
        return tuple(
            _ordered(torch.randn(shapes[tensor.name], device="cuda").to(dtype), LAYOUTS[tensor.layout].packs_last)
            for tensor in given
        )

    # The peers are functions of the inputs alone, as the kernel's contenders are: weights are constants.
    prepared = [_with_weights(contender, rounded) for contender in others]
    return Workload(
        section=section,
        name=name,
        title=title,
        axes=axes,
        precision=precision,
        work=ours.call_work(bound),
        draw=draw,
        reference=lambda inputs: _in_pieces(layer.function, inputs, exact),
        contenders=[*ours.contenders(bound, weights, modes), *prepared],
        mode=modes[0],
        launch_counts=modes[0] == "graph",
        kernel=kernel.name,
        weights=weights,
    )


def _ordered(tensor: torch.Tensor, channels_last: bool) -> torch.Tensor:
    """Return the tensor as the kernel's layout has it, so that the peers are given the same; weights follow maps."""
    return tensor.contiguous(memory_format=torch.channels_last) if channels_last and tensor.ndim == 4 else tensor


def _with_weights(contender: Contender, weights: Sequence[torch.Tensor]) -> Contender:
    return replace(contender, prepare=lambda inputs: contender.prepare((*inputs, *weights)))


def _in_pieces(function: peers.TorchFunction, inputs: Inputs, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Compute the result in float64, a thousand images at a time."""
    pieces = zip(*(torch.split(tensor, 1000) for tensor in inputs), strict=True)
    return torch.cat([function(*(tensor.double() for tensor in piece), *weights) for piece in pieces])


def drawn_weight(shape: Sequence[int]) -> torch.Tensor:
    """Draw a weight from a normal distribution scaled by the fan-in, as trained weights roughly are."""
    fan_in = max(int(torch.Size(shape[1:]).numel()), 1)
    return torch.randn(tuple(shape), device="cuda") / fan_in**0.5
