"""Find the places of a graph in normal form that a kernel can replace."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.captures import Captures, captured_attributes
from lenet_trt.fuse.working_copy import Array, WorkingGraph, WorkingNode
from lenet_trt.kernel.pattern import Pattern

if TYPE_CHECKING:
    from lenet_trt.kernel.attributes import AttributeValue
    from lenet_trt.kernel.declaration import Kernel


@dataclass(frozen=True, eq=False)
class Match:
    """Hold a place where a kernel's pattern was found, with nodes and values of the normal form."""

    kernel: Kernel
    pattern: Pattern
    nodes: tuple[WorkingNode, ...]
    values: Mapping[str, str]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue]
    constants: Mapping[str, Array]
    problem: str | None = None  # why the kernel cannot be used for these attributes

    @property
    def origins(self) -> frozenset[int]:
        """Return the indexes of the file's nodes that it replaces."""
        return frozenset().union(*(node.origins for node in self.nodes))


def find(graph: WorkingGraph, kernels: Iterable[Kernel]) -> list[Match]:
    """Return every place where one of the kernels could be used; places may overlap.

    Raises:
        LenetTrtError: a kernel's pattern is not a pattern (says which and why).
    """
    from onnxscript import ir
    from onnxscript.rewriter import pattern as rewriter

    compiled = [(kernel, pattern, _compiled(kernel, pattern)) for kernel in kernels for pattern in kernel.patterns]
    model = ir.from_proto(graph.to_model())
    by_slot = {str(node.slot): node for node in graph.nodes}
    by_operator: dict[str, list[ir.Node]] = {}
    for node in model.graph:
        by_operator.setdefault(node.op_type, []).append(node)
    matches: list[Match] = []
    for kernel, pattern, (graph_pattern, captures) in compiled:
        matcher = rewriter.Pattern(graph_pattern)  # it keeps the graph that it has seen, so it is not shared
        last = graph_pattern.output_nodes[0]
        for candidate in by_operator.get(last.op_type, ()):
            if not _may_match(last, candidate):
                continue
            found = matcher.match(model, model.graph, candidate, check_nodes_are_removable=False)
            if found:
                nodes = sorted((by_slot[str(node.name)] for node in found.nodes), key=lambda n: n.slot)
                if match := _match(graph, kernel, pattern, nodes, found, captures):
                    matches.append(match)
    return matches


def _may_match(pattern: Any, node: Any, depth: int = 2) -> bool:
    """Return whether the operators that give the inputs are the pattern's: most places fail here, which is cheap."""
    if pattern.op_type != node.op_type:
        return False
    for wanted, value in zip_longest(pattern.inputs, node.inputs):
        giver = None if wanted is None else wanted.producer()
        if giver is None or depth == 0:
            continue
        before = None if value is None else value.producer()
        if before is None or not _may_match(giver, before, depth - 1):
            return False
    return True


def _match(
    graph: WorkingGraph, kernel: Kernel, pattern: Pattern, nodes: list[WorkingNode], found: Any, captures: Captures
) -> Match | None:
    """Return the match, or None where the nodes have another number of axes than the pattern."""
    unused = [tensor.name for tensor in kernel.plain_inputs if found.bindings.get(tensor.name) is None]
    if unused:
        raise LenetTrtError(f"kernel {kernel.name}: a pattern does not use its parameter {', '.join(unused)}")
    values = {tensor.name: str(found.bindings[tensor.name].name) for tensor in kernel.plain_inputs}
    read = {name for node in nodes for name in node.inputs} - set(values.values())
    constants = {name: graph.constants[name] for name in sorted(read & graph.constants.keys())}
    outputs = tuple(str(value.name) for value in found.outputs)
    captured = captured_attributes(graph, kernel, captures, found.bindings)
    if captured is None:
        return None
    attributes, problem = captured
    return Match(
        kernel, pattern, tuple(nodes), values, outputs, {**pattern.attributes, **attributes}, constants, problem
    )


class _Strict:
    """Build patterns that refuse attributes which the pattern does not name, and note which ones it captures."""

    def __init__(self, op: Any, captures: Captures) -> None:
        self._op = op
        self._captures = captures

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def node(*inputs: Any, **attributes: Any) -> Any:
            wanted = {key: self._captures.pattern_of(name, key, value) for key, value in attributes.items()}
            return getattr(self._op, name)(*inputs, **wanted, _allow_other_attributes=False)

        return node


@functools.cache
def _compiled(kernel: Kernel, pattern: Pattern) -> tuple[Any, Captures]:
    """Return the rewriter's graph of a pattern, and what the pattern captures: neither ever changes."""
    from onnxscript.rewriter import pattern as rewriter

    captures = Captures()

    @functools.wraps(pattern.graph)
    def strict(op: Any, *parameters: Any) -> Any:
        return pattern.graph(_Strict(op, captures), *parameters)

    wanted = {tensor.name for tensor in kernel.plain_inputs}
    attributes = {attribute.name for attribute in kernel.attributes} - wanted
    given = set(list(inspect.signature(pattern.graph).parameters)[1:])
    if not wanted <= given <= wanted | attributes:
        may = f", and may have {', '.join(sorted(attributes))}" if attributes else ""
        raise LenetTrtError(
            f"kernel {kernel.name}: a pattern has parameters {', '.join(sorted(given))}; "
            f"wanted op and then {', '.join(sorted(wanted))}{may}"
        )
    graphs: list[Any] = []

    def matcher(graph: Any) -> Any:
        graphs.append(graph)
        return rewriter.SimplePatternMatcher(graph)

    try:
        rewriter.Pattern(strict, matcher=matcher)
        if not graphs[0].output_nodes:
            raise ValueError("it has no node")
    except Exception as error:
        where = getattr(pattern.graph, "__qualname__", repr(pattern.graph))
        raise LenetTrtError(
            f"kernel {kernel.name}: the pattern {where} cannot be used ({type(error).__name__}: {error}); "
            "it takes op and the kernel's inputs by name, and returns what op.<OnnxOperator>(...) gives"
        ) from error
    return graphs[0], captures
