"""Make the model-local ONNX function that runtimes without plugins run in place of a plugin node.

Its body is the subgraph that was taken out, in normal form, after what undoes the packing of the weights. There is
one function a kernel: where nodes of one file have different attributes, the body chooses by them.
(``FunctionProto.overload`` would say that better, but TensorRT-RTX 1.7 and onnx.reference ignore it and take the
wrong body.)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.match import Match
from lenet_trt.fuse.working_copy import attribute_protos
from lenet_trt.kernel.attributes import AnyAttribute, Number, chosen_values
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.dims import as_dim
from lenet_trt.kernel.functions import call_declared
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.branches import renamed

# The numbers of a node's attributes, in declared order.
Numbers: TypeAlias = tuple[Number, ...]

# From this opset on, a Constant can be of other types than floats.
_CONSTANT_OF_ANY_TYPE = 9
# From this opset on, a Constant can be an attribute of the function.
_CONSTANT_OF_ATTRIBUTE = 12
# Before it, an attribute becomes an axis of a tensor; NumPy 1, with which onnx.reference computes, has 32.
_LARGEST_AXIS = 31
_KINDS = {"int": onnx.AttributeProto.INT, "float": onnx.AttributeProto.FLOAT}
# What every plugin node carries so that TensorRT's parser finds the creator.
PARSER_ATTRIBUTES = ("plugin_version", "plugin_namespace")


class NodeBuilder:
    """Make ONNX nodes by calls: ``op.Transpose(w, perm=[1, 0])`` adds one and returns its output's name.

    ``op.TopK(x, k, _outputs=2)`` returns the names of two outputs.
    An integer as an input, as in ``op.QuantizeLinear(x, scale, 0)``, is a zero point: a constant of int8. A float, in
    ``op.Add(y, 1.0)``, is one of ``dtype``. The name that ``named`` gave is its value within a node's attribute, as in
    ``op.Conv(x, w, strides=[stride, stride])``.
    """

    def __init__(self, prefix: str, opset: int, dtype: str = "float32") -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._prefix = prefix
        self._opset = opset
        self._float = numpy_dtype(dtype)
        self._named: dict[str, Number] = {}

    def named(self, value: Number) -> str:
        """Add a constant of one integer or float, whose name may also stand in attributes."""
        name = self.ints(value) if isinstance(value, int) else self._scalar(value)
        self._named[name] = value
        return name

    def ints(self, *values: int) -> str:
        """Add a constant int64 vector, for a shape or for indexes."""
        return self.constant(np.array(values, dtype=np.int64))

    def constant(self, value: np.ndarray) -> str:
        """Add a constant tensor."""
        if self._opset < _CONSTANT_OF_ANY_TYPE and value.dtype.kind != "f":
            return str(
                self.Cast(self.constant(value.astype(np.float64)), to=helper.np_dtype_to_tensor_dtype(value.dtype))
            )
        return str(self.Constant(value=numpy_helper.from_array(np.asarray(value, order="C"))))

    def fresh(self) -> str:
        """Return a new value name."""
        return f"{self._prefix}{len(self.nodes)}"

    def referring(
        self, op_type: str, inputs: Sequence[str], name: str, attribute: str, kind: int = onnx.AttributeProto.INT
    ) -> str:
        """Add a node of which an attribute of that kind is an attribute of the function."""
        node = helper.make_node(op_type, inputs, [self.fresh()])
        node.attribute.add(name=name, ref_attr_name=attribute, type=kind)
        self.nodes.append(node)
        return str(node.output[0])

    def __getattr__(self, op_type: str) -> Any:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def add(*inputs: str | int | float | None, _outputs: int = 1, **attributes: Any) -> Any:
            names = [self._scalar(each) if isinstance(each, (int, float)) else each or "" for each in inputs]
            first = self.fresh()
            outputs = [first, *(f"{first}_{index}" for index in range(1, _outputs))]
            known = {name: self._number(value) for name, value in attributes.items()}
            self.nodes.append(helper.make_node(op_type, names, outputs, **known))
            return first if _outputs == 1 else outputs

        return add

    def _scalar(self, number: int | float) -> str:
        return self.constant(np.array(number, self._float if isinstance(number, float) else np.int8))

    def _number(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._number(each) for each in value]
        return self._named.get(value, value) if isinstance(value, str) else value


def onnx_function(kernel: Kernel, bodies: Mapping[Numbers, list[onnx.NodeProto]], opset: int) -> onnx.FunctionProto:
    """Build the function from a body for each combination of attributes (see ``attribute_numbers``).

    Raises:
        LenetTrtError: the opset is too old to choose by these attributes.
    """
    nodes = next(iter(bodies.values())) if len(bodies) == 1 else _choice(kernel, bodies, opset)
    return helper.make_function(
        DOMAIN,
        kernel.name,
        [tensor.name for tensor in kernel.inputs],
        [tensor.name for tensor in kernel.outputs],
        nodes,
        [helper.make_opsetid("", opset)],
        attributes=[*PARSER_ATTRIBUTES, *(attribute.name for attribute in kernel.attributes)],
    )


def attribute_numbers(kernel: Kernel, match: Match) -> Numbers:
    """Return a match's attributes as numbers in declared order, as the ONNX node has them."""
    values = chosen_values(kernel, match.attributes)
    return tuple(attribute.number(values[attribute.name]) for attribute in kernel.attributes)


