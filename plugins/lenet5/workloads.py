"""Say what ``bench`` times of ``lenet5``: the network with its trained weights."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lenet_trt.bench import ours, peers
from lenet_trt.bench.layers import DTYPES, PRECISIONS
from lenet_trt.bench.workload import Inputs, Workload
from lenet_trt.bench.workloads import Extent

from . import KERNEL


def workloads(extent: Extent) -> Iterator[Workload]:
    """Yield the network at every batch size; images are float32, also for the network in half precision."""
    from lenet_trt.export import load_weights
    from lenet_trt.export.model import lenet5_from_weights

    images, labels = _test_set()
    trained = {name: torch.from_numpy(array) for name, array in load_weights().items()}
    exact = lenet5_from_weights(trained).double().cuda()
    by_kernel = {name.replace(".", "_"): tensor for name, tensor in trained.items()}
    for precision in PRECISIONS:
        dtype = DTYPES[precision]
        network = lenet5_from_weights(trained).to("cuda", dtype)
        types = ours.types_of(KERNEL, TX="float32", T=str(dtype).removeprefix("torch."))
        others = peers.network_peers(_with_casts(network, dtype), autotune=not extent.quick)
        for n in extent.batches:
            bound = KERNEL.bind_axes({"n": n}, types)
            real = n == len(labels)

            def draw(n: int = n) -> Inputs:
                return (torch.rand(n, 1, 28, 28, device="cuda"),)

            yield Workload(
                section="lenet5",
                name=f"lenet5 {precision} n={n}",
                title=f"LeNet-5, {precision}, n = {n}",
                axes={"n": n},
                precision=precision,
                work=ours.call_work(bound),
                draw=draw,
                reference=lambda inputs: exact(inputs[0].double()),
                contenders=[*ours.contenders(bound, by_kernel, ("graph",)), *others],
                mode="graph",
                launch_counts=True,
                kernel=KERNEL.name,
                weights=by_kernel,
                checked=(images,) if real else None,
                labels=labels if real else None,
            )


def _test_set() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the 10,000 MNIST test images as the network's input, and their classes, on the GPU."""
    from lenet_trt.export.mnist import test_set

    pixels, labels = test_set()
    images = torch.from_numpy(pixels).cuda().float().div(255)
    return images.reshape(-1, 1, 28, 28), torch.from_numpy(labels).cuda()


def _with_casts(network: torch.nn.Module, dtype: torch.dtype) -> peers.TorchFunction:
    return lambda x: network(x.to(dtype))
