"""What trtexec and tensorrt_rtx export (--exportProfile, --exportLayerInfo, --exportTimes), as a timeline."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from lenet_trt.errors import LenetTrtError
from lenet_trt.timeline import Activity, ApiCall, Iteration, Timeline
from lenet_trt.traces.lenient_json import loads

Export = Literal["profile", "layers", "times"]

# trtexec writes a name as it is, quotation marks and backslashes too, so its profile is read by its own words.
_RAW_ENTRY = re.compile(r'\{ "name" : "(?P<name>.*?)", "timeMs" : (?P<numbers>[^{}]*)\}', re.DOTALL)
_RAW_NUMBER = re.compile(r'"(\w+)" : (\S+?)(?=[\s,]|$)')
_RAW_START = '{ "name" : "'
_ONNX = re.compile(r"\[ONNX Layer: (.*?)\](?=[\x1e\x1f\s,]*(?:\[ONNX Layer: |$))", re.DOTALL)
_PROFILE_SUFFIX = re.compile(r" \[profile \d+\]$")
_SIX_DIGITS_MS = 1000.0
_NO_TACTIC = ("", "0x0000000000000000")


@dataclass(frozen=True)
class LayerTime:
    """A layer and the milliseconds that it took: the median of the runs, or the mean where trtexec gives no median."""

    name: str
    ms: float
    is_median: bool


@dataclass(frozen=True)
class Layer:
    """A layer as the engine inspector tells it; with names only (verbosity layer_names_only) the rest is empty."""

    name: str
    kind: str = ""
    tactic: str = ""
    onnx: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        """The ONNX nodes that it computes, joined as TensorRT joins names, or its own name."""
        return " + ".join(self.onnx) if self.onnx else _PROFILE_SUFFIX.sub("", self.name)


@dataclass(frozen=True)
class Inference:
    """One inference of --exportTimes, in milliseconds; the four parts as trtexec measured them."""

    start_ms: float
    compute_start_ms: float
    enqueue_start_ms: float
    enqueue_ms: float
    h2d_ms: float
    compute_ms: float
    d2h_ms: float

    @property
    def latency_ms(self) -> float:
        """What trtexec calls the latency."""
        return self.h2d_ms + self.compute_ms + self.d2h_ms


@dataclass(frozen=True)
class Exports:
    """What was exported of one run, each part where it was."""

    profile: tuple[LayerTime, ...] = ()
    runs: int = 0
    layers: tuple[Layer, ...] = ()
    times: tuple[Inference, ...] = ()
    dialect: str | None = None


def read(text: str, name: str) -> tuple[Export, Exports] | None:
    """Read one export, whichever it is; None where it is JSON of another kind.

    Raises:
        LenetTrtError: it is no JSON, even after repair, or ends early, or has nothing in it; names what and the fix.
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
        return "times", Exports(times=tuple(_inference(entry, name) for entry in data), dialect=_dialect(data[0]))
    if data and ("count" in data[0] or {"name", "averageMs"} <= set(data[0])):
        return "profile", _profile(data, name)
    return None


def timeline(exports: Iterable[Exports], source: str = "trtexec") -> Timeline:
    """One timeline of what was exported of one run.

    With a profile it has one inference, put together from the layers' times; with --exportTimes alone every inference
    that was timed, its layers unknown.

    Raises:
        LenetTrtError: nothing in it has a time.
    """
    parts = list(exports)
    profile = next((part for part in parts if part.profile), None)
    layers = next((part.layers for part in parts if part.layers), ())
    times = next((part.times for part in parts if part.times), ())
    dialect = next((part.dialect for part in parts if part.dialect), None)
    environment: dict[str, Any] = {"dialect": dialect} if dialect else {}
    if layers:
        environment["layers"] = [_layer_json(layer) for layer in layers]
    if profile is not None:
        return _from_profile(profile, layers, times, source, environment)
    if times:
        return _from_times(times, source, environment)
    raise LenetTrtError(
        "--exportLayerInfo says which layers there are, but not how long they took: "
        "give the file of --exportProfile (or of --exportTimes) of the same engine with it"
    )


