"""Take a network to other machines: its files as bytes, and what each worker loads them with."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import sha256_bytes
from lenet_trt.onnx_model.ports import Port, ports
from lenet_trt.onnx_model.read import load_model, model_files
from lenet_trt.runtimes.load import load
from lenet_trt.runtimes.table import candidates
from lenet_trt.tensorrt.find_library import library_for_engine
from lenet_trt.tensorrt.sidecar import model_path, sidecar_path
from lenet_trt.tensorrt.vouch import vouched

if TYPE_CHECKING:
    from lenet_trt.runtimes.network import Network


@dataclass(frozen=True, eq=False)
class ModelFiles:
    """Hold the files of a network by name, the one to load, and the runtime that loads it."""

    files: Mapping[str, bytes]
    name: str
    runtime: str
    library: str | None
    inputs: tuple[Port, ...]

    @property
    def sha256(self) -> str:
        """Hash all files: the network's identity."""
        return sha256_bytes("".join(f"{name} {sha256_bytes(data)}\n" for name, data in self.files.items()).encode())

    def load(self, threads: int | None = None) -> Network:
        """Load the network from files of its own; ``threads`` as in ``lenet_trt.run.load``."""
        with tempfile.TemporaryDirectory(prefix="lenet-trt-model-") as folder:
            for name, data in self.files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            library = None if self.library is None else Path(folder) / self.library
            return load(Path(folder) / self.name, self.runtime, library=library, threads=threads)


def read_model(path: Path, runtime: str, library: Path | None) -> ModelFiles:
    """Read an ONNX file with its weights, or an engine with its sidecar, its ONNX and its plugin library.

    Raises:
        UsageError: the runtime does not take such a file.
        LenetTrtError: a file is missing or damaged, or no sidecar vouches for the engine.
    """
    chosen = candidates(runtime)
    if path.suffix == ".onnx":
        if all(each.takes_engines for each in chosen):
            raise UsageError(
                f"{path} is not an engine: build one with lenet-trt build {path}, or choose another runtime"
            )
        found = {str(each.relative_to(path.parent)): each.read_bytes() for each in model_files(path)}
        return ModelFiles(found, path.name, runtime, None, ports(load_model(path))[0])
    sidecar = vouched(path)
    beside = model_path(path)
    if not beside.is_file():
        raise LenetTrtError(f"{beside}, from which {path.name} was built, is missing: build it again with --force")
    needed = library_for_engine(path, sidecar, library)
    every = [path, sidecar_path(path), *model_files(beside)]
    found = {str(each.relative_to(path.parent)): each.read_bytes() for each in every}
    if needed is not None:
        found[needed.name] = needed.read_bytes()
    return ModelFiles(found, path.name, runtime, None if needed is None else needed.name, ports(load_model(beside))[0])
