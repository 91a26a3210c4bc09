"""Time that quantization costs: blocked fusions, changes to 8 bits that do not pay, layers in float after all.

What an engine reads and writes is in its layer information (``trtexec --exportLayerInfo``); without it only a layer
that runs in float after all can be seen, by its kernel's name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lenet_trt.floors.engine import engine_work
from lenet_trt.floors.layers import floor_of
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor
from lenet_trt.trace.findings.inquiry import Finding, Inquiry
from lenet_trt.trace.kernel_names import short_name

if TYPE_CHECKING:
    from lenet_trt.floors.floor import Ceilings
    from lenet_trt.trace.ledger import LedgerRow

_NARROW = frozenset(each.name for each in ELEMENT_TYPES.values() if each.quantized)
_FLOATS = frozenset({"float32", "float16", "bfloat16"})
_QUANTIZED = ("int8", "fp8")
# What the inspector calls a layer that changes types alone.
_CONVERSIONS = frozenset({"Reformat", "NoOp", "Scale", "Quantize", "Dequantize", "QuantizeDequantize", "Cast"})
_ACTIVATIONS = frozenset({"Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu"})
# The types of operands in the names of NVIDIA's matrix kernels.
_FLOAT_KERNEL = re.compile(r"_(f32f32|f16f16|bf16bf16|tf32f32)_|sgemm|hgemm|ffma", re.IGNORECASE)
_TERMS = ("copies_us", "unjudged_us", "inefficiency_us")


def quantization(inquiry: Inquiry) -> Iterator[Finding]:
    """Everything that quantization costs, the most specific kind first."""
    flow = _Flow(inquiry.timeline.layers)
    yield from _blocked_fusions(inquiry, flow)
    yield from _changes_that_do_not_pay(inquiry, flow)
    yield from _float_after_all(inquiry)


class _Flow:
    """Which layer writes a tensor, and which read it."""

    def __init__(self, layers: tuple[EngineLayer, ...]) -> None:
        self.layers = layers
        self.writer = {tensor.name: layer for layer in layers for tensor in layer.outputs}
        self.readers: Mapping[str, list[EngineLayer]] = defaultdict(list)
        for layer in layers:
            for tensor in layer.inputs:
                self.readers[tensor.name].append(layer)

    def before(self, layer: EngineLayer) -> EngineLayer | None:
        """Return the layer that writes the first input."""
        return self.writer.get(layer.inputs[0].name) if layer.inputs else None

    def after(self, layer: EngineLayer) -> list[EngineLayer]:
        """Return the layers that read the outputs."""
        return [reader for tensor in layer.outputs for reader in self.readers[tensor.name]]


def _blocked_fusions(inquiry: Inquiry, flow: _Flow) -> Iterator[Finding]:
    """Yield layers of 8 bits that write floats for their own QuantizeLinear, and activations apart from their layer."""
    for layer in flow.layers:
        before = flow.before(layer)
        if before is None or _changes(before) or not _reads(before, _NARROW):
            continue
        if _changes(layer) and _reads(layer, _FLOATS) and _writes(layer, _NARROW):
            why = (
                f"{before.node} reads {_type(before.inputs)} and writes {_type(before.outputs)}, and {layer.node} is a "
                f"kernel of its own that makes {_type(layer.outputs)} of it"
            )
        elif _is_activation(inquiry, layer) and before.depth is not None and _reads(layer, _NARROW):
            why = (
                f"{before.node} writes {_type(before.outputs)}, and {layer.node} is a kernel of its own behind it: "
                "quantization stands between the two"
            )
        else:
            continue
        spent = _spent(inquiry, layer)
        claimed = _claim(inquiry, {layer.node: spent})
        if claimed:
            yield Finding(
                "quantization_blocks_fusion",
                f"{layer.node}: a Q/DQ pair keeps it from being joined with {before.node}",
                layer.node,
                claimed,
                (why, f"it takes {spent:,.1f} us, and would take none as a part of {before.node}"),
                "put Q/DQ at the inputs of layers alone, and none between a layer and its activation: lenet-trt "
                "quantize does so",
            )


def _changes_that_do_not_pay(inquiry: Inquiry, flow: _Flow) -> Iterator[Finding]:
    """Changes of type or format around a layer of 8 bits that take longer than 8 bits can save there."""
    if inquiry.ceilings is None:
        return
    for layer in flow.layers:
        if _changes(layer) or layer.depth is None or not _reads(layer, _NARROW):
            continue
        near = [other for other in (flow.before(layer), *flow.after(layer)) if other is not None and _changes(other)]
        costs = {other.node: _spent(inquiry, other) for other in near}
        saved = _saved(inquiry, layer, inquiry.ceilings)
        excess = sum(costs.values()) - saved
        if excess <= 0:
            continue
        share = excess / sum(costs.values())
        claimed = _claim(inquiry, {node: us * share for node, us in costs.items()})
        if claimed:
            yield Finding(
                "quantization_does_not_pay",
                f"{layer.node}: changing to {_type(layer.inputs)} and back costs more than it saves",
                layer.node,
                claimed,
                (
                    *(f"{node} takes {us:,.1f} us" for node, us in costs.items()),
                    f"the hardware needs {saved:,.1f} us less for this layer in {_type(layer.inputs)} than in fp16",
                ),
                f"leave this layer in fp16 (lenet-trt quantize --fp16 --keep {_model_node(layer)}), or quantize its "
                "neighbours too, so that 8 bits go from layer to layer",
            )


def _float_after_all(inquiry: Inquiry) -> Iterator[Finding]:
    """Yield layers that the model quantizes and the engine computes in float."""
    for row in inquiry.ledger.rows:
        wanted, seen = _wanted_and_seen(inquiry, row)
        if not wanted:
            continue
        claimed = _claim(inquiry, {row.node: row.terms.kernel_us})
        if claimed:
            yield Finding(
                "float_after_all",
                f"{row.node}: the model has it in {wanted}, and it runs in float",
                row.node,
                claimed,
                (f"{seen}; it takes {row.terms.kernel_us:,.1f} us",),
                "see what TensorRT says of it while it builds (trtexec --verbose): there may be no kernel in "
                f"{wanted} for these sizes or this GPU, or a tensor that it reads is not quantized; leave it out "
                "(--keep) if nothing else reads its 8 bits",
            )


def _wanted_and_seen(inquiry: Inquiry, row: LedgerRow) -> tuple[str, str]:
    """Return the 8-bit type that the model has for a row's layer that runs in float, and how one sees that."""
    members = inquiry.members(row) if row.node is not None else []
    for entry in members:
        if entry.model_arithmetic in _QUANTIZED and entry.arithmetic not in _QUANTIZED:
            return entry.model_arithmetic, f"the engine's layer is {entry.shapes}"
        if entry.arithmetic in _QUANTIZED and not entry.holds and row.kernels and _FLOAT_KERNEL.search(row.kernels[0]):
            return entry.arithmetic, f"its kernel is {short_name(row.kernels[0])}, whose operands are floats"
    return "", ""


