"""Describe the engine behind a timeline: its layers, and their work in the types that they really use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lenet_trt.floors.engine import engine_work, layers_with_types
from lenet_trt.tensorrt.layers import EngineLayer
from lenet_trt.trace.timeline import Timeline

if TYPE_CHECKING:
    from lenet_trt.floors.work import NodeWork


def with_layers(timeline: Timeline, layers: Sequence[EngineLayer]) -> Timeline:
    """Add an engine's layers to its trace; work that carries a layer's name then names the layer's ONNX nodes."""
    nodes = {layer.name: layer.node for layer in layers}
    activities = tuple(replace(entry, node=nodes.get(entry.node or "", entry.node)) for entry in timeline.activities)
    return replace(timeline, layers=tuple(layers), activities=activities)


def traced_work(timeline: Timeline, nodes: Sequence[NodeWork]) -> list[NodeWork]:
    """Return the work of each node of a trace: from the engine's layers where it has them, else from the model."""
    return engine_work(timeline.layers, nodes) if layers_with_types(timeline.layers) else list(nodes)
