"""A timeline: what the GPU and the host did while a network ran, whoever traced it.

Every reader of traces ends here, and every table, ledger and report begins here. All times are microseconds since the
first iteration began; nodes are named as the network (ONNX file or engine) names them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import write_atomic
from lenet_trt.tensorrt.layers import EngineLayer, layer_from_dict

SCHEMA = 1
# A "layer" is a time that a tool gave for a whole layer, without its kernels, as trtexec --exportProfile does.
Kind = Literal["kernel", "memcpy", "memset", "layer"]


@dataclass(frozen=True)
class Activity:
    """Work of the GPU. ``node`` is the node that it belongs to, ``iteration`` the inference, where known.

    ``direction`` is of copies: "HtoD", "DtoH", "DtoD", "HtoH" or "PtoP".
    """

    kind: Kind
    name: str
    start_us: float
    end_us: float
    stream: int = 0
    iteration: int | None = None
    node: str | None = None
    correlation: int | None = None
    bytes: int | None = None
    direction: str | None = None
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    registers: int | None = None
    shared_bytes: int | None = None

    @property
    def us(self) -> float:
        """How long it took."""
        return self.end_us - self.start_us


@dataclass(frozen=True)
class ApiCall:
    """A call into the CUDA runtime or driver; ``correlation`` names the GPU work that it asked for."""

    name: str
    start_us: float
    end_us: float
    thread: int = 0
    correlation: int | None = None

    @property
    def us(self) -> float:
        """How long it took."""
        return self.end_us - self.start_us


@dataclass(frozen=True)
class HostRange:
    """A named range on the host (NVTX)."""

    name: str
    start_us: float
    end_us: float
    thread: int = 0


@dataclass(frozen=True)
class Iteration:
    """One inference: from the host's first call for it until its last result is there."""

    index: int
    start_us: float
    end_us: float

    @property
    def us(self) -> float:
        """How long it took."""
        return self.end_us - self.start_us


@dataclass(frozen=True)
class Timeline:
    """One traced run.

    ``source`` says who traced it ("nsys 2025.3.1", "CUPTI 13.0", "trtexec 10.13"); ``unprofiled_us`` is the median
    time of an inference without the profiler, where it was measured; ``sizes`` are the axes' values ("n": 32).
    ``environment`` holds GPU, driver and versions. ``notes`` say what a reader of the numbers should know. ``layers``
    are those of the engine that ran, where it was asked for them.
    """

    source: str
    model: str | None = None
    model_sha256: str | None = None
    runtime: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    unprofiled_us: float | None = None
    command: str | None = None
    notes: tuple[str, ...] = ()
    iterations: tuple[Iteration, ...] = ()
    activities: tuple[Activity, ...] = ()
    api_calls: tuple[ApiCall, ...] = ()
    ranges: tuple[HostRange, ...] = ()
    layers: tuple[EngineLayer, ...] = ()


_T = TypeVar("_T", Activity, ApiCall, HostRange, Iteration)


def save(timeline: Timeline, path: Path) -> None:
    """Write a timeline as JSON."""
    text = json.dumps({"schema": SCHEMA, **asdict(timeline)}, separators=(",", ":"), allow_nan=False)
    write_atomic(path, (text + "\n").encode())


def load_timeline(path: Path) -> Timeline:
    """Read a timeline.

    Raises:
        LenetTrtError: the file cannot be read, is not JSON, or is no timeline of this schema.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise LenetTrtError(f"{path} is not JSON ({error}); wanted what lenet-trt profile writes") from error
    seen = data.get("schema") if isinstance(data, dict) else None
    if seen != SCHEMA:
        raise LenetTrtError(f"{path} is no timeline of schema {SCHEMA} (its schema: {seen}): profile again")
    del data["schema"]
    try:
        made = Timeline(
            **{
                **data,
                "notes": tuple(data["notes"]),
                "iterations": _all(Iteration, data["iterations"]),
                "activities": _all(Activity, data["activities"]),
                "api_calls": _all(ApiCall, data["api_calls"]),
                "ranges": _all(HostRange, data["ranges"]),
                "layers": tuple(map(layer_from_dict, data.get("layers", ()))),
            }
        )
        for entry in fields(Timeline):
            if str(entry.type) in _FITS or str(entry.type).endswith(" | None"):
                _check(entry.name, str(entry.type), getattr(made, entry.name))
        return made
    except (KeyError, TypeError, ValueError) as error:
        raise LenetTrtError(f"{path} is no timeline ({error}): profile again") from error


def _all(kind: type[_T], rows: list[dict[str, Any]]) -> tuple[_T, ...]:
    return tuple(_one(kind, row) for row in rows)


def _one(kind: type[_T], row: dict[str, Any]) -> _T:
    if not isinstance(row, dict):
        raise ValueError(f"{row!r} is no {kind.__name__}")
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    made = kind(**values)
    for entry in fields(kind):
        _check(entry.name, str(entry.type), getattr(made, entry.name))
    return made


def _check(name: str, wanted: str, value: Any) -> None:
    """Refuse a value that is not of the type that its field is declared with."""
    wanted, _, optional = wanted.partition(" | ")
    if (optional and value is None) or _FITS[wanted](value):
        return
    raise ValueError(f"{name} is {value!r}")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return (isinstance(value, float) and math.isfinite(value)) or _is_int(value)


_FITS: Mapping[str, Callable[[Any], bool]] = {
    "int": _is_int,
    "float": _is_number,
    "str": lambda value: isinstance(value, str),
    "Kind": lambda value: value in get_args(Kind),
    "tuple[int, ...]": lambda value: isinstance(value, tuple) and all(map(_is_int, value)),
    "tuple[str, ...]": lambda value: isinstance(value, tuple) and all(isinstance(entry, str) for entry in value),
    "Mapping[str, int]": lambda value: isinstance(value, dict) and all(map(_is_int, value.values())),
    "Mapping[str, Any]": lambda value: isinstance(value, dict),
}
