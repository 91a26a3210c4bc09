"""The workloads: LeNet-5, the MatMul and the Conv of the write-ups, and LeNet-5's layers one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench import ours, peers
from lenet_trt.bench.workload import Contender, Inputs, Mode, Workload
from lenet_trt.kernel.declaration import AttributeValue
from lenet_trt.kernel.registry import kernel as kernel_named

Precision: TypeAlias = Literal["fp32", "fp16"]

PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16")
BATCHES = (1, 32, 1024, 10_000)
MATMUL = {"outer": 600, "broadcast": 200, "inner": 8, "rows": 1, "k": 64}
CONV = {"n": 10_000, "c": 1, "h": 28, "w": 28, "k": 50}
DTYPES = {"fp32": torch.float32, "fp16": torch.float16}
LAUNCHES: tuple[Mode, ...] = ("launch", "graph")


@dataclass(frozen=True)
class Layer:
    """One layer of LeNet-5: the kernel that computes it, its sizes and attributes, and the same in torch."""

    name: str
    kernel: str
    axes: dict[str, int]
    attributes: dict[str, AttributeValue]
    function: peers.Function


LAYERS = (
    Layer("conv1 stage", "conv5x5_bias_relu_pool2", {"c": 1, "h": 28, "w": 28, "k": 6}, {}, lambda *t: _stage(*t)),
    Layer("conv2 stage", "conv5x5_bias_relu_pool2", {"c": 6, "h": 12, "w": 12, "k": 16}, {}, lambda *t: _stage(*t)),
    Layer("maxpool 2x2", "maxpool2", {"c": 6, "h": 24, "w": 24}, {}, lambda x: F.max_pool2d(x, 2)),
    Layer("fc1", "dense_bias_relu", {"in": 256, "out": 120}, {"relu": 1}, lambda *t: F.relu(F.linear(*t))),
    Layer("fc2", "dense_bias_relu", {"in": 120, "out": 84}, {"relu": 1}, lambda *t: F.relu(F.linear(*t))),
    Layer("fc3", "dense_bias_relu", {"in": 84, "out": 10}, {"relu": 0}, lambda *t: F.linear(*t)),
)


def lenet5(batches: Sequence[int] = BATCHES, autotune: bool = True) -> Iterator[Workload]:
    """The network with its trained weights; images are float32, also for the network in half precision."""
    from lenet_trt.export import load_weights
    from lenet_trt.export.model import lenet5_from_weights

    kernel = kernel_named("lenet5")
    images, labels = _test_set()
    trained = {name: torch.from_numpy(array) for name, array in load_weights().items()}
    exact = lenet5_from_weights(trained).double().cuda()
    by_kernel = {name.replace(".", "_"): tensor for name, tensor in trained.items()}
    for precision in PRECISIONS:
        dtype = DTYPES[precision]
        network = lenet5_from_weights(trained).to("cuda", dtype)
        types = ours.types_of(kernel, TX="float32", T=str(dtype).removeprefix("torch."))
        others = peers.network_peers(_with_casts(network, dtype), autotune)
        for n in batches:
            bound = ours.bind(kernel, {"n": n}, types)

            real = n == len(labels)

            def draw(n: int = n) -> Inputs:
                return (torch.rand(n, 1, 28, 28, device="cuda"),)

            yield Workload(
                section="lenet5",
                name=f"lenet5 {precision} n={n}",
                title=f"LeNet-5, {precision}, n = {n}",
                axes={"n": n},
                precision=precision,
                work=ours.work_of(bound),
                draw=draw,
                reference=lambda inputs: exact(inputs[0].double()),
                contenders=[
                    *ours.contenders(bound, by_kernel, ("graph",)),
                    *others,
                ],
                mode="graph",
                launch_counts=True,
                kernel=kernel.name,
                weights=by_kernel,
                checked=(images,) if real else None,
                labels=labels if real else None,
            )


def matmul(autotune: bool = True) -> Iterator[Workload]:
    """The MatMul whose last dimension is 1, of which the second operand is broadcast."""
    kernel = kernel_named("batched_matvec")
    for precision in PRECISIONS:
        bound = ours.bind(kernel, MATMUL, ours.types_of(kernel, T=_dtype_name(precision)))
        shapes = bound.input_shapes

        def draw(shapes: Sequence[Sequence[int]] = shapes, precision: Precision = precision) -> Inputs:
            return tuple(torch.randn(tuple(shape), device="cuda").to(DTYPES[precision]) for shape in shapes)

        yield Workload(
            section="matmul",
            name=f"matmul {precision}",
            title=f"MatMul {_sizes(shapes[0])} x {_sizes(shapes[1])}, {precision}",
            axes=MATMUL,
            precision=precision,
            work=ours.work_of(bound),
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
            kernel=kernel.name,
        )


def conv(autotune: bool = True) -> Iterator[Workload]:
    """10,000 images through 50 filters: with bias alone, and with ReLU and max-pool as well."""
    for kernel_name, function, label in (
        ("conv5x5_bias", F.conv2d, "bias"),
        ("conv5x5_bias_relu_pool2", _stage, "bias, ReLU, 2x2 max-pool"),
    ):
        for precision in PRECISIONS:
            layer = Layer(label, kernel_name, {name: size for name, size in CONV.items() if name != "n"}, {}, function)
            title = f"Conv 10000x1x28x28, 50 filters 5x5, {label}, {precision}"
            tail = [
                peers.direct("cuDNN through torch", function, LAUNCHES),
                peers.compiled("torch.compile", function, LAUNCHES, autotune),
            ]
            yield _layer("conv", layer, CONV["n"], precision, f"{kernel_name} {precision}", title, tail, LAUNCHES)


def layers(batches: Sequence[int] = BATCHES, quick: bool = False) -> Iterator[Workload]:
    """LeNet-5's layers, each alone."""
    for layer in LAYERS:
        for precision in PRECISIONS:
            tail = peers.network_peers(layer.function, autotune=False, quick=quick)
            for n in batches:
                name = f"{layer.name} {precision} n={n}"
                title = f"{layer.name}, {precision}, n = {n}"
                yield _layer("layers", layer, n, precision, name, title, tail, ("graph",))


