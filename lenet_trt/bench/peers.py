"""Make the peers: PyTorch, with cuDNN, cuBLAS and its compiler, does the same work on the same GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch

from lenet_trt.bench.workload import Contender, Inputs, Mode, TorchCall
from lenet_trt.errors import LenetTrtError

TorchFunction: TypeAlias = Callable[..., torch.Tensor]


def set_up_torch() -> None:
    """Set full float32 (no TF32), the fastest cuDNN algorithm, a quiet compiler and the same random numbers."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    inductor.autotune_num_choices_displayed = 0
    # One function is compiled for many workloads, each of which counts as another compilation of it.
    dynamo.recompile_limit = dynamo.accumulated_recompile_limit = 10_000


def direct(name: str, function: TorchFunction, modes: tuple[Mode, ...]) -> Contender:
    """Make a contender that calls the function as it is."""
    return Contender(name, False, lambda inputs: _bound(function, inputs), modes)


def compiled(name: str, function: TorchFunction, modes: tuple[Mode, ...], autotune: bool = True) -> Contender:
    """Make a contender that calls the function through ``torch.compile``.

    With ``autotune`` torch compiles it for each size and tries templates against the libraries. Without, it compiles in
    its default mode, where the size that changes becomes a variable.
    """
    mode = "max-autotune-no-cudagraphs" if autotune else "default"
    made = torch.compile(function, dynamic=False if autotune else None, fullgraph=True, mode=mode)
    return Contender(name, False, lambda inputs: _bound(made, inputs), modes, {"mode": mode})


def network_peers(function: TorchFunction, autotune: bool, quick: bool = False) -> list[Contender]:
    """Make the three ways in which a network usually runs; a quick run does not wait for the compiler."""
    torch.compiler.reset()  # sizes of other layers must not become variables of this layer
    name = "torch.compile, CUDA graph"
    return [
        direct("torch eager", function, ("eager",)),
        direct("torch, CUDA graph", function, ("graph",)),
        _left_out(name) if quick else compiled(name, function, ("graph",), autotune),
    ]


def _left_out(name: str) -> Contender:
    def refuse(inputs: Inputs) -> TorchCall:
        raise LenetTrtError("left out of a quick run: compiling takes longest")

    return Contender(name, False, refuse, ("graph",))


def _bound(function: TorchFunction, inputs: Inputs) -> TorchCall:
    return lambda: function(*inputs)
