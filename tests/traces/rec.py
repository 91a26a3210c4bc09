"""The programs that were traced for this folder: rec.py matmul|eager|operators, or rec.py graph MODEL inside|outside.

Each calls cudaProfilerStart and cudaProfilerStop around what is to be traced. ``graph`` runs an ONNX file by the graph
runtime, each node and each inference in an NVTX range; the CUDA graph is made inside of what is traced, or before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import nvtx
import torch

DOMAIN = "lenet_trt"


def start() -> None:
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()


def stop() -> None:
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def matmul() -> None:
    a = torch.rand(600, 200, 8, 1, 64, device="cuda")
    b = torch.rand(600, 1, 8, 64, 1, device="cuda")
    for _ in range(2):
        torch.matmul(a, b)
    start()
    for index in range(3):
        with nvtx.annotate(f"iteration {index}", domain=DOMAIN):
            with nvtx.annotate("MatMul", domain=DOMAIN):
                torch.matmul(a, b)
            torch.cuda.synchronize()
    stop()


def lenet5() -> torch.nn.Sequential:
    nn = torch.nn
    network = nn.Sequential()
    layers = {
        **{"conv1": nn.Conv2d(1, 6, 5, padding=2), "relu1": nn.ReLU(), "pool1": nn.MaxPool2d(2)},
        **{"conv2": nn.Conv2d(6, 16, 5), "relu2": nn.ReLU(), "pool2": nn.MaxPool2d(2), "flatten": nn.Flatten()},
        **{"fc1": nn.Linear(400, 120), "relu3": nn.ReLU(), "fc2": nn.Linear(120, 84), "relu4": nn.ReLU()},
        "fc3": nn.Linear(84, 10),
    }
    for name, layer in layers.items():
        network.add_module(name, layer)
    return network.cuda().eval()


def eager(operators: bool) -> None:
    """Ranges in the default domain: one a layer, by hooks, or those that torch gives its operators."""
    network = lenet5()
    images = torch.rand(32, 1, 28, 28)
    if not operators:
        for name, layer in network.named_children():
            layer.register_forward_pre_hook(pushing(name))
            layer.register_forward_hook(popping)
    with torch.no_grad():
        for _ in range(3):
            network(images.cuda()).cpu()
        start()
        with torch.autograd.profiler.emit_nvtx() if operators else contextlib.nullcontext():
            for index in range(5):
                torch.cuda.nvtx.range_push(f"iteration {index}")
                network(images.cuda()).cpu()
                torch.cuda.nvtx.range_pop()
        stop()


def pushing(name: str) -> Callable[..., None]:
    def push(module: torch.nn.Module, arguments: Any) -> None:
        torch.cuda.nvtx.range_push(name)

    return push


def popping(module: torch.nn.Module, arguments: Any, output: Any) -> None:
    torch.cuda.nvtx.range_pop()


def graph(path: str, inside: bool) -> None:
    from lenet_trt.runtimes.load import load

    network = load(path, runtime="graph")
    program = network.on_device._program
    for at, step in enumerate(program.steps):
        program.steps[at] = dataclasses.replace(step, operator=named(step.operator, step.node.name))
    images = np.random.default_rng(0).random((32, 1, 28, 28), dtype=np.float32)
    for _ in range(3):
        network(images[:16])
    if not inside:
        for _ in range(3):
            network(images)
    start()
    if inside:
        with nvtx.annotate("prepare", domain=DOMAIN):
            network(images)
    for index in range(5):
        with nvtx.annotate(f"iteration {index}", domain=DOMAIN):
            network(images)
    stop()


def named(operator: Callable[..., Any], name: str) -> Callable[..., Any]:
    def marked(node: Any, *arguments: Any) -> Any:
        with nvtx.annotate(name, domain=DOMAIN):
            return operator(node, *arguments)

    return marked


if __name__ == "__main__":
    case = sys.argv[1]
    if case == "matmul":
        matmul()
    elif case in ("eager", "operators"):
        eager(case == "operators")
    else:
        graph(sys.argv[2], sys.argv[3] == "inside")
    print(case, "done:", torch.__version__, torch.cuda.get_device_name())
