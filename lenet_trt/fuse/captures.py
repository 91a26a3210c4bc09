"""Read the values that a pattern captures: attributes of the kernel that a network's own nodes say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx
from onnx import helper

from lenet_trt.fuse.working_copy import WorkingGraph

if TYPE_CHECKING:
    from lenet_trt.kernel.attributes import AttributeValue
    from lenet_trt.kernel.declaration import Kernel

# What a list has in every place where ONNX says no default because its length differs from node to node.
_UNWRITTEN = {"pads": 0, "strides": 1, "dilations": 1}
# The default of what the normal form has and ONNX's own operator has not.
_OWN_DEFAULTS = {("MatMul", "alpha"): 1.0, ("SelfAttention", "shift"): 0}


@dataclass(frozen=True)
class Capture:
    """Hold one attribute of a pattern's node, with the names of parameters in the place of numbers."""

    op_type: str
    attribute: str
    wanted: Any  # _Parameter, or a list of such and of numbers


@dataclass(frozen=True)
class _Parameter:
    name: str

    def __str__(self) -> str:
        return self.name


class Captures:
    """Collect the attributes of a pattern's nodes in which parameters stand."""

    def __init__(self) -> None:
        self.by_variable: dict[str, Capture] = {}

    def pattern_of(self, op_type: str, attribute: str, value: Any) -> Any:
        """Return what the rewriter matches with an attribute: any value, where a parameter stands in it."""
        from onnxscript.rewriter import pattern as rewriter

        wanted = [_parameter(each) for each in value] if isinstance(value, (list, tuple)) else _parameter(value)
        several = wanted if isinstance(wanted, list) else [wanted]
        if not any(isinstance(each, _Parameter) for each in several):
            return value
        # The name of the variable is no identifier, so that it is none of the pattern's parameters.
        variable = f"{len(self.by_variable)} {op_type}.{attribute}"
        self.by_variable[variable] = Capture(op_type, attribute, wanted)
        return rewriter.AttrVar(variable, can_match_none=True)


def captured_attributes(
    graph: WorkingGraph, kernel: Kernel, captures: Captures, bindings: Mapping[str, Any]
) -> tuple[dict[str, AttributeValue], str | None] | None:
    """Return the attributes of the kernel that a match says, and why it cannot be used, if it cannot.

    Returns None where a list has another length: the nodes have another number of axes, so they are no match.
    """
    values: dict[str, AttributeValue] = {}
    for attribute in kernel.attributes:
        bound = bindings.get(attribute.name)
        if bound is None:
            continue
        array = graph.constants.get(str(bound.name))
        if array is None or array.size != 1:
            what = "computed in the network" if array is None else f"{array.size} numbers"
            return values, f"{attribute.name} ({bound.name}) is {what}; {kernel.name} wants one constant"
        values[attribute.name] = array.astype("float32").item() if array.dtype.kind not in "iu" else array.item()
    for variable, capture in captures.by_variable.items():
        seen = _seen(graph, capture, bindings.get(variable))
        wanted = capture.wanted
        pairs = [(wanted, seen)]
        if isinstance(wanted, list):
            if isinstance(seen, list) and len(seen) != len(wanted):
                return None
            pairs = list(zip(wanted, seen, strict=True)) if isinstance(seen, list) else [(None, seen)]
        for each, value in pairs:
            known = values.setdefault(each.name, value) if isinstance(each, _Parameter) else each
            if known != value:
                text = f"[{', '.join(map(str, wanted))}]" if isinstance(wanted, list) else str(wanted)
                return values, f"{capture.op_type} has {capture.attribute} {seen}; {kernel.name} wants {text}"
    return values, None


def _parameter(value: Any) -> Any:
    from onnxscript.rewriter import pattern as rewriter

    return _Parameter(str(value.name)) if isinstance(value, rewriter.Var) else value


def _seen(graph: WorkingGraph, capture: Capture, bound: Any) -> Any:
    """Return the value that a node says, or the operator's default, which the normal form leaves out."""
    if bound is not None:
        value = bound.value
        return list(value) if isinstance(value, (list, tuple)) else value
    if capture.attribute in _UNWRITTEN and isinstance(capture.wanted, list):
        return [_UNWRITTEN[capture.attribute]] * len(capture.wanted)
    if (capture.op_type, capture.attribute) in _OWN_DEFAULTS:
        return _OWN_DEFAULTS[capture.op_type, capture.attribute]
    schema = onnx.defs.get_schema(capture.op_type, graph.opsets.get("", 1))
    declared = schema.attributes[capture.attribute].default_value
    value = helper.get_attribute_value(declared) if declared.name else None
    return value.decode() if isinstance(value, bytes) else value
