"""Find the networks of the survey as ONNX files: in the user's folder, or exported now."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx

from lenet_trt.bench.suite import Recording
from lenet_trt.bench.zoo.networks import ZooNetwork
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import sha256_file
from lenet_trt.onnx_model.read import load_model
from lenet_trt.runtimes.ort import runner


@contextmanager
def kept_folder(chosen: Path | None, option: str) -> Iterator[Path]:
    """Yield the folder that the user named with an option, which is made, or one for this run alone.

    Raises:
        UsageError: it cannot be made.
    """
    if chosen is not None:
        try:
            chosen.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{option} {chosen}: wanted a folder, but it cannot be made ({error.strerror})") from error
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="lenet-trt-zoo-") as made:
        yield Path(made)


@dataclass(frozen=True)
class ExportedNetwork:
    """Hold a network and its ONNX file; ``error``: how far ONNX Runtime is from torch, where it was exported now."""

    network: ZooNetwork
    path: Path
    error: float | None

    @cached_property
    def model(self) -> onnx.ModelProto:
        """Return the exported model, with an open batch."""
        return load_model(self.path)

    def at(self, batch: int) -> onnx.ModelProto:
        """Return the model with this batch: TensorRT then tells all sizes of an engine's tensors."""
        model = copy.deepcopy(self.model)
        for value in (*model.graph.input, *model.graph.output):
            for dim in value.type.tensor_type.shape.dim[:1]:
                dim.dim_value = batch
        del model.graph.value_info[:]
        return model

    def shapes(self, batch: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input."""
        return {name: (batch, *each.shape) for name, each in self.network.inputs.items()}

    @cached_property
    def numbers_of_one(self) -> int:
        """Return how many numbers the results of one input are."""
        return sum(result.size for result in runner(self.at(1))(self.network.drawn(1)))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Return what a record keeps of the file."""
        nodes = self.model.graph.node
        return {
            "onnx_sha256": sha256_file(self.path),
            "onnx_nodes": sum(node.op_type != "Constant" for node in nodes),
            "operators": len({node.op_type for node in nodes} - {"Constant"}),
            **({} if self.error is None else {"error": self.error}),
        }


def exported_network(network: ZooNetwork, folder: Path, found: Recording) -> ExportedNetwork:
    """Return the network's file in the folder; export it if it is not there.

    Raises:
        LenetTrtError: torch or torchvision is missing, or the export is wrong.
    """
    path = folder / f"{network.name}.onnx"
    if path.is_file():
        return ExportedNetwork(network, path, None)
    found.say(f"{network.name}: export")
    try:
        from lenet_trt.bench.zoo.exported import write
    except ImportError as error:
        raise LenetTrtError(
            f"{network.name} is not in the folder of the exported networks, and torch, which exports it, cannot be "
            f"imported ({error}): pip install 'lenet-trt[zoo]', or name a folder that has it, with --models"
        ) from error
    return ExportedNetwork(network, path, write(network, path))