def _saved(inquiry: Inquiry, layer: EngineLayer, ceilings: Ceilings) -> float:
    """Return by how much the layer's floor is lower than in fp16."""
    narrow = [entry for entry in inquiry.nodes if entry.node == layer.node]
    wide = engine_work([_in_half(layer)])
    if not narrow or not wide:
        return 0.0
    flops = narrow[0].work.flops
    half = replace(wide[0], work=replace(wide[0].work, flops=flops), arithmetic="fp16")
    return max(floor_of([half], ceilings) - floor_of(narrow, ceilings), 0.0)


def _in_half(layer: EngineLayer) -> EngineLayer:
    def half(tensors: tuple[LayerTensor, ...]) -> tuple[LayerTensor, ...]:
        return tuple(replace(each, dtype="float16") if each.dtype in _NARROW else each for each in tensors)

    return replace(layer, inputs=half(layer.inputs), outputs=half(layer.outputs), weights=half(layer.weights))


def _spent(inquiry: Inquiry, layer: EngineLayer) -> float:
    """Return how long a layer's kernels ran, as far as nothing hid them, a mean an inference."""
    return sum(
        exposed[id(entry)]
        for activities, exposed in zip(inquiry.activities, inquiry.exposed, strict=True)
        for entry in activities
        if entry.node == layer.node
    ) / len(inquiry.used)


def _claim(inquiry: Inquiry, wanted: Mapping[str | None, float]) -> float:
    """Take the time from the terms that kernels and reformats are in; 0 where it is not worth telling."""
    left = {node: sum(inquiry.left(term, node) for term in _TERMS) for node in wanted}
    if not inquiry.notable(sum(min(us, left[node]) for node, us in wanted.items())):
        return 0.0
    rest = dict(wanted)
    claimed = 0.0
    for term in _TERMS:
        for node in rest:
            got = inquiry.claim(term, {node: rest[node]})
            rest[node] -= got
            claimed += got
    return claimed


def _changes(layer: EngineLayer) -> bool:
    """Return whether a layer only changes the type or the format of one tensor."""
    return (layer.reformats or layer.kind in _CONVERSIONS) and len(layer.inputs) == len(layer.outputs) == 1


def _is_activation(inquiry: Inquiry, layer: EngineLayer) -> bool:
    ops = {op for entry in inquiry.nodes if entry.node == layer.node for op in entry.op.split(" + ")}
    return bool(ops) and ops <= _ACTIVATIONS


def _reads(layer: EngineLayer, types: frozenset[str]) -> bool:
    return bool(layer.inputs) and layer.inputs[0].dtype in types


def _writes(layer: EngineLayer, types: frozenset[str]) -> bool:
    return bool(layer.outputs) and layer.outputs[0].dtype in types


def _type(tensors: tuple[LayerTensor, ...]) -> str:
    return tensors[0].dtype


def _model_node(layer: EngineLayer) -> str:
    """Return the model's first node in the layer, which is the one with weights."""
    return layer.onnx[0] if layer.onnx else layer.node.split(" + ")[0]
