"""Compute the work of each node of a model, bytes and operations, from the ONNX file with real shapes.

Every node counts as if it ran alone: its inputs and weights are read once, its outputs are written once. A plugin node
is a fused node: the kernel's declaration gives its work. Views and constant nodes cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx
from onnx import NodeProto, helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.floors.floor import Arithmetic, Work
from lenet_trt.floors.operators import OperatorCall, is_view, operations, reads, shapes_text
from lenet_trt.floors.stored import is_joined, stored_types
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.shapes import Shape
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.onnx_model.plugin_nodes import recorded
from lenet_trt.onnx_model.shapes import Known, KnownTensor, bound_plugin, known, node_name


@dataclass(frozen=True)
class NodeWork:
    """Hold one node: its operator, its work and its arithmetic.

    ``shapes``: text for people. ``replaces``: the nodes for which it stands, if it is a fused node or a plugin.
    ``estimated``: the number of operations is an estimate. ``weights``: the number of constant elements that it reads.
    ``holds``: the model's nodes in it, if it is a layer of an engine; ``model_arithmetic`` is then the arithmetic of
    these nodes in the model. ``inputs`` and ``outputs``: the names of the tensors of a model's node.
    """

    node: str
    op: str
    work: Work
    arithmetic: Arithmetic
    shapes: str
    replaces: tuple[str, ...] = ()
    estimated: bool = False
    weights: int = 0
    holds: tuple[str, ...] = ()
    model_arithmetic: Arithmetic = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def model_nodes(self) -> tuple[str, ...]:
        """Return the model's nodes for which this node stands."""
        return self.holds or (self.node,)


@dataclass(frozen=True)
class _Cost:
    """Hold a node's bytes by tensor (a view counts under the name of the tensor that it shows)."""

    summary: NodeWork
    read: Mapping[str, int]
    written: Mapping[str, int]