def unpacked(
    kernel: Kernel, shapes: Mapping[str, Sequence[int]], opset: int
) -> tuple[list[onnx.NodeProto], dict[str, str]]:
    """Return the nodes that undo the packing, and the value that holds each plain weight."""
    if kernel.packing is None:
        return [], {}
    op = NodeBuilder("unpacked_", opset)
    weights = {tensor.name: tensor.name for tensor in kernel.inputs if tensor.weight}
    sizes = {name: tuple(shape) for name, shape in shapes.items()}
    values = call_declared(kernel.name, "unpack", kernel.packing.unpack, op, weights, sizes)
    return op.nodes, dict(values)


def body_of(
    match: Match, shapes: Mapping[str, Sequence[int]], narrowed: Set[str], opset: int, dtype: str
) -> list[onnx.NodeProto]:
    """Return the nodes that compute a match from the kernel's inputs; ``shapes`` are the plain weights' shapes.

    ``narrowed`` are the outputs that the kernel gives as int32 where the nodes give int64, ``dtype`` is the type of the
    first input.
    """
    kernel = match.kernel
    nodes, plain = unpacked(kernel, shapes, opset)
    if match.pattern.body is not None:
        return [*nodes, *_declared_body(match, match.pattern.body, plain, opset, dtype)]
    constants = NodeBuilder("constant_", opset)
    names = {value: plain.get(name, name) for name, value in match.values.items()}
    for value, tensor in zip(match.outputs, kernel.outputs, strict=True):
        names[value] = f"{tensor.name}_int64" if tensor.name in narrowed else tensor.name
    for node in match.nodes:
        for name in node.inputs:
            if name and name not in names:  # a constant inside the pattern, such as an exponent
                names[name] = constants.constant(match.constants[name])
        for name in node.outputs:
            names.setdefault(name, f"value_{len(names)}")
        proto = helper.make_node(
            node.op_type,
            [names[name] if name else "" for name in node.inputs],
            [names[name] for name in node.outputs],
            domain=node.domain,
        )
        proto.attribute.extend(attribute_protos(node))
        nodes.append(proto)
    casts = [
        helper.make_node("Cast", [f"{name}_int64"], [name], to=onnx.TensorProto.INT32) for name in sorted(narrowed)
    ]
    return [*constants.nodes, *nodes, *casts]


def _declared_body(
    match: Match, body: Callable[..., Any], plain: Mapping[str, str], opset: int, dtype: str
) -> list[onnx.NodeProto]:
    """Return the nodes that the pattern's ``body`` builds; ``plain`` names the values that hold the plain weights.

    A parameter that is named like an attribute is a constant: a float has the type ``dtype``. It may also stand in the
    attributes of nodes.
    """
    kernel = match.kernel
    op = NodeBuilder("value_", opset, dtype)
    attributes = chosen_values(kernel, match.attributes)

    def given(name: str) -> str:
        value = attributes.get(name)
        if value is None:
            return plain.get(name, name)
        return op.named(value if isinstance(value, float) else int(value))

    result = call_declared(
        kernel.name, "the pattern's body", body, op, *map(given, list(inspect.signature(body).parameters)[1:])
    )
    results = list(result) if isinstance(result, tuple) else [result]
    names = {value: tensor.name for value, tensor in zip(results, kernel.outputs, strict=True)}
    read = {name for node in op.nodes for name in node.input}
    nodes = [node for node in op.nodes if not read.union(results).isdisjoint(node.output)]
    for node in nodes:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    return nodes


