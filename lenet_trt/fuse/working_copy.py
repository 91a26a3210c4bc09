"""Hold a graph to rewrite and search: the nodes of an ONNX file, its constants, and what is known of each value.

The file itself is not touched. Every node remembers which nodes of the file it stands for.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.onnx_model.inferred import declared_types, inferred
from lenet_trt.onnx_model.profiles import type_axes

Array: TypeAlias = NDArray[Any]
PartialShape: TypeAlias = "tuple[int | str | None, ...]"
# From this version of the format on, an initializer need not be an input; one that is can be overridden.
_INITIALIZERS_ALONE_IR_VERSION = 4
# The domain of nodes that tools are not to look into.
_OPAQUE = "opaque"
# Tools that read the normal form get the values of constants up to this size: shapes, indexes, exponents.
_SMALL_BYTES = 1024
_PLAIN = frozenset(getattr(onnx.AttributeProto, name) for name in ("INT", "FLOAT", "STRING", "INTS", "FLOATS"))


@dataclass(eq=False)
class WorkingNode:
    """Hold one operation, and the indexes of the file's nodes that it represents."""

    op_type: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    origins: frozenset[int]
    domain: str = ""
    captured: frozenset[str] = frozenset()  # values that its subgraphs use
    slot: int = field(default=-1)

    @property
    def uses(self) -> list[str]:
        """Return every value that it reads, with those of its subgraphs."""
        return [name for name in self.inputs if name] + sorted(self.captured)

    def is_op(self, *op_types: str) -> bool:
        """Return whether it is one of these operators of ONNX itself."""
        return self.domain == "" and self.op_type in op_types


