"""The JSON beside an engine: what went in, what came out, and whether the engine is still that one.

A later stage reads it instead of calling an earlier one. ``inputs`` holds everything that decides the engine's
content; two builds with equal ``inputs`` make engines that do the same.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_bytes, sha256_file

SCHEMA = 2  # 1 had no tf32 and other names of plugin routes


@dataclass(frozen=True)
class FileRecord:
    """A file's name (it lies beside the sidecar), size and content hash."""

    name: str
    size_bytes: int
    sha256: str

    @classmethod
    def of(cls, name: str, content: bytes) -> FileRecord:
        """Describe a file that will be called ``name``."""
        return cls(name, len(content), sha256_bytes(content))


@dataclass(frozen=True)
class Sidecar:
    """What is known of one engine.

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
        """The file's text."""
        return json.dumps(asdict(self), indent=2) + "\n"

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
    """Where the sidecar of an engine lies: the same name with ``.json``."""
    return engine.with_suffix(".json")


def model_path(engine: Path) -> Path:
    """Where the model that an engine was built from lies: the engine's name with ``.onnx`` added."""
    return engine.with_name(f"{engine.name}.onnx")


def read_sidecar(path: Path) -> Sidecar:
    """Read a sidecar.

    Raises:
        LenetTrtError: missing, not JSON, of another schema, or with fields missing; says how to make it again.
    """
    fix = "build the engine again with --force"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LenetTrtError(
            f"{path} is missing, so nothing says what its engine is: {fix} (an ONNX model's name ends in .onnx)"
        ) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise LenetTrtError(f"{path} is not a readable sidecar ({error}): {fix}") from error
    seen = data.get("schema") if isinstance(data, dict) else None
    if seen != SCHEMA:
        raise LenetTrtError(
            f"{path} has schema {seen!r} and this lenet-trt reads {SCHEMA}: {fix}, or use the version that wrote it"
        )
    try:
        data["engine"], data["onnx"] = FileRecord(**data["engine"]), FileRecord(**data["onnx"])
        if data.get("library") is not None:
            data["library"] = FileRecord(**data["library"])
        return Sidecar(**data)
    except (KeyError, TypeError) as error:
        raise LenetTrtError(f"{path} is damaged ({error}): {fix}") from error