def _from_profile(
    profile: Exports, layers: Sequence[Layer], times: Sequence[Inference], source: str, environment: dict[str, Any]
) -> Timeline:
    known = _by_name(layers)
    h2d_us = median(time.h2d_ms for time in times) * 1e3 if times else 0.0
    d2h_us = median(time.d2h_ms for time in times) * 1e3 if times else 0.0
    enqueue_us = median(time.enqueue_ms for time in _exact(times)) * 1e3 if times else 0.0
    activities: list[Activity] = []
    at = 0.0

    def add(kind: Literal["memcpy", "layer"], name: str, us: float, **more: Any) -> None:
        nonlocal at
        if us > 0:
            activities.append(Activity(kind, name, at, at + us, iteration=0, **more))
            at += us

    add("memcpy", "[CUDA memcpy HtoD]", h2d_us, direction="HtoD")
    for entry in profile.profile:
        waiting = known.get(entry.name)
        layer = waiting.pop(0) if waiting else Layer(entry.name)
        add("layer", _shown(layer), entry.ms * 1e3, node=layer.node)
    add("memcpy", "[CUDA memcpy DtoH]", d2h_us, direction="DtoH")
    if not activities:
        raise LenetTrtError("the profile has no layer that took any time: profile again with more --iterations")
    sum_us = sum(activity.us for activity in activities if activity.kind == "layer")
    kind = "median" if all(entry.is_median for entry in profile.profile) else "mean"
    notes = [
        f"Positions are reconstructed: trtexec gives a time for each layer ({kind} of {profile.runs} runs), and here "
        "they follow each other in its order, without the gaps between them and without overlap.",
        "A layer's time has the profiler's own overhead in it, and no time of its kernels one by one.",
    ]
    still = [entry.name for entry in profile.profile if not entry.ms > 0]
    if still:
        notes.append(f"{len(still)} layers took no time and are not shown: {_some(still)}.")
    if layers and not any(entry.name in {layer.name for layer in layers} for entry in profile.profile):
        notes.append("No layer of the layer information is in the profile: are the two files of the same engine?")
    calls: tuple[ApiCall, ...] = ()
    unprofiled_us = None
    if times:
        unprofiled_us = median(time.latency_ms for time in times) * 1e3
        compute_us = median(time.compute_ms for time in times) * 1e3
        calls = (ApiCall("enqueue", 0.0, enqueue_us),)
        notes.append(
            f"The layers add up to {sum_us:.1f} us; the timed runs took {compute_us:.1f} us on the GPU (median). "
            "Before TensorRT 11 these are of one and the same run, unless --separateProfileRun was given."
        )
        notes += _rounded(_exact(times))
    return Timeline(
        source,
        runtime="tensorrt",
        environment=environment,
        unprofiled_us=unprofiled_us,
        notes=tuple(notes),
        iterations=(Iteration(0, 0.0, max(at, enqueue_us)),),
        activities=tuple(activities),
        api_calls=calls,
    )


def _from_times(times: Sequence[Inference], source: str, environment: Mapping[str, Any]) -> Timeline:
    zero = times[0].start_ms
    iterations, activities, calls = [], [], []
    for index, time in enumerate(times):
        start = (time.start_ms - zero) * 1e3
        h2d_end = start + time.h2d_ms * 1e3
        compute = max(h2d_end, (time.compute_start_ms - zero) * 1e3)
        compute_end = compute + time.compute_ms * 1e3
        end = compute_end + time.d2h_ms * 1e3
        if time.h2d_ms > 0:
            activities.append(
                Activity("memcpy", "[CUDA memcpy HtoD]", start, h2d_end, iteration=index, direction="HtoD")
            )
        activities.append(Activity("layer", "GPU compute (the whole network)", compute, compute_end, iteration=index))
        if time.d2h_ms > 0:
            activities.append(
                Activity("memcpy", "[CUDA memcpy DtoH]", compute_end, end, iteration=index, direction="DtoH")
            )
        enqueue = (time.enqueue_start_ms - zero) * 1e3
        calls.append(ApiCall("enqueue", enqueue, enqueue + time.enqueue_ms * 1e3))
        iterations.append(Iteration(index, start, end))
    notes = ["--exportTimes has no layers: only copies, the computation as a whole, and the host's enqueue."]
    notes += _rounded(times)
    return Timeline(
        source,
        runtime="tensorrt",
        environment=environment,
        unprofiled_us=median(time.latency_ms for time in times) * 1e3,
        notes=tuple(notes),
        iterations=tuple(iterations),
        activities=tuple(activities),
        api_calls=tuple(calls),
    )


def _raw_profile(text: str, name: str) -> Exports:
    if not text.rstrip().endswith("]"):
        raise LenetTrtError(f"{name} ends before its last bracket: it was cut off; export it again")
    entries: list[dict[str, Any]] = []
    count = re.search(r'"count" : (\d+)', text[:4096])
    if count:
        entries.append({"count": int(count[1])})
    for found in _RAW_ENTRY.finditer(text):
        numbers = {key: _float(value, name) for key, value in _RAW_NUMBER.findall(f'"timeMs" : {found["numbers"]}')}
        entries.append({"name": found["name"], **numbers})
    if text.count(_RAW_START) > len(entries) - bool(count):
        raise LenetTrtError(f"{name} is damaged: some of its layers cannot be read; export it again")
    return _profile(entries, name)