class WorkingGraph:
    """Hold the working copy: nodes in execution order, constants, and what is known of each value."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.opsets = {_domain(entry.domain): entry.version for entry in model.opset_import}
        graph = model.graph
        weights = initializers_listed_as_inputs(model)
        inputs = [value for value in graph.input if value.name not in weights]
        self.inputs = [value.name for value in inputs]
        defaults = set(self.inputs)  # an input's initializer is a default, not a constant
        self.outputs = [value.name for value in graph.output]
        self.constants: dict[str, Array] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer if tensor.name not in defaults
        }
        self.file_constants = frozenset(self.constants) | {
            node.output[0] for node in graph.node if node.op_type == "Constant" and not node.domain
        }
        self._boundary = (inputs, list(graph.output))
        self._types = _value_types(model)
        self._learned: set[str] = set()
        self._slots: list[WorkingNode | None] = []
        self._producers: dict[str, WorkingNode] = {}
        self._consumers: dict[str, list[WorkingNode]] = {}
        for index, proto in enumerate(graph.node):
            self._slots.append(None)
            self._place(_node(proto, index), index)

    def copy(self) -> WorkingGraph:
        """Return a copy, of nodes too; values of constants are shared."""
        other = copy.copy(self)
        other.constants, other._types, other._learned = dict(self.constants), dict(self._types), set(self._learned)
        other._slots, other._producers, other._consumers = [None] * len(self._slots), {}, {}
        for node in self.nodes:
            other._place(
                replace(node, inputs=list(node.inputs), outputs=list(node.outputs), attributes=dict(node.attributes)),
                node.slot,
            )
        return other

    @property
    def nodes(self) -> list[WorkingNode]:
        """Return the remaining nodes in execution order."""
        return [node for node in self._slots if node is not None]

    def holds(self, node: WorkingNode) -> bool:
        """Return whether the node is still in the graph."""
        return self._slots[node.slot] is node

    def producer(self, name: str) -> WorkingNode | None:
        """Return the node that computes a value, or None for inputs and constants."""
        return self._producers.get(name)

    def consumers(self, name: str) -> list[WorkingNode]:
        """Return the nodes that read a value, a node once for each read."""
        return self._consumers.get(name, [])

    def only_consumer(self, name: str) -> WorkingNode | None:
        """Return the node that reads a value, if nothing else needs the value and it is no output of the graph."""
        consumers = self.consumers(name)
        return consumers[0] if len(consumers) == 1 and name not in self.outputs else None

    def view_of(self, name: str) -> str:
        """Return the value that a value is a view of: a ``Reshape`` without origins, which a rule added."""
        node = self.producer(name)
        return name if node is None or node.origins or not node.is_op("Reshape") else node.inputs[0]

    def added_for(self, name: str) -> list[WorkingNode]:
        """Return the nodes without origins that compute a value, which rules added, in order."""
        node = self.producer(name)
        if node is None or node.origins:
            return []
        before = [each for given in node.inputs for each in self.added_for(given)]
        return [*dict.fromkeys(before), node]

    def viewed_as(self, name: str) -> str:
        """Return the value of the file that is a view of this one."""
        node = self.only_consumer(name)
        return name if node is None or node.origins else node.outputs[0]

    def shape(self, name: str) -> PartialShape | None:
        """Return a value's shape as far as it is known: numbers, names of symbolic sizes, None."""
        if name in self.constants:
            return tuple(int(size) for size in self.constants[name].shape)
        return self._types.get(name, (None, None))[1]

    def rank(self, name: str) -> int | None:
        """Return the number of dimensions, or None where it is unknown."""
        shape = self.shape(name)
        return None if shape is None else len(shape)

    def dtype(self, name: str) -> str | None:
        """Return the element type by NumPy's name ("float16"), or None where it is unknown."""
        if name in self.constants:
            return str(self.constants[name].dtype)
        element = self._types.get(name, (None, None))[0]
        return None if not element else str(helper.tensor_dtype_to_np_dtype(element))

    def learn_shape(self, name: str, shape: PartialShape, like: str | None = None) -> None:
        """Keep a shape that ONNX's own inference does not find; ``infer_types`` goes on from it.

        ``like``: a value of the same type, for one that a rule adds.
        """
        self._types[name] = (self._types.get(like or name, (None, None))[0], shape)
        self._learned.add(name)

    def add_constant(self, hint: str, value: Array) -> str:
        """Add a constant under a new name made from ``hint``."""
        name = hint
        taken = 0
        while name in self.constants or name in self._producers or name in self.inputs:
            taken += 1
            name = f"{hint}.{taken}"
        self.constants[name] = value
        return name

    def remove(self, node: WorkingNode) -> None:
        """Remove a node; the caller takes care of the nodes that read its results."""
        self._slots[node.slot] = None
        for name in node.outputs:
            self._producers.pop(name, None)
        for name in node.uses:
            self._consumers[name].remove(node)

    def replace(self, old: Iterable[WorkingNode], new: Iterable[tuple[int, WorkingNode]]) -> None:
        """Replace nodes, in their slots, by others."""
        for node in old:
            self.remove(node)
        for slot, node in new:
            self._place(node, slot)

    def insert(self, node: WorkingNode, slot: int) -> None:
        """Add a node in a new slot, before those that have this slot and later ones."""
        self._slots.insert(slot, None)
        for index, other in enumerate(self._slots[slot + 1 :], slot + 1):
            if other is not None:
                other.slot = index
        self._place(node, slot)

    def redirect(self, name: str, to: str) -> None:
        """Make the readers of ``name`` read ``to``."""
        for node in dict.fromkeys(self._consumers.get(name, [])):
            count = node.inputs.count(name)
            node.inputs = [to if entry == name else entry for entry in node.inputs]
            self._consumers[name] = [other for other in self._consumers[name] if other is not node]
            self._consumers.setdefault(to, []).extend([node] * count)

    def skip(self, node: WorkingNode, name: str) -> None:
        """Remove a node and let its readers read ``name``; not where its result is the graph's or a subgraph's."""
        result = node.outputs[0]
        if result in self.outputs or any(result in reader.captured for reader in self.consumers(result)):
            return
        self.redirect(result, name)
        self.remove(node)

    def remove_dead(self) -> None:
        """Remove the nodes whose results no node reads."""
        for node in reversed(self.nodes):
            if not any(name in self.outputs or self.consumers(name) for name in node.outputs):
                self.remove(node)

    def to_model(self) -> onnx.ModelProto:
        """Return the working copy as a model for tools: nodes are named by slot, large constants are inputs, nodes with
        subgraphs are opaque. What other nodes than ONNX's own give is declared, since no tool can infer it, and so
        are learned shapes.
        """
        inputs, outputs = self._boundary
        large, small = [], []
        for name, value in self.constants.items():
            if value.nbytes > _SMALL_BYTES:
                kind = helper.np_dtype_to_tensor_dtype(value.dtype)
                large.append(helper.make_tensor_value_info(name, kind, value.shape))
            else:
                small.append(numpy_helper.from_array(value, name))
        nodes = self.nodes
        foreign = {name for node in nodes if node.domain or node.captured for name in node.outputs} | self._learned
        known = [_value_info(name, *self._types[name]) for name in sorted(foreign) if name in self._types]
        graph = helper.make_graph(
            [_proto(node) for node in nodes], "normal form", [*inputs, *large], outputs, small, value_info=known
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*entry) for entry in {**self.opsets, _OPAQUE: 1}.items()],
        )

    def infer_types(self) -> None:
        """Infer types and shapes again, since a simpler graph lets more of them be inferred."""
        for name, (kind, shape) in _value_types(self.to_model()).items():
            known_kind, known_shape = self._types.get(name, (None, None))
            self._types[name] = (kind or known_kind, shape if shape is not None else known_shape)

    def _place(self, node: WorkingNode, slot: int) -> None:
        node.slot = slot
        self._slots[slot] = node
        for name in node.outputs:
            self._producers[name] = node
        for name in node.uses:
            self._consumers.setdefault(name, []).append(node)


