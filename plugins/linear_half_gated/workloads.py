"""Say what ``bench`` times of ``linear_half_gated``: the gated layers of language models, of some words."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812 (as everyone calls it)

from lenet_trt.bench.layers import Layer, each_alone
from lenet_trt.bench.workload import Workload
from lenet_trt.bench.workloads import Extent

# Features of a word, and of its hidden layer: of T5 v1.1 base, Qwen2 0.5B and LLaMA 3.2 1B.
SIZES = ((768, 2048, "gelu_tanh"), (896, 4864, "silu"), (2048, 8192, "silu"))


def silu_gated(
    x: torch.Tensor, gate: torch.Tensor, gate_bias: torch.Tensor, w: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Compute the layer of LLaMA, Mistral and Qwen."""
    return F.silu(F.linear(x, gate, gate_bias)) * F.linear(x, w, bias)


def gelu_gated(
    x: torch.Tensor, gate: torch.Tensor, gate_bias: torch.Tensor, w: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Compute the layer of T5 v1.1 and Gemma."""
    return F.gelu(F.linear(x, gate, gate_bias), approximate="tanh") * F.linear(x, w, bias)


FUNCTIONS = {"silu": silu_gated, "gelu_tanh": gelu_gated}


def layer(inputs: int, outputs: int, activation: str) -> Layer:
    """Return a layer with two matrices of this size."""
    name = f"gated linear, {inputs} to {outputs}, {activation}"
    attributes = {"activation": activation}
    return Layer(name, "linear_half_gated", {"in": inputs, "out": outputs}, FUNCTIONS[activation], attributes)


def layers(extent: Extent) -> Iterator[Workload]:
    """Yield the layers, beside torch; ``n`` is the number of words."""
    yield from each_alone([layer(*size) for size in SIZES], extent)
