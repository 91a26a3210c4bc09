"""What a server gets of a network: its file, its tensors, and the largest batch that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from lenet_trt.deploy.config import TritonTensor
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.onnx_model.ports import Port, ports
from lenet_trt.onnx_model.read import load_model, model_files
from lenet_trt.runtimes.ort import for_cpu
from lenet_trt.tensorrt.find_library import library_for_engine
from lenet_trt.tensorrt.flavors import PRODUCTS
from lenet_trt.tensorrt.plan_header import read_header
from lenet_trt.tensorrt.routes import ROUTES, recorded_route
from lenet_trt.tensorrt.sidecar import Sidecar, model_path, sidecar_path
from lenet_trt.tensorrt.vouch import vouched

# The largest batch of a network that takes any: what lenet-trt run sends, too.
DEFAULT_MAX_BATCH = 256
_OPEN = -1


@dataclass(frozen=True, eq=False)
class Served:
    """A network to serve: ``data`` is its file, ``tensorrt`` the version that built an engine, ``library`` its plugins.

    ``optimize`` is how far ONNX Runtime may optimize the graph: see ``for_cpu``.
    ``read`` are the files that it was made of.
    """

    data: bytes
    inputs: tuple[TritonTensor, ...]
    outputs: tuple[TritonTensor, ...]
    max_batch: int
    read: tuple[Path, ...]
    tensorrt: str | None = None
    library: Path | None = None
    optimize: str = "yes"


def engine_to_serve(path: Path, library: Path | None, shapes: Path | None, max_batch: int | None) -> Served:
    """Read an engine for Triton's backend "tensorrt"; ``shapes`` is the ONNX of an engine that has no sidecar.

    Raises:
        UsageError: the file is no engine, or ``max_batch`` is larger than the engine takes.
        LenetTrtError: the engine was changed, is of TensorRT-RTX, or needs Python where it runs.
    """
    if path.suffix == ".onnx":
        raise UsageError(
            f"{path} is an ONNX file, and Triton's backend tensorrt takes engines: build one (lenet-trt build {path} "
            "--flavor tensorrt, or trtexec), or say --backend python"
        )
    header = read_header(path)
    if header.product != PRODUCTS["tensorrt"]:
        raise LenetTrtError(
            f"{path} was built by {header.product}, and Triton's backend loads engines of {PRODUCTS['tensorrt']}: "
            "build it with --flavor tensorrt, or say --backend python"
        )
    if shapes is None and not sidecar_path(path).is_file():
        raise LenetTrtError(
            f"{path} has no sidecar {sidecar_path(path).name}, so its tensors are not known: give the ONNX file that "
            "it was built from with --onnx, and its largest batch with --max-batch"
        )
    if shapes is not None:
        if max_batch is None:
            raise UsageError("--onnx says the tensors of an engine, and not its largest batch: add --max-batch N")
        inputs, outputs = ports(onnx.load(shapes, load_external_data=False))
        tensors, most = _without_batch(inputs, outputs, max_batch)
        return Served(path.read_bytes(), *tensors, most, (path, shapes), header.version, library)
    sidecar = vouched(path)
    for route in sorted({entry["route"] for entry in sidecar.plugins}):
        if recorded_route(route).needs_python:
            others = ", ".join(name for name, each in ROUTES.items() if not each.needs_python)
            raise LenetTrtError(
                f"the plugins of {path} came by the route {route}, which needs Python in the process that runs the "
                f"engine: build it with --plugin-route, one of {others}"
            )
    inputs, outputs = _ports_of(sidecar, "input"), _ports_of(sidecar, "output")
    tensors, most = _without_batch(inputs, outputs, _engine_batch(path, sidecar, max_batch))
    needed = library_for_engine(path, sidecar, library)
    files = (path, sidecar_path(path), *((needed,) if needed else ()))
    return Served(path.read_bytes(), *tensors, most, files, header.version, needed)


def onnx_to_serve(path: Path, max_batch: int | None) -> Served:
    """Read an ONNX or a fused ONNX file, or the one that an engine was built from, for ONNX Runtime on any server.

    Plugin nodes become the nodes that they replaced, and 16-bit arithmetic is emulated as ``lenet-trt run`` does.

    Raises:
        LenetTrtError: the file cannot be read or is too large for one file, or a tensor has a type that NumPy lacks.
    """
    if path.suffix != ".onnx":
        vouched(path)
        path = model_path(path)
    model = load_model(path)
    inputs, outputs = ports(model)
    for port in (*inputs, *outputs):
        if port.dtype == "bfloat16":
            raise LenetTrtError(
                f"{port.name} is bfloat16, which Triton's Python backend does not pass on: build the network with fp32 "
                "inputs and outputs (lenet-trt build --bf16 keeps them)"
            )
    model, optimize = for_cpu(model)
    tensors, most = _without_batch(inputs, outputs, max_batch or DEFAULT_MAX_BATCH)
    try:
        data = model.SerializeToString()
    except ValueError as error:
        raise LenetTrtError(f"{path} is larger than the 2 GiB that one ONNX file holds: serve an engine") from error
    return Served(data, *tensors, most, tuple(model_files(path)), optimize=optimize)


def _ports_of(sidecar: Sidecar, io: str) -> tuple[Port, ...]:
    return tuple(
        Port(name, entry["dtype"], tuple(entry["shape"]))
        for name, entry in sidecar.tensors.items()
        if entry["io"] == io
    )


def _engine_batch(path: Path, sidecar: Sidecar, asked: int | None) -> int:
    """Return the largest batch that every input of the engine takes."""
    dynamic = [entry for entry in sidecar.tensors.values() if "profile" in entry and isinstance(entry["shape"][0], str)]
    profiles: list[dict[str, Any]] = [entry["profile"] for entry in dynamic]
    if not profiles:
        return asked or 1
    least, most = max(each["min"][0] for each in profiles), min(each["max"][0] for each in profiles)
    if least > 1:
        raise LenetTrtError(
            f"{path} takes batches from {least} on, and Triton sends smaller ones: build it with --batch 1:OPT:MAX"
        )
    if asked is not None and asked > most:
        raise UsageError(f"--max-batch {asked}: {path} takes batches up to {most}")
    return asked or most


def _without_batch(
    inputs: Sequence[Port], outputs: Sequence[Port], max_batch: int
) -> tuple[tuple[tuple[TritonTensor, ...], tuple[TritonTensor, ...]], int]:
    """Take the batch axis away where every tensor has the same open first axis; else the server does not batch."""
    first = {port.axes[0] if port.axes else None for port in (*inputs, *outputs)}
    batched = len(first) == 1 and isinstance(next(iter(first)), str)
    most = max_batch if batched else 0
    return (_tensors(inputs, batched), _tensors(outputs, batched)), most


def _tensors(found: Sequence[Port], batched: bool) -> tuple[TritonTensor, ...]:
    for port in found:
        if port.dtype not in ELEMENT_TYPES:
            raise LenetTrtError(f"{port.name} is {port.dtype}, which no server takes")
    return tuple(
        TritonTensor(
            port.name, port.dtype, tuple(_OPEN if isinstance(axis, str) else axis for axis in port.axes[batched:])
        )
        for port in found
    )
