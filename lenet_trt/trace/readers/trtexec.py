"""Make a timeline from the exports of trtexec and tensorrt_rtx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Literal

from lenet_trt.errors import LenetTrtError
from lenet_trt.tensorrt.layers import EngineLayer
from lenet_trt.trace.readers.trtexec_exports import Exports, TimedInference
from lenet_trt.trace.timeline import Activity, ApiCall, Iteration, Timeline

_SIX_DIGITS_MS = 1000.0
_NO_TACTIC = ("", "0x0000000000000000")


def trtexec_timeline(exports: Iterable[Exports], source: str = "trtexec") -> Timeline:
    """Make one timeline from the exports of one run.

    With a profile, the timeline has one inference, put together from the layers' times. With --exportTimes alone, it
    has every timed inference, without layers.

    Raises:
        LenetTrtError: no export has a time.
    """
    parts = list(exports)
    profile = next((part for part in parts if part.profile), None)
    layers = next((part.layers for part in parts if part.layers), ())
    times = next((part.times for part in parts if part.times), ())
    dialect = next((part.dialect for part in parts if part.dialect), None)
    environment: dict[str, Any] = {"dialect": dialect} if dialect else {}
    if profile is not None:
        return _from_profile(profile, layers, times, source, environment)
    if times:
        return replace(_from_times(times, source, environment), layers=tuple(layers))
    raise LenetTrtError(
        "--exportLayerInfo names the layers, but has no times: "
        "give the file of --exportProfile (or of --exportTimes) of the same engine with it"
    )


def _from_profile(
    profile: Exports,
    layers: Sequence[EngineLayer],
    times: Sequence[TimedInference],
    source: str,
    environment: dict[str, Any],
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
        layer = waiting.pop(0) if waiting else EngineLayer(entry.name)
        add("layer", _shown(layer), entry.ms * 1e3, node=layer.node)
    add("memcpy", "[CUDA memcpy DtoH]", d2h_us, direction="DtoH")
    if not activities:
        raise LenetTrtError("the profile has no layer that took any time: profile again with more --iterations")
    sum_us = sum(activity.us for activity in activities if activity.kind == "layer")
    kind = "median" if all(entry.is_median for entry in profile.profile) else "mean"
    notes = [
        f"Positions are reconstructed: trtexec gives a time for each layer ({kind} of {profile.runs} runs), and here "
        "they follow each other in its order, without the gaps between them and without overlap.",
        "A layer's time includes the profiler's own overhead; the times of its single kernels are not known.",
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
            "Before TensorRT 11 both come from the same run, unless --separateProfileRun was given."
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
        layers=tuple(layers),
    )


def _from_times(times: Sequence[TimedInference], source: str, environment: Mapping[str, Any]) -> Timeline:
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


def _exact(times: Sequence[TimedInference]) -> Sequence[TimedInference]:
    """Return the inferences whose moments have microseconds, where there are any; durations come from two moments."""
    return [time for time in times if time.start_ms < _SIX_DIGITS_MS] or times


def _rounded(times: Sequence[TimedInference]) -> list[str]:
    if all(time.start_ms < _SIX_DIGITS_MS for time in times):
        return []
    return [
        "trtexec writes six digits: after the first second it rounds positions and the enqueue time to 10 us or more."
    ]


def _by_name(layers: Iterable[EngineLayer]) -> dict[str, list[EngineLayer]]:
    found: dict[str, list[EngineLayer]] = {}
    for layer in layers:
        found.setdefault(layer.name, []).append(layer)
    return found


def _shown(layer: EngineLayer) -> str:
    """Return the kernel that the tactic names, else the layer; the name of a reformat says that it is one."""
    if layer.tactic not in _NO_TACTIC:
        return layer.tactic
    reformat = layer.kind == "Reformat" and "reformat" not in layer.name.lower()
    return f"Reformat {layer.name}" if reformat else layer.name


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