def initializers_listed_as_inputs(model: onnx.ModelProto) -> frozenset[str]:
    """Return the constants that are inputs only because the file's format version lists all initializers there.

    TensorRT and ONNX Runtime let nobody override those.
    """
    if model.ir_version >= _INITIALIZERS_ALONE_IR_VERSION:
        return frozenset()
    return frozenset(tensor.name for tensor in model.graph.initializer)


def _node(proto: onnx.NodeProto, index: int) -> WorkingNode:
    # Exporters write them in any order, and equal nodes are to become equal functions.
    entries = sorted(proto.attribute, key=lambda entry: entry.name)
    attributes = {entry.name: _plain(entry) if entry.type in _PLAIN else entry for entry in entries}
    return WorkingNode(
        op_type=proto.op_type,
        inputs=list(proto.input),
        outputs=list(proto.output),
        attributes=attributes,
        origins=frozenset({index}),
        domain=_domain(proto.domain),
        captured=frozenset(names_captured(proto)),
    )


def _value_info(name: str, kind: int | None, shape: PartialShape | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind or onnx.TensorProto.UNDEFINED, shape)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name  # ONNX's own domain has two names


def _proto(node: WorkingNode) -> onnx.NodeProto:
    opaque = bool(node.captured)
    proto = helper.make_node(
        "Opaque" if opaque else node.op_type,
        node.uses if opaque else node.inputs,
        node.outputs,
        name=str(node.slot),
        domain=_OPAQUE if opaque else node.domain,
    )
    if not opaque:
        proto.attribute.extend(attribute_protos(node))
    return proto


def attribute_protos(node: WorkingNode) -> list[onnx.AttributeProto]:
    """Return a node's attributes as ONNX stores them."""
    return [
        value if isinstance(value, onnx.AttributeProto) else helper.make_attribute(name, value)
        for name, value in node.attributes.items()
    ]


def _plain(entry: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(entry)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return list(value) if entry.type in (entry.INTS, entry.FLOATS) else value


def names_captured(node: onnx.NodeProto) -> Iterator[str]:
    """Return the values of the surrounding graph that a node's subgraphs read."""
    for entry in node.attribute:
        for graph in [entry.g] if entry.HasField("g") else entry.graphs:
            inner = {value.name for value in graph.input}
            inner |= {tensor.name for tensor in graph.initializer}
            for child in graph.node:
                for name in [*child.input, *names_captured(child)]:
                    if name and name not in inner:
                        yield name
                inner |= set(child.output)
            yield from (value.name for value in graph.output if value.name not in inner)


def _value_types(model: onnx.ModelProto) -> dict[str, tuple[int | None, PartialShape | None]]:
    try:
        types = declared_types(inferred(model).graph)
    except onnx.shape_inference.InferenceError as error:
        raise LenetTrtError(f"the model contradicts itself: {' '.join(str(error).split())}") from error
    return {name: (kind.tensor_type.elem_type or None, type_axes(kind)) for name, kind in types.items()}


def count(shape: Iterable[int | str | None]) -> int | None:
    """Return the number of elements, or None where a size is unknown."""
    sizes = list(shape)
    if not all(isinstance(size, int) for size in sizes):
        return None
    return int(np.prod([int(size or 0) for size in sizes], dtype=np.int64))