class ModelWork:
    """Hold a model with known shapes: the work of its nodes, and of any set of them as one.

    ``replaced``: for each plugin node, the nodes that it replaced in the file before the fusion.
    """

    def __init__(self, model: Known, replaced: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._replaced = replaced or {}
        self._roots: dict[str, str] = {}
        self._stored = stored_types(model)
        self._costs = {node_name(node): _with_tensors(self._cost(node, model), node) for node in model.nodes}
        self._results = {self._root(name) for name in model.outputs}

    @property
    def nodes(self) -> list[NodeWork]:
        """Return every node that runs, in graph order."""
        return [cost.summary for cost in self._costs.values()]

    def fused(self, names: Sequence[str], node: str, op: str) -> NodeWork:
        """Combine nodes that run as one: outside tensors are read once, inside tensors do not move.

        Raises:
            LenetTrtError: the model has no node of such a name.
        """
        unknown = [name for name in names if name not in self._costs]
        if unknown:
            raise LenetTrtError(f"there is no node {', '.join(unknown)}; the model has {', '.join(self._costs)}")
        inside = {name: self._costs[name] for name in names}
        others = [cost for name, cost in self._costs.items() if name not in inside]
        needed = self._results | {tensor for cost in others for tensor in cost.read}
        made = {tensor for cost in inside.values() for tensor in cost.written}
        read: dict[str, int] = {}
        written: dict[str, int] = {}
        for cost in inside.values():
            for tensor, size in cost.read.items():
                if tensor not in made:
                    read[tensor] = max(read.get(tensor, 0), size)
            written.update({tensor: size for tensor, size in cost.written.items() if tensor in needed})
        parts = [cost.summary for cost in inside.values()]
        heaviest = max(parts, key=lambda part: part.work.flops, default=None)
        return NodeWork(
            node,
            op,
            Work(sum(read.values()), sum(written.values()), sum(part.work.flops for part in parts)),
            "" if heaviest is None else heaviest.arithmetic,
            f"{len(parts)} nodes",
            tuple(names),
            any(part.estimated for part in parts),
            sum(part.weights for part in parts),
        )

    def _root(self, name: str) -> str:
        return self._roots.get(name, name)

    def _cost(self, node: NodeProto, model: Known) -> _Cost:
        name = node_name(node)
        inputs, outputs = ([self._tensor(each, model) for each in names] for names in (node.input, node.output))
        lacking = [each for each in (*node.input, *node.output) if each and each not in model.tensors]
        if lacking:
            raise LenetTrtError(
                f"the shape of {', '.join(lacking)} (at node {name}, {node.op_type}) cannot be known before the model "
                "runs: it depends on the values of its inputs, or ONNX does not know the operator"
            )
        if node.domain == DOMAIN:
            return self._plugin(node, model, [tensor for tensor in inputs if tensor], [t for t in outputs if t])
        attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        call = OperatorCall(node.op_type, inputs, outputs, attributes)
        text = shapes_text(call)
        if is_view(call) or is_joined(node, self._stored):
            self._roots[node.output[0]] = self._root(node.input[0])
            return _Cost(NodeWork(name, node.op_type, Work(0, 0, 0), "fp32", text), {}, {})
        read: dict[str, int] = {}
        for tensor, size in zip(node.input, reads(call), strict=True):
            if size:
                read[self._root(tensor)] = max(read.get(self._root(tensor), 0), size)
        written = {out: tensor.bytes for out, tensor in zip(node.output, outputs, strict=True) if tensor}
        done = operations(call)
        work = Work(sum(read.values()), sum(written.values()), done.flops)
        weights = _weights(node, model, read)
        summary = NodeWork(name, node.op_type, work, done.arithmetic, text, (), done.estimated, weights)
        return _Cost(summary, read, written)

    def _tensor(self, name: str, model: Known) -> KnownTensor | None:
        """Return a tensor as it is in memory."""
        found = model.tensors.get(name)
        return found if found is None or name not in self._stored else replace(found, elem_type=self._stored[name])

    def _plugin(
        self, node: NodeProto, model: Known, inputs: Sequence[KnownTensor], outputs: Sequence[KnownTensor]
    ) -> _Cost:
        bound = bound_plugin(node, inputs)
        read = {self._root(name): tensor.bytes for name, tensor in zip(node.input, inputs, strict=True)}
        written = {name: tensor.bytes for name, tensor in zip(node.output, outputs, strict=True)}
        kinds = [ELEMENT_TYPES[each].arithmetic for each in bound.input_dtypes]
        arithmetic = next((kind for kind in kinds if kind in ("fp16", "bf16", "fp8")), "split")
        call = OperatorCall(
            node.op_type, [t for t, d in zip(inputs, bound.kernel.inputs, strict=True) if not d.weight], outputs
        )
        work = Work(sum(read.values()), sum(written.values()), bound.flops)
        replaced = self._replaced.get(node_name(node), ())
        weights = _weights(node, model, read)
        summary = NodeWork(node_name(node), node.op_type, work, arithmetic, shapes_text(call), replaced, False, weights)
        return _Cost(summary, read, written)


def _with_tensors(cost: _Cost, node: NodeProto) -> _Cost:
    inputs, outputs = (tuple(filter(None, names)) for names in (node.input, node.output))
    return replace(cost, summary=replace(cost.summary, inputs=inputs, outputs=outputs))


def _weights(node: NodeProto, model: Known, read: Mapping[str, int]) -> int:
    """Return the number of constant elements that the node reads; of a table from which it selects, not all."""
    constants = {name: model.tensors[name] for name in node.input if name in model.constants and name in read}
    return sum(each.elements * read[name] // each.bytes for name, each in constants.items() if each.bytes)


def network_of(
    model: onnx.ModelProto, sizes: Mapping[str, int], shapes: Mapping[str, Shape] | None = None
) -> ModelWork:
    """Return the model with these sizes of its open axes (or whole shapes of inputs).

    Raises:
        LenetTrtError: an axis has no size, a shape cannot be known before the model runs, or the file's record of its
            plugins is damaged.
    """
    # Recorded as "Conv conv1": the operator and the node's name.
    replaced = {
        entry["node"]: tuple(title.partition(" ")[2] for title in entry.get("replaced", ()) if " " in title)
        for entry in recorded(model)
    }
    return ModelWork(known(model, sizes, shapes), replaced)


def work_of(model: onnx.ModelProto, sizes: Mapping[str, int]) -> list[NodeWork]:
    """Return the work of each node, in graph order; constant nodes are left out.

    Raises:
        LenetTrtError: as ``network_of``.
    """
    return network_of(model, sizes).nodes
