"""Say what ``bench`` times of ``lenet5_int8``: the shipped quantized network, with images of bytes and of floats."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lenet_trt.bench import peers
from lenet_trt.bench.quantized import quantized_workload
from lenet_trt.bench.workload import Inputs, Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL
from .trained import trained


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the network at every batch size. Peers compute it in fp16: torch has no integer convolutions on a GPU."""
    from lenet_trt.export import load_weights
    from lenet_trt.export.mnist import test_set
    from lenet_trt.export.model import lenet5_from_weights

    weights = {name: torch.tensor(array) for name, array in trained().items()}
    scale = float(weights["x_scale"])
    pixels, labels = test_set()
    real = (torch.from_numpy(pixels).cuda().float() / 255).reshape(-1, 1, 28, 28)
    floats = {name: torch.from_numpy(array) for name, array in load_weights().items()}
    exact = lenet5_from_weights(floats).double().cuda()
    half = lenet5_from_weights(floats).cuda().half()
    for types, title in (("int8", "one byte a pixel"), ("int8_io_fp32", "float images")):
        step = scale if types == "int8" else 1.0

        def given(images: torch.Tensor, step: float = step) -> torch.Tensor:
            return images if step == 1.0 else (images / step).round().clamp(-128, 127).to(torch.int8)

        def in_half(x: torch.Tensor, step: float = step) -> torch.Tensor:
            return half(x.half() * step)

        others = peers.network_peers(in_half, autotune=not extent.quick)
        for n in extent.batches:
            bound = KERNEL.bind_axes({"n": n}, KERNEL.types_named(types))

            def draw(n: int = n, given: peers.TorchFunction = given) -> Inputs:
                return (given(torch.rand(n, 1, 28, 28, device="cuda")),)

            def logits(inputs: Inputs, step: float = step) -> torch.Tensor:
                return exact(inputs[0].double() * step)

            tested = n == len(labels)
            yield quantized_workload(
                bound,
                f"lenet5 {types} n={n}",
                f"LeNet-5, int8, {title}, n = {n}",
                draw,
                logits,
                weights,
                others,
                checked=(given(real),) if tested else None,
                labels=torch.from_numpy(labels).cuda() if tested else None,
            )
