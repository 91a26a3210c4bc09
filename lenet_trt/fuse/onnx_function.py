"""The model-local ONNX function that a plugin node falls back to, in runtimes that know no plugins.

Its body is the subgraph that was taken out, in normal form, after what undoes the packing of the weights. There is
one function a kernel: where nodes of one file have different attributes, the body chooses by them.
(``FunctionProto.overload`` would say that better, but TensorRT-RTX 1.7 and onnx.reference ignore it and take the
wrong body.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lenet_trt.fuse.match import Match
from lenet_trt.fuse.working_copy import attribute_protos
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.pattern import DOMAIN

# What every plugin node carries so that TensorRT's parser finds the creator.
PARSER_ATTRIBUTES = ("plugin_version", "plugin_namespace")


class NodeBuilder:
    """Makes ONNX nodes by calling their operators: ``op.Transpose(w, perm=[1, 0])`` adds one and names its output."""

    def __init__(self, prefix: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._prefix = prefix

    def ints(self, *values: int) -> str:
        """A constant int64 vector, as operators take shapes and indexes."""
        return self.constant(np.array(values, dtype=np.int64))

    def constant(self, value: np.ndarray) -> str:
        """A constant tensor."""
        return str(self.Constant(value=numpy_helper.from_array(np.asarray(value, order="C"))))

    def fresh(self) -> str:
        """A new value name."""
        return f"{self._prefix}{len(self.nodes)}"

    def __getattr__(self, op_type: str) -> Any:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def add(*inputs: str, **attributes: Any) -> str:
            output = self.fresh()
            self.nodes.append(helper.make_node(op_type, inputs, [output], **attributes))
            return output

        return add


def onnx_function(
    kernel: Kernel, bodies: Mapping[tuple[int, ...], list[onnx.NodeProto]], opset: int
) -> onnx.FunctionProto:
    """Build the function from a body for each combination of attributes (see ``attribute_numbers``)."""
    nodes = next(iter(bodies.values())) if len(bodies) == 1 else _choice(kernel, bodies)
    return helper.make_function(
        DOMAIN,
        kernel.name,
        [tensor.name for tensor in kernel.inputs],
        [tensor.name for tensor in kernel.outputs],
        nodes,
        [helper.make_opsetid("", opset)],
        attributes=[*PARSER_ATTRIBUTES, *(attribute.name for attribute in kernel.attributes)],
    )


def attribute_numbers(kernel: Kernel, match: Match) -> tuple[int, ...]:
    """A match's attributes as the kernel's source and the ONNX node have them: integers, in declared order."""
    return tuple(
        attribute.macro_value(match.attributes.get(attribute.name, attribute.choices[0]))
        for attribute in kernel.attributes
    )


def unpacked(kernel: Kernel, shapes: Mapping[str, Sequence[int]]) -> tuple[list[onnx.NodeProto], dict[str, str]]:
    """The nodes that undo the packing, and the value that holds each plain weight."""
    if kernel.packing is None:
        return [], {}
    op = NodeBuilder("unpacked_")
    weights = {tensor.name: tensor.name for tensor in kernel.inputs if tensor.weight}
    values = kernel.packing.unpack(op, weights, {name: tuple(s) for name, s in shapes.items()})
    return op.nodes, dict(values)


def body_of(match: Match, shapes: Mapping[str, Sequence[int]]) -> list[onnx.NodeProto]:
    """The nodes that compute a match from the kernel's inputs; ``shapes``: the plain weights' shapes by name."""
    kernel = match.kernel
    nodes, plain = unpacked(kernel, shapes)
    names = {value: plain.get(name, name) for name, value in match.values.items()}
    names |= {value: tensor.name for value, tensor in zip(match.outputs, kernel.outputs, strict=True)}
    for node in match.nodes:
        for name in node.inputs:
            if name and name not in names:  # a constant inside the pattern, such as an exponent
                names[name] = f"constant_{len(names)}"
                tensor = numpy_helper.from_array(match.constants[name])
                nodes.append(helper.make_node("Constant", [], [names[name]], value=tensor))
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
    return nodes


def _choice(kernel: Kernel, bodies: Mapping[tuple[int, ...], list[onnx.NodeProto]]) -> list[onnx.NodeProto]:
    """Nested ``If`` on the attributes; the last body needs no test."""
    outputs = [tensor.name for tensor in kernel.outputs]
    (*tested, (_, otherwise)) = bodies.items()
    for depth, (key, body) in enumerate(reversed(tested)):
        op = NodeBuilder(f"choice_{depth}_")
        condition = ""
        for attribute, number in zip(kernel.attributes, key, strict=True):
            value = op.fresh()
            constant = helper.make_node("Constant", [], [value])
            constant.attribute.add(name="value_int", ref_attr_name=attribute.name, type=onnx.AttributeProto.INT)
            op.nodes.append(constant)
            equal = op.Equal(value, op.Constant(value_int=number))
            condition = op.And(condition, equal) if condition else equal
        branches = {
            "then_branch": _branch("then", body, outputs, depth),
            "else_branch": _branch("else", otherwise, outputs, depth),
        }
        otherwise = [*op.nodes, helper.make_node("If", [condition], outputs, **branches)]
    return otherwise


def _branch(which: str, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], depth: int) -> onnx.GraphProto:
    """A body as a branch: its own values get names that occur nowhere else in the function."""
    own = {name for node in nodes for name in node.output}
    names = {name: f"{which}_{depth}_{name}" for name in own}
    renamed = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [names.get(name, name) for name in node.input]
        copy.output[:] = [names[name] for name in node.output]
        renamed.append(copy)
    results = [onnx.ValueInfoProto(name=names[name]) for name in outputs]
    return helper.make_graph(renamed, f"{which}_{depth}", [], results)