def _profile(entries: Sequence[Mapping[str, Any]], name: str) -> Exports:
    runs = next((int(entry["count"]) for entry in entries if "count" in entry), 1)
    layers = []
    for entry in entries:
        if "name" not in entry:
            continue
        value = entry.get("medianMs", entry.get("averageMs"))
        if not isinstance(value, (int, float)):
            raise LenetTrtError(f"{name}: layer {entry['name']} has no time (averageMs or medianMs); export it again")
        if not math.isfinite(value):
            raise LenetTrtError(f"{name}: layer {entry['name']} took {value} ms: no run was profiled; run it again")
        layers.append(LayerTime(str(entry["name"]), float(value), "medianMs" in entry))
    if not layers:
        raise LenetTrtError(f"{name} has no layers: run trtexec with --exportProfile and at least one --iterations")
    return Exports(profile=tuple(layers), runs=runs)


def _layers(data: Mapping[str, Any], name: str) -> Exports:
    rows = data["Layers"]
    if not rows:
        raise LenetTrtError(f"{name} has no layers")
    dialect = "11" if "I/O Tensors" in data else "8 to 10" if "Bindings" in data else None
    return Exports(layers=tuple(_layer(row, name) for row in rows), dialect=dialect)


def _layer(row: Any, name: str) -> Layer:
    if isinstance(row, str):
        return Layer(row)
    if not isinstance(row, dict) or not isinstance(row.get("Name"), str):
        raise LenetTrtError(f"{name}: a layer has no Name; wanted what --exportLayerInfo writes")
    return Layer(
        row["Name"],
        str(row.get("LayerType") or ""),
        str(row.get("TacticName") or ""),
        tuple(dict.fromkeys(_ONNX.findall(str(row.get("Metadata") or "")))),
        tuple(map(_tensor, row.get("Inputs") or ())),
        tuple(map(_tensor, row.get("Outputs") or ())),
    )


def _tensor(row: Any) -> str:
    """A tensor of a layer in words: name, sizes and how it is stored; TensorRT 11 tells the last in two parts."""
    if not isinstance(row, dict):
        return str(row)
    sizes = row.get("Dimensions")
    stored = row.get("Format/Datatype") or " ".join(str(row[key]) for key in ("Format", "Datatype") if row.get(key))
    return " ".join(filter(None, (str(row.get("Name", "")), str(sizes) if sizes is not None else "", stored)))


def _inference(row: Mapping[str, Any], name: str) -> Inference:
    try:
        return Inference(
            start_ms=float(row["startH2dMs"]),
            compute_start_ms=float(row["startComputeMs"]),
            enqueue_start_ms=float(row["startEnqMs"]),
            enqueue_ms=float(row["endEnqMs"]) - float(row["startEnqMs"]),
            h2d_ms=float(row["h2dMs"]),
            compute_ms=float(row["computeMs"]),
            d2h_ms=float(row["d2hMs"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise LenetTrtError(f"{name}: an inference lacks {error}; wanted what --exportTimes writes") from error


def _dialect(row: Mapping[str, Any]) -> str | None:
    return "8" if "endToEndMs" in row else None


def _exact(times: Sequence[Inference]) -> Sequence[Inference]:
    """Those whose moments are written to the microsecond, where there are any: durations made of two of them."""
    return [time for time in times if time.start_ms < _SIX_DIGITS_MS] or times


def _rounded(times: Sequence[Inference]) -> list[str]:
    if all(time.start_ms < _SIX_DIGITS_MS for time in times):
        return []
    return [
        "trtexec writes six digits: after the first second, positions and the time of the enqueue are rounded to 10 us "
        "or more."
    ]


def _by_name(layers: Iterable[Layer]) -> dict[str, list[Layer]]:
    found: dict[str, list[Layer]] = {}
    for layer in layers:
        found.setdefault(layer.name, []).append(layer)
    return found


def _shown(layer: Layer) -> str:
    """The kernel where the tactic names it, else the layer; a reformat says that it is one."""
    if layer.tactic not in _NO_TACTIC:
        return layer.tactic
    reformat = layer.kind == "Reformat" and "reformat" not in layer.name.lower()
    return f"Reformat {layer.name}" if reformat else layer.name


def _layer_json(layer: Layer) -> dict[str, Any]:
    return {
        "name": layer.name,
        "type": layer.kind,
        "tactic": layer.tactic,
        "onnx": list(layer.onnx),
        "inputs": list(layer.inputs),
        "outputs": list(layer.outputs),
    }


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _float(text: str, name: str) -> float:
    try:
        return float(text.replace("-nan(ind)", "nan"))
    except ValueError as error:
        raise LenetTrtError(f"{name} is damaged: {text!r} is no number; export it again") from error
