"""List the runtimes in the order in which they are tried by default, and the values of --runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lenet_trt.cuda.gpus import gpus
from lenet_trt.errors import UsageError

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Runtime:
    """Describe a runtime.

    ``title`` is what messages call it. ``takes_engines``: it runs TensorRT engines, and else ONNX files. ``obstacle``
    says why it does not work here, or None; ``reason`` why it is taken where it does. ``make`` takes an ONNX model,
    and the number of processor cores that it may use where it computes on them, None for all (engines are loaded with
    their sidecar). ``recorders`` can trace it on a GPU, the best first.
    """

    name: str
    title: str
    takes_engines: bool
    obstacle: Callable[[], str | None]
    reason: Callable[[], str]
    make: Callable[[ModelProto, int | None], Any] | None
    recorders: tuple[str, ...] = ("nsys", "cupti")


def _no_gpu() -> str | None:
    return None if gpus().devices else f"there is no GPU: {gpus().problem}"


def _no_cuda_provider() -> str | None:
    from lenet_trt.runtimes.ort import has_cuda

    return _no_gpu() or (None if has_cuda() else "ONNX Runtime has no CUDA provider")


def _graph(model: ModelProto, threads: int | None) -> Any:
    from lenet_trt.runtimes.graph.runtime import GraphRuntime

    return GraphRuntime(model)


def _ort_cuda(model: ModelProto, threads: int | None) -> Any:
    from lenet_trt.runtimes.ort import OrtCuda

    return OrtCuda(model)


def _ort_cpu(model: ModelProto, threads: int | None) -> Any:
    from lenet_trt.runtimes.ort import OrtCpu

    return OrtCpu(model, threads=threads)


_TENSORRT = Runtime(
    "tensorrt", "tensorrt", True, _no_gpu, lambda: "it is an engine", None, recorders=("nsys", "cupti", "own")
)
_GRAPH = Runtime("graph", "graph", False, _no_gpu, lambda: "there is a CUDA GPU", _graph)
_ORT_CUDA = Runtime(
    "ort-cuda",
    "ort on the GPU",
    False,
    _no_cuda_provider,
    lambda: "there is a CUDA GPU, and ONNX Runtime has its provider",
    _ort_cuda,
)
_ORT_CPU = Runtime(
    "ort-cpu",
    "ort on the CPU",
    False,
    lambda: None,
    lambda: _no_cuda_provider() or "no runtime on the GPU takes it",
    _ort_cpu,
    recorders=("own",),  # no other recorder sees it
)

# The values of --runtime, and the runtimes that are tried for each.
CHOICES: Mapping[str, tuple[Runtime, ...]] = {
    "auto": (_TENSORRT, _GRAPH, _ORT_CUDA, _ORT_CPU),
    "tensorrt": (_TENSORRT,),
    "graph": (_GRAPH,),
    "ort": (_ORT_CUDA, _ORT_CPU),
    "ort-cpu": (_ORT_CPU,),
}


def candidates(choice: str) -> tuple[Runtime, ...]:
    """Return the runtimes for which a choice stands, in the order in which they are tried.

    Raises:
        UsageError: there is no such choice; the message lists the choices.
    """
    if choice not in CHOICES:
        raise UsageError(f"--runtime {choice}: wanted one of {', '.join(CHOICES)}")
    return CHOICES[choice]


def engines_alone(choice: str) -> bool:
    """Say whether a choice runs only engines."""
    return all(runtime.takes_engines for runtime in candidates(choice))
