"""Put the nodes of a branch in the place of an ``If`` that a constant decides, as in a plugin's inlined function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from onnx import ModelProto, NodeProto


def without_decided_ifs(model: ModelProto) -> ModelProto:
    """Return a copy in which each ``If`` whose condition is computed from constants alone has become its branch."""
    result = ModelProto()
    result.CopyFrom(model)
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    nodes = list(_decided(result.graph.node, opsets))
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return result


def _decided(nodes: Iterable[NodeProto], opsets: dict[str, int]) -> Iterable[NodeProto]:
    given: dict[str, NodeProto] = {}
    for node in nodes:
        taken = _branch(node, given, opsets) if node.op_type == "If" else [node]
        for each in taken:
            given.update(dict.fromkeys(each.output, each))
            yield each


def _branch(node: NodeProto, given: Mapping[str, NodeProto], opsets: dict[str, int]) -> list[NodeProto]:
    """Return the nodes of the branch that is taken, with names of their own, or the node itself."""
    condition = _value(node.input[0], given, opsets)
    if condition is None:
        return [node]
    name = "then_branch" if condition.item() else "else_branch"
    branch = next(attribute.g for attribute in node.attribute if attribute.name == name)
    nodes = list(_decided(branch.node, opsets))
    if branch.initializer or any(_has_graph(each) for each in nodes):  # whose names would have to change too
        return [node]
    names = {inner: f"{node.output[0]}__{inner}" for each in nodes for inner in each.output if inner}
    names |= {result.name: outer for result, outer in zip(branch.output, node.output, strict=True)}
    return [renamed(each, names) for each in nodes]


def renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    """Return a copy of a node whose inputs and outputs have other names; those without another keep theirs."""
    result = NodeProto()
    result.CopyFrom(node)  # the branch stays as it is, for where it is not taken out after all
    result.input[:] = [names.get(value, value) for value in node.input]
    result.output[:] = [names.get(value, value) for value in node.output]
    return result


def _value(name: str, given: Mapping[str, NodeProto], opsets: dict[str, int]) -> np.ndarray | None:
    """Compute a value from constants; None: it depends on something else."""
    node = given.get(name)
    if node is None or node.domain or _has_graph(node):
        return None
    inputs = {value: _value(value, given, opsets) for value in node.input}
    if any(value is None for value in inputs.values()):
        return None
    from onnx.reference import ReferenceEvaluator  # all operators; only an If needs it

    results = list(ReferenceEvaluator(node, opsets=opsets).run(None, inputs))
    return np.asarray(results[list(node.output).index(name)])


def _has_graph(node: NodeProto) -> bool:
    return any(attribute.HasField("g") for attribute in node.attribute)
