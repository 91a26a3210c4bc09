"""Read what trtexec and tensorrt_rtx, of versions 8 to 11, export: profile, layers, times and outputs.

Source: samples/common/sampleReporting.cpp of NVIDIA/TensorRT writes profile and times; the layers are the JSON of
TensorRT's engine inspector, which says more with --profilingVerbosity=detailed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.schema import Count, checked
from lenet_trt.tensorrt.layers import EngineLayer, layer_from_inspector
from lenet_trt.trace.readers.lenient_json import loads

Export = Literal["profile", "layers", "times"]

# trtexec does not escape quotation marks and backslashes in names, so its profile is read by this pattern.
_RAW_ENTRY = re.compile(r'\{ "name" : "(?P<name>.*?)", "timeMs" : (?P<numbers>[^{}]*)\}', re.DOTALL)
_RAW_NUMBER = re.compile(r'"(\w+)" : (\S+?)(?=[\s,]|$)')
_RAW_START = '{ "name" : "'


_FIX = "export it again"
# Milliseconds in thirty years.
_MOST_MS = 1e12
_Ms = Annotated[float, msgspec.Meta(ge=-_MOST_MS, le=_MOST_MS)]


class _ProfileRow(TypedDict, total=False):
    """Type an entry of --exportProfile: the number of runs, or a layer. The mean of no runs is NaN."""

    count: Count
    name: str
    averageMs: float
    medianMs: float


class _TimesRow(TypedDict):
    """Type an entry of --exportTimes."""

    startH2dMs: _Ms
    startComputeMs: _Ms
    startEnqMs: _Ms
    endEnqMs: _Ms
    h2dMs: _Ms
    computeMs: _Ms
    d2hMs: _Ms


class _Output(TypedDict):
    """Type an entry of --exportOutput; the sizes of its axes are written as 2x3."""

    name: str
    dimensions: str
    values: list[float]


@dataclass(frozen=True)
class LayerTime:
    """Hold a layer's time in milliseconds: the median of the runs, or the mean where trtexec gives no median."""

    name: str
    ms: float
    is_median: bool


@dataclass(frozen=True)
class TimedInference:
    """Hold one inference of --exportTimes, in milliseconds: the four parts that trtexec measured."""

    start_ms: float
    compute_start_ms: float
    enqueue_start_ms: float
    enqueue_ms: float
    h2d_ms: float
    compute_ms: float
    d2h_ms: float

    @property
    def latency_ms(self) -> float:
        """Return the sum that trtexec calls the latency."""
        return self.h2d_ms + self.compute_ms + self.d2h_ms


@dataclass(frozen=True)
class Exports:
    """Hold the exports of one run; a part that was not exported is None or empty."""

    profile: tuple[LayerTime, ...] = ()
    runs: int = 0
    layers: tuple[EngineLayer, ...] = ()
    times: tuple[TimedInference, ...] = ()
    dialect: str | None = None


def read_outputs(text: str, name: str) -> dict[str, NDArray[np.float64]]:
    """Read an engine's outputs by name, of --exportOutput.

    Raises:
        LenetTrtError: the text is no such export, or an output does not have as many elements as its axes say.
    """
    try:
        data = loads(text)
    except ValueError as error:
        raise LenetTrtError(f"{name} is not JSON ({error}): it was damaged or cut off; {_FIX}") from error
    outputs = {}
    for entry in checked(data, list[_Output], name, wanted="what --exportOutput writes", fix=_FIX):
        shape = [int(size) for size in re.findall(r"\d+", entry["dimensions"])]
        if math.prod(shape) != len(entry["values"]):
            has = f"{len(entry['values'])} elements, and its axes are {entry['dimensions']}"
            raise LenetTrtError(f"{name}: the output {entry['name']} has {has}: {_FIX}")
        outputs[entry["name"]] = np.array(entry["values"], np.float64).reshape(shape)
    return outputs


