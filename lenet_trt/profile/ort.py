"""Read ONNX Runtime's own profile of the CPU: a time for each node, under the names of the given model.

Source: the events that ONNX Runtime 1.31 writes (enable_profiling); their times are whole microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import onnx
import onnx.inliner
from onnx import ModelProto, NodeProto

from lenet_trt.errors import LenetTrtError
from lenet_trt.schema import Duration, checked, read_json
from lenet_trt.trace.timeline import Activity, Iteration, Timeline

_RUN = "model_run"
_NODE_SUFFIX = "_kernel_time"
# ONNX Runtime adds these to the name of a node that it changed: Gemm and Relu in one, blocked memory layout.
_FUSED = "fused "
_BLOCKED = "_nchwc"


@dataclass(frozen=True)
class Named:
    """Hold a model without functions whose nodes all have names, and the file's node for each of them."""

    model: ModelProto
    origins: Mapping[str, str]

    def origin(self, name: str, op_type: str) -> str | None:
        """Return the file's node behind a name in the profile; None for nodes that ONNX Runtime added or renamed."""
        plain = name.removeprefix(_FUSED)
        if plain in self.origins:
            return self.origins[plain]
        # A convolution in blocked layout has the name of its result, or of the result of the activation fused into it.
        made = self._makers().get(plain.removesuffix(_BLOCKED))
        while made is not None and made.op_type != op_type:
            made = self._makers().get(made.input[0]) if made.input else None
        return self.origins[made.name] if made is not None else None

    def _makers(self) -> dict[str, NodeProto]:
        return {output: node for node in self.model.graph.node for output in node.output}


def named(model: ModelProto) -> Named:
    """Inline the functions and name every node, so that the profile's names lead back to the file's nodes.

    Raises:
        LenetTrtError: the inlined nodes are not the nodes of the functions.
    """
    bodies = {(function.domain, function.name): function.node for function in model.functions}
    sources = list(_sources(model.graph.node, bodies, None))
    inlined = onnx.inliner.inline_local_functions(model) if model.functions else _copy(model)
    nodes = inlined.graph.node
    if [node.op_type for node in nodes] != [op_type for op_type, _ in sources]:
        raise LenetTrtError(
            "the model's functions cannot be recognised once they are inlined: profile a model without functions"
        )
    origins = {}
    for index, (node, (op_type, source)) in enumerate(zip(nodes, sources, strict=True)):
        if source != node.name or source in origins:
            node.name = f"{source}/{op_type}_{index}"
        origins[node.name] = source
    return Named(inlined, origins)


def _sources(
    nodes: Iterable[NodeProto], bodies: Mapping[tuple[str, str], Sequence[NodeProto]], outer: str | None
) -> Iterator[tuple[str, str]]:
    """Return operator and origin of each node, in order, once functions are inlined."""
    for node in nodes:
        name = outer or node.name or node.output[0]
        body = bodies.get((node.domain, node.op_type))
        if body is None:
            yield node.op_type, name
        else:
            yield from _sources(body, bodies, name)


def _copy(model: ModelProto) -> ModelProto:
    copied = ModelProto()
    copied.CopyFrom(model)
    return copied


@dataclass(frozen=True)
class _Event:
    """Type a line of the profile: start and duration, in microseconds."""

    ts: Duration
    dur: Duration


class _Arguments(TypedDict):
    op_name: str


@dataclass(frozen=True)
class _Layer(_Event):
    name: str
    args: _Arguments


def ort_timeline(path: Path, model: Named, source: str, iterations: int) -> Timeline:
    """Make a timeline from the last ``iterations`` runs of a profile.

    Raises:
        LenetTrtError: the file has fewer runs, or is no profile of ONNX Runtime.
    """
    wanted, fix = "a profile of ONNX Runtime", "profile again"
    events = read_json(path, list[dict[str, Any]], wanted=wanted, fix=fix)
    runs = checked(
        [event for event in events if event.get("name") == _RUN], list[_Event], str(path), wanted=wanted, fix=fix
    )
    runs = sorted(runs, key=lambda event: event.ts)[-iterations:]
    if len(runs) < iterations:
        raise LenetTrtError(f"{path} has {len(runs)} runs; wanted {iterations}: profile again")
    zero = runs[0].ts
    spans = [(run.ts - zero, run.ts - zero + run.dur) for run in runs]
    found = [event for event in events if event.get("cat") == "Node"]
    layers = [
        layer
        for layer in checked(found, list[_Layer], str(path), wanted=wanted, fix=fix)
        if layer.name.endswith(_NODE_SUFFIX)
    ]
    activities = tuple(_activities(layers, spans, zero, model))
    return Timeline(
        source,
        notes=(
            "ONNX Runtime times each node on the CPU in whole microseconds; fused nodes count for the first of them.",
            *_absorbed(activities, model),
        ),
        iterations=tuple(Iteration(index, float(begin), float(end)) for index, (begin, end) in enumerate(spans)),
        activities=activities,
    )


def _activities(
    events: Iterable[_Layer], spans: Sequence[tuple[float, float]], zero: float, model: Named
) -> Iterator[Activity]:
    for event in sorted(events, key=lambda event: event.ts):
        begin = event.ts - zero
        iteration = next((index for index, (start, end) in enumerate(spans) if start <= begin <= end), None)
        if iteration is None:
            continue
        name, op_type = event.name.removesuffix(_NODE_SUFFIX), event.args["op_name"]
        yield Activity(
            "layer",
            f"{op_type} {name}",
            float(begin),
            float(begin + event.dur),
            iteration=iteration,
            node=model.origin(name, op_type),
        )


def _absorbed(activities: Sequence[Activity], model: Named) -> Iterator[str]:
    seen = {activity.node for activity in activities}
    gone = [name for name in dict.fromkeys(model.origins.values()) if name not in seen]
    if gone:
        shown = ", ".join(gone[:8]) + (f" and {len(gone) - 8} more" if len(gone) > 8 else "")
        yield f"No time names these nodes; ONNX Runtime left them out, fused them into others or renamed them: {shown}."
