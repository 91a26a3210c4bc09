"""Say what ``bench`` times of ``linear`` and ``linear_half``: layers of vision transformers and of a Swin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench import peers
from lenet_trt.bench.backends.protocol import Precision
from lenet_trt.bench.layers import Layer, layer_workload
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

MOST_IMAGES = 64
# Tokens of an image, input and output features, what follows.
SIZES = (
    (197, 192, 576, "none"),
    (197, 192, 768, "gelu"),
    (197, 768, 192, "none"),
    (197, 768, 2304, "none"),
    (197, 768, 3072, "gelu"),
    (197, 3072, 768, "none"),
    (3136, 96, 384, "gelu"),
    (196, 384, 1152, "none"),
)


def _layer(kernel: str, inputs: int, outputs: int, activation: str) -> Layer:
    function = _linear_gelu if activation == "gelu" else F.linear
    name = f"linear {inputs} to {outputs}"
    return Layer(name, kernel, {"in": inputs, "out": outputs}, function, {"activation": activation})


def _linear_gelu(*tensors: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.linear(*tensors))


def layers_by(
    kernel: str, precision: Precision, extent: Extent, sizes: Sequence[tuple[int, int, int, str]] = SIZES
) -> Iterator[Workload]:
    """Yield the layers by a kernel for some images, beside torch; ``n`` is the number of their tokens."""
    make = partial(layer_workload, "layers", modes=("graph",))
    for tokens, inputs, outputs, activation in sizes:
        layer = _layer(kernel, inputs, outputs, activation)
        tail = peers.network_peers(layer.function, autotune=False, quick=extent.quick)
        for images in sorted({min(images, MOST_IMAGES) for images in extent.layer_batches}):
            n = images * tokens
            name, title = f"{layer.name} {precision} n={n}", f"{layer.name}, {precision}, n = {n}"
            yield make(layer, n, precision, name, title, tail)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers in fp32."""
    yield from layers_by("linear", "fp32", extent)