def read_trtexec(text: str, name: str) -> tuple[Export, Exports] | None:
    """Read one export of any kind; return None where it is JSON of another kind.

    Raises:
        LenetTrtError: the text is no JSON, even after repair, ends early, or is empty; the message names the fix.
    """
    if _RAW_START in text[:4096] and '"timeMs" : ' in text:
        return "profile", _raw_profile(text, name)
    try:
        data = loads(text)
    except ValueError as error:
        raise LenetTrtError(f"{name} is not JSON ({error}): it was damaged or cut off; export it again") from error
    if isinstance(data, dict) and isinstance(data.get("Layers"), list):
        return "layers", _layers(data, name)
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        return None
    if data and "startComputeMs" in data[0]:
        return "times", Exports(times=_inferences(data, name), dialect=_dialect(data[0]))
    if data and ("count" in data[0] or {"name", "averageMs"} <= set(data[0])):
        return "profile", _profile(data, name)
    return None


def _raw_profile(text: str, name: str) -> Exports:
    if not text.rstrip().endswith("]"):
        raise LenetTrtError(f"{name} ends before its last bracket: it was cut off; export it again")
    entries: list[dict[str, Any]] = []
    count = re.search(r'"count" : (\d+)', text[:4096])
    if count:
        entries.append({"count": int(count[1][:18])})
    for found in _RAW_ENTRY.finditer(text):
        numbers = {key: _float(value, name) for key, value in _RAW_NUMBER.findall(f'"timeMs" : {found["numbers"]}')}
        entries.append({"name": found["name"], **numbers})
    if text.count(_RAW_START) > len(entries) - bool(count):
        raise LenetTrtError(f"{name} is damaged: some of its layers cannot be read; export it again")
    return _profile(entries, name)


def _profile(entries: Sequence[Any], name: str) -> Exports:
    rows = checked(list(entries), list[_ProfileRow], name, wanted="what --exportProfile writes", fix=_FIX)
    runs = next((row["count"] for row in rows if "count" in row), 1)
    layers = []
    for row in rows:
        if "name" not in row:
            continue
        value = row.get("medianMs", row.get("averageMs"))
        if value is None:
            raise LenetTrtError(f"{name}: layer {row['name']} has no time (averageMs or medianMs); export it again")
        if not math.isfinite(value):
            raise LenetTrtError(f"{name}: layer {row['name']} took {value} ms: no run was profiled; run it again")
        if not 0 <= value <= _MOST_MS:
            raise LenetTrtError(f"{name}: layer {row['name']} took {value} ms, which no layer takes; export it again")
        layers.append(LayerTime(row["name"], value, "medianMs" in row))
    if not layers:
        raise LenetTrtError(f"{name} has no layers: run trtexec with --exportProfile and at least one --iterations")
    return Exports(profile=tuple(layers), runs=runs)


def inspected_layers(text: str, name: str) -> tuple[EngineLayer, ...]:
    """Read what TensorRT's engine inspector says of the layers; none where the engine keeps nothing of them.

    Raises:
        LenetTrtError: a layer has no name.
    """
    return tuple(layer_from_inspector(row, name) for row in loads(text).get("Layers", []))


def _layers(data: Mapping[str, Any], name: str) -> Exports:
    rows = data["Layers"]
    if not rows:
        raise LenetTrtError(f"{name} has no layers")
    dialect = "11" if "I/O Tensors" in data else "8 to 10" if "Bindings" in data else None
    return Exports(layers=tuple(layer_from_inspector(row, name) for row in rows), dialect=dialect)


def _inferences(rows: list[Any], name: str) -> tuple[TimedInference, ...]:
    times = checked(rows, list[_TimesRow], name, wanted="what --exportTimes writes", fix=_FIX)
    return tuple(
        TimedInference(
            start_ms=row["startH2dMs"],
            compute_start_ms=row["startComputeMs"],
            enqueue_start_ms=row["startEnqMs"],
            enqueue_ms=row["endEnqMs"] - row["startEnqMs"],
            h2d_ms=row["h2dMs"],
            compute_ms=row["computeMs"],
            d2h_ms=row["d2hMs"],
        )
        for row in times
    )


def _dialect(row: Mapping[str, Any]) -> str | None:
    return "8" if "endToEndMs" in row else None


def _float(text: str, name: str) -> float:
    try:
        return float(text.replace("-nan(ind)", "nan"))
    except ValueError as error:
        raise LenetTrtError(f"{name} is damaged: {text!r} is no number; export it again") from error
