"""Define the record beside a quantized model: what it was made from, what was chosen, and what it costs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_file
from lenet_trt.schema import Count, Real, checked, json_text, json_value
from lenet_trt.tensorrt.sidecar import EvaluationEntry, FileRecord

SCHEMA = 1
_WANTED = "a record of a quantized model, as lenet-trt quantize writes it"
_FIX = "quantize the model again, with --overwrite where the file is something else"


@dataclass(frozen=True)
class LayerRecord:
    """Describe a layer with weights: its type, and the error that it causes alone, where that was asked.

    ``type`` is "int8" or "fp8", or "fp32" or "fp16" where it is not quantized. ``error`` is the relative error in norm
    of the model's outputs on the calibration data where no other layer is quantized; None where nothing was searched,
    or where it makes them NaN or infinite.
    ``largest`` is the largest magnitude that its input can have, None where it is not quantized.
    """

    node: str
    op: str
    type: str
    error: Real | None
    largest: Real | None


@dataclass(frozen=True)
class CalibrationRecord:
    """Describe the calibration data.

    ``change``: percent of the samples that get another class, or where not ``classes`` the relative error of the
    outputs in percent (see ``QuantizeRequest.max_change``).
    """

    source: str
    samples: Count
    sha256: str
    change: Real
    classes: bool = True


@dataclass(frozen=True)
class QuantizedRecord:
    """Describe a quantized model.

    ``inputs``: everything that decides the file: hash of the model, types, data, seed, method, versions.
    ``evaluation``: right answers on labelled images before and after, as an engine's sidecar has it.
    ``made``: when, by which command, on what.
    """

    model: FileRecord
    inputs: dict[str, Any]
    origin: str
    layers: list[LayerRecord]
    calibration: CalibrationRecord
    evaluation: dict[str, Any]
    made: dict[str, Any]
    schema: int = field(default=SCHEMA)

    def to_json(self) -> str:
        """Return the text of the file."""
        return json_text(asdict(self)) + "\n"

    @property
    def kept(self) -> list[str]:
        """Return the names of the layers that are not quantized."""
        return [layer.node for layer in self.layers if layer.largest is None]

    def describes(self, path: Path) -> bool:
        """Return whether the file is the model that this record was written for."""
        return path.is_file() and sha256_file(path) == self.model.sha256


def record_path(model: Path) -> Path:
    """Return the path of the record beside a quantized model: its name with ``.json`` added."""
    return model.with_name(f"{model.name}.json")


def read_record(path: Path) -> QuantizedRecord:
    """Read a record.

    Raises:
        LenetTrtError: it is missing, no JSON, of another schema, or a field does not fit.
    """
    data = json_value(path, wanted=_WANTED, fix=_FIX)
    seen = data.get("schema") if isinstance(data, dict) else None
    if seen != SCHEMA:
        raise LenetTrtError(f"{path} has schema {seen!r:.60}, not {SCHEMA}: {_FIX}")
    found = checked(data, QuantizedRecord, str(path), wanted=_WANTED, fix=_FIX)
    checked(found.evaluation, EvaluationEntry, f"evaluation in {path}", wanted=_WANTED, fix=_FIX)
    return found
