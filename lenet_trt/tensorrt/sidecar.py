"""Read and write the sidecar: JSON beside an engine, with its inputs, its results, and the hash of the engine.

A later stage reads it instead of calling an earlier one. ``inputs`` holds everything that decides the engine's
content; two builds with equal ``inputs`` make engines that do the same.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, TypedDict

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_bytes, sha256_file
from lenet_trt.schema import Count, Real, Whole, checked, json_text, json_value

SCHEMA = 2  # 1 had no tf32 and other names of plugin routes
_WANTED = "a sidecar, as lenet-trt build writes it"
_FIX = "build the engine again, with --overwrite where the file is not a sidecar"


@dataclass(frozen=True)
class FileRecord:
    """Describe a file beside the sidecar: its name, size and content hash."""

    name: str
    size_bytes: Count
    sha256: str

    @classmethod
    def of(cls, name: str, content: bytes) -> FileRecord:
        """Describe a file that will be called ``name``."""
        return cls(name, len(content), sha256_bytes(content))


def made_by(command: Sequence[str]) -> dict[str, Any]:
    """Say by which command, when and where a file is made; a file made from Python has no command."""
    return {
        "command": shlex.join(command) if command else None,
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


class SidecarOptions(TypedDict):
    """Type the builder's options that the code reads."""

    tf32: bool


class SidecarInputs(TypedDict):
    """Type the inputs that the code reads; a sidecar has more: everything by which two builds are compared."""

    flavor: Literal["rtx", "tensorrt"]
    flavor_version: str
    targets: list[str]
    gpu: str | None
    precision: str | None
    options: SidecarOptions


class PluginEntry(TypedDict):
    """Type one plugin node: the kernel, the nodes that it replaced, and the route by which TensorRT gets it."""

    node: str
    kernel: str
    types: str | None
    replaced: list[str]
    route: str
    source_sha256: str


class Shapes(TypedDict):
    """Type the profile of an input."""

    min: list[Whole]
    opt: list[Whole]
    max: list[Whole]


class _TensorFacts(TypedDict):
    io: Literal["input", "output"]
    dtype: str
    shape: list[Whole | str]


class TensorEntry(_TensorFacts, total=False):
    """Type an input or output of the engine; ``profile`` where it is dynamic."""

    profile: Shapes


class _EvaluationFacts(TypedDict):
    correct: Count | None
    correct_before: Count | None
    total: Count | None
    difference: Real | None
    method: str
    problem: str | None


class EvaluationEntry(_EvaluationFacts, total=False):
    """Type what ONNX Runtime found, as ``build.evaluate.Evaluation`` has it; ``infinite`` for infinite differences."""

    infinite: Literal["built", "given"] | None


class _Parts(TypedDict):
    inputs: SidecarInputs
    plugins: list[PluginEntry]
    tensors: dict[str, TensorEntry]
    evaluation: EvaluationEntry


@dataclass(frozen=True)
class Sidecar:
    """Describe an engine.

    ``inputs``: model hash, flavor and version, targets, precision, profiles, options, plugins, toolkit version.
    ``origin``: where the model came from.
    ``plugins``: for each plugin node what it replaced, by which kernel, source and route.
    ``tensors``: the engine's inputs and outputs, name -> {"io", "dtype", "shape", and "profile" where dynamic}.
    ``library``: the plugin library that has to be loaded first, where its plugins came by that route.
    ``evaluation``: right answers on labelled images, difference from the model given, and how both were measured.
    ``made``: when, by which command, on what.
    """

    engine: FileRecord
    onnx: FileRecord
    inputs: dict[str, Any]
    origin: str
    plugins: list[dict[str, Any]]
    tensors: dict[str, Any]
    evaluation: dict[str, Any]
    made: dict[str, Any]
    library: FileRecord | None = None
    schema: int = field(default=SCHEMA)

    def to_json(self) -> str:
        """Return the text of the file."""
        return json_text(asdict(self)) + "\n"

    def mismatch(self, path: Path) -> str | None:
        """Say how the engine at ``path`` differs from the one described here; None when it is that one.

        The content decides and not the name: an engine that was renamed with its sidecar is still the same.
        """
        if not path.exists():
            return f"{path} is missing"
        size = path.stat().st_size
        if size != self.engine.size_bytes:
            return f"{path} has {size} bytes, and its sidecar says {self.engine.size_bytes}"
        if sha256_file(path) != self.engine.sha256:
            return f"the content of {path} is not what its sidecar says (SHA-256 differs)"
        return None


def sidecar_path(engine: Path) -> Path:
    """Return the path of an engine's sidecar: the same name with ``.json``."""
    return engine.with_suffix(".json")


def model_path(engine: Path) -> Path:
    """Return the path of the model from which an engine was built: the engine's name with ``.onnx`` added."""
    return engine.with_name(f"{engine.name}.onnx")


def described_by(path: Path) -> Path | None:
    """Return the engine that a sidecar names, where that file is beside it; None where the sidecar cannot be read."""
    try:
        engine = path.with_name(read_sidecar(path).engine.name)
    except (LenetTrtError, ValueError):
        return None
    return engine if engine.is_file() else None


def read_sidecar(path: Path) -> Sidecar:
    """Read a sidecar.

    Raises:
        LenetTrtError: it is missing, not JSON, of another schema or without a field; the message says the fix.
    """
    if not path.exists():
        raise LenetTrtError(
            f"{path} is missing, so the content of its engine is unknown: {_FIX} (an ONNX model's name ends in .onnx)"
        )
    data = json_value(path, wanted=_WANTED, fix=_FIX)
    seen = data.get("schema") if isinstance(data, dict) else None
    if seen != SCHEMA:
        raise LenetTrtError(
            f"{path} has schema {seen!r:.60}, not {SCHEMA}: {_FIX}, or use the version of lenet-trt that wrote it"
        )
    checked(data, _Parts, str(path), wanted=_WANTED, fix=_FIX)
    found = checked(data, Sidecar, str(path), wanted=_WANTED, fix=_FIX)
    tested = found.evaluation
    if tested["problem"] is None and (
        (tested["difference"] is None and tested.get("infinite") is None)
        or (tested["correct"] is not None and (tested["correct_before"] is None or not tested["total"]))
    ):
        raise LenetTrtError(f"{path} is not {_WANTED}: its evaluation lacks a figure and does not say why: {_FIX}")
    return found