def _choice(kernel: Kernel, bodies: Mapping[Numbers, list[onnx.NodeProto]], opset: int) -> list[onnx.NodeProto]:
    """Return nested ``If`` nodes on the attributes; the last body needs no test."""
    outputs = [tensor.name for tensor in kernel.outputs]
    modern = opset >= _CONSTANT_OF_ATTRIBUTE
    if not modern:
        _check_axes(kernel, bodies, opset)
    deciding = [
        attribute for index, attribute in enumerate(kernel.attributes) if len({key[index] for key in bodies}) > 1
    ]
    first, bodies = _without_sizes(kernel, {attribute.name for attribute in deciding}, bodies, opset)
    (*tested, (_, otherwise)) = bodies.items()
    for depth, (key, body) in enumerate(reversed(tested)):
        op = NodeBuilder(f"choice_{depth}_", opset)
        condition = ""
        for index, (attribute, number) in enumerate(zip(kernel.attributes, key, strict=True)):
            if attribute not in deciding:
                continue
            largest = max(other[index] for other in bodies)
            equal = _is(op, attribute, number) if modern else _is_in_old_opset(op, attribute, number, int(largest))
            condition = op.And(condition, equal) if condition else equal
        branches = {
            "then_branch": _branch("then", body, outputs, depth),
            "else_branch": _branch("else", otherwise, outputs, depth),
        }
        otherwise = [*op.nodes, helper.make_node("If", [condition], outputs, **branches)]
    return [*first, *otherwise]


def _without_sizes(
    kernel: Kernel, deciding: Set[str], bodies: Mapping[Numbers, list[onnx.NodeProto]], opset: int
) -> tuple[list[onnx.NodeProto], dict[Numbers, list[onnx.NodeProto]]]:
    """Hide the size of inputs that fit one branch alone from shape inference, which looks at all branches.

    What is added to a convolution has another size where the stride is another, and packed weights have one where the
    filters are larger. Returns the nodes before the choice, and the bodies that read their values.
    """
    op = NodeBuilder("sizeless_", opset)
    names = {}
    for tensor in kernel.inputs:
        sizes = frozenset().union(*(as_dim(size).axes for size in tensor.shape))
        if not deciding.isdisjoint(sizes):
            # Shape inference computes no Abs.
            names[tensor.name] = op.Reshape(tensor.name, op.Abs(op.Shape(tensor.name)))
    return op.nodes, {key: [renamed(node, names) for node in body] for key, body in bodies.items()}


def _is(op: NodeBuilder, attribute: AnyAttribute, number: Number) -> str:
    """Add nodes that test whether an attribute of the function has this value."""
    name, kind = f"value_{attribute.type_name}", _KINDS[attribute.type_name]
    return str(op.Equal(op.referring("Constant", (), name, attribute.name, kind), op.Constant(**{name: number})))


def _is_in_old_opset(op: NodeBuilder, attribute: AnyAttribute, number: Number, largest: int) -> str:
    """Add the same test where no Constant takes an attribute.

    An integer as a Concat's axis decides which size becomes 2; a float is the slope by which LeakyRelu multiplies -1.
    """
    if attribute.type_name == "float":
        minus_one = op.constant(np.array(-1, dtype=np.float32))
        seen = op.referring("LeakyRelu", (minus_one,), "alpha", attribute.name, onnx.AttributeProto.FLOAT)
        wanted = op.constant(np.array(-number, dtype=np.float32))
        return str(op.Not(op.Or(op.Less(seen, wanted), op.Greater(seen, wanted))))
    one = op.constant(np.zeros((1,) * (largest + 1), dtype=np.float32))
    sizes = op.Shape(op.referring("Concat", (one, one), "axis", attribute.name))
    two = op.constant(np.array(2, dtype=np.int64))
    return str(op.Equal(op.Gather(sizes, op.constant(np.array(number, dtype=np.int64)), axis=0), two))


def _check_axes(kernel: Kernel, bodies: Mapping[Numbers, list[onnx.NodeProto]], opset: int) -> None:
    for key in bodies:
        for index, (attribute, number) in enumerate(zip(kernel.attributes, key, strict=True)):
            decides = attribute.type_name == "int" and len({other[index] for other in bodies}) > 1
            if decides and not 0 <= number <= _LARGEST_AXIS:
                raise LenetTrtError(
                    f"its {attribute.name} is {number}, and in opset {opset} a function can tell numbers from 0 to "
                    f"{_LARGEST_AXIS} apart: convert the model to opset {_CONSTANT_OF_ATTRIBUTE} or newer"
                )


def _branch(which: str, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], depth: int) -> onnx.GraphProto:
    """Return a body as a branch; its values get names that occur nowhere else in the function."""
    own = {name for node in nodes for name in node.output}
    names = {name: f"{which}_{depth}_{name}" for name in own}
    results = [onnx.ValueInfoProto(name=names[name]) for name in outputs]
    return helper.make_graph([renamed(node, names) for node in nodes], f"{which}_{depth}", [], results)