def _layer(
    section: str,
    layer: Layer,
    n: int,
    precision: Precision,
    name: str,
    title: str,
    others: Sequence[Contender],
    modes: tuple[Mode, ...],
) -> Workload:
    kernel = kernel_named(layer.kernel)
    axes = {"n": n, **layer.axes}
    dtype = DTYPES[precision]
    bound = ours.bind(kernel, axes, ours.types_of(kernel, T=_dtype_name(precision)), layer.attributes)
    shapes = {tensor.name: shape for tensor, shape in zip(kernel.inputs, bound.input_shapes, strict=True)}
    weights = {tensor.name: _weight(shapes[tensor.name]) for tensor in kernel.inputs if tensor.weight}
    rounded = [tensor.to(dtype) for tensor in weights.values()]
    exact = [tensor.double() for tensor in weights.values()]

    def draw() -> Inputs:
        return (torch.randn(shapes["x"], device="cuda").to(dtype),)

    # The peers are functions of the image alone, as the kernel's contenders are: weights are constants.
    prepared = [_with_weights(contender, rounded) for contender in others]
    return Workload(
        section=section,
        name=name,
        title=title,
        axes=axes,
        precision=precision,
        work=ours.work_of(bound),
        draw=draw,
        reference=lambda inputs: _in_pieces(layer.function, inputs[0], exact),
        contenders=[*ours.contenders(bound, weights, modes), *prepared],
        mode=modes[0],
        launch_counts=modes[0] == "graph",
        kernel=kernel.name,
        weights=weights,
    )


def _test_set() -> tuple[torch.Tensor, torch.Tensor]:
    """The 10,000 MNIST test images as the network takes them, and their classes, on the GPU."""
    from lenet_trt.export.mnist import test_set

    pixels, labels = test_set()
    images = torch.from_numpy(pixels).cuda().float().div(255)
    return images.reshape(-1, 1, 28, 28), torch.from_numpy(labels).cuda()


def _with_casts(network: torch.nn.Module, dtype: torch.dtype) -> peers.Function:
    return lambda x: network(x.to(dtype))


def _with_weights(contender: Contender, weights: Sequence[torch.Tensor]) -> Contender:
    return replace(contender, prepare=lambda inputs: contender.prepare((*inputs, *weights)))


def _in_pieces(function: peers.Function, x: torch.Tensor, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """The result in float64, a thousand images at a time."""
    return torch.cat([function(piece.double(), *weights) for piece in torch.split(x, 1000)])


def _weight(shape: Sequence[int]) -> torch.Tensor:
    """Normally distributed and scaled by the fan-in, as trained weights roughly are."""
    fan_in = max(int(torch.Size(shape[1:]).numel()), 1)
    return torch.randn(tuple(shape), device="cuda") / fan_in**0.5


def _stage(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(F.relu(F.conv2d(x, weights, bias)), 2)


def _einsum(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.einsum("obirk,oik->obir", a, x[:, 0, :, :, 0]).unsqueeze(-1)


def _multiply_and_sum(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (a * x.transpose(-1, -2)).sum(-1, keepdim=True)


def _dtype_name(precision: Precision) -> str:
    return str(DTYPES[precision]).removeprefix("torch.")


def _sizes(shape: Sequence[int]) -> str:
    return f"({','.join(map(str, shape))})"
