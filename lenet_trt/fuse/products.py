"""Write products of matrices in one way: ``MatMul`` with ``transA``, ``transB`` and ``alpha``, which ONNX lacks."""

from __future__ import annotations

from dataclasses import dataclass

from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

_MATRIX = 2  # axes


@dataclass
class _Operand:
    """Hold what an operand is made of: ``factor`` times a value, transposed or not, by the nodes ``origins``."""

    name: str
    transposed: bool = False
    factor: float = 1.0
    origins: frozenset[int] = frozenset()


def products_of_matrices(graph: WorkingGraph, node: WorkingNode) -> None:
    """Take transpositions of the matrices, and multiplications by a constant, into the ``MatMul``."""
    ranks = [graph.rank(name) for name in node.inputs] if node.is_op("MatMul") else []
    if not ranks or any(rank is None or rank < _MATRIX for rank in ranks) or max(filter(None, ranks)) == _MATRIX:
        return
    left, right = (_operand(graph, name, node) for name in node.inputs)
    alpha = float(node.attributes.get("alpha", 1.0)) * left.factor * right.factor
    outputs, slot, old = list(node.outputs), node.slot, [node]
    origins = node.origins | left.origins | right.origins
    after = graph.only_consumer(node.outputs[0])
    scaled = None if after is None else factor_of(graph, after)
    if after is not None and scaled is not None and scaled[0] == node.outputs[0]:
        alpha, outputs, slot, old = alpha * scaled[1], list(after.outputs), after.slot, [node, after]
        origins |= after.origins
    attributes = {
        "alpha": alpha,
        "transA": int(bool(node.attributes.get("transA")) != left.transposed),
        "transB": int(bool(node.attributes.get("transB")) != right.transposed),
    }
    defaults = {"alpha": 1.0, "transA": 0, "transB": 0}
    attributes = {name: value for name, value in attributes.items() if value != defaults[name]}
    if (left.name, right.name) != tuple(node.inputs) or len(old) > 1:
        graph.replace(old, [(slot, WorkingNode("MatMul", [left.name, right.name], outputs, attributes, origins))])


def einsum_as_matmul(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace an ``Einsum`` of two operands that multiplies matrices with the same leading axes."""
    if not node.is_op("Einsum") or len(node.inputs) != 2:
        return
    product = _product(str(node.attributes.get("equation", "")))
    if product is None:
        return
    swapped, attributes = product
    inputs = node.inputs[::-1] if swapped else list(node.inputs)
    graph.replace([node], [(node.slot, WorkingNode("MatMul", inputs, list(node.outputs), attributes, node.origins))])


def _operand(graph: WorkingGraph, name: str, reader: WorkingNode) -> _Operand:
    """Follow an operand back through transpositions of its last two axes and multiplications by a constant."""
    operand = _Operand(name)
    alone = True  # nobody but the product needs what was passed so far
    while (node := graph.producer(operand.name)) is not None:
        readers = graph.consumers(node.outputs[0])
        alone = alone and node.outputs[0] not in graph.outputs and all(each is reader for each in readers)
        passed = _swapped(graph, node)
        scaled = factor_of(graph, node) if alone else None
        if passed is not None:
            operand.name, nodes = passed
            operand.transposed = not operand.transposed
            alone = alone and all(graph.only_consumer(each.outputs[0]) is not None for each in nodes[1:])
        elif scaled is not None:
            (operand.name, factor), nodes = scaled, [node]
            operand.factor *= factor
        else:
            break
        if alone:
            operand.origins = operand.origins.union(*(each.origins for each in nodes))
        reader = nodes[-1]
    return operand


def _swapped(graph: WorkingGraph, node: WorkingNode) -> tuple[str, list[WorkingNode]] | None:
    """Return the value of which a node is the transposition of the last two axes, and the nodes that this takes.

    torch's newer exporter joins the leading axes for that: a ``Transpose`` between two ``Reshape``.
    """
    if node.is_op("Transpose"):
        return (node.inputs[0], [node]) if swaps_last_two(graph, node) else None
    transpose = graph.producer(node.inputs[0]) if node.is_op("Reshape") else None
    if transpose is None or not transpose.is_op("Transpose") or not swaps_last_two(graph, transpose):
        return None
    joined = graph.producer(transpose.inputs[0])
    if joined is None or not joined.is_op("Reshape"):
        return None
    name = joined.inputs[0]
    before, between, after = (graph.shape(value) for value in (name, joined.outputs[0], node.outputs[0]))
    if before is None or between is None or after is None or min(len(before), len(between), len(after)) < _MATRIX:
        return None
    same = before[-2:] == between[-2:] == after[:-3:-1] and before[:-2] == after[:-2]
    return (name, [node, transpose, joined]) if same and None not in before else None


def factor_of(graph: WorkingGraph, node: WorkingNode) -> tuple[str, float] | None:
    """Return the value and the constant by which a node multiplies it, or divides it."""
    if not node.is_op("Mul", "Div"):
        return None
    for name, other in [node.inputs, node.inputs[::-1]][: 1 if node.is_op("Div") else 2]:
        constant, rank = graph.constants.get(other), graph.rank(name)
        if name in graph.constants or constant is None or constant.size != 1 or constant.dtype.kind not in "fV":
            continue
        if rank is None or constant.ndim > rank:
            continue
        factor = float(constant.item())
        if node.is_op("Div") and factor == 0:
            continue
        return name, 1 / factor if node.is_op("Div") else factor
    return None


def swaps_last_two(graph: WorkingGraph, node: WorkingNode) -> bool:
    """Return whether a node is the transposition of the last two axes."""
    rank = graph.rank(node.inputs[0]) if node.is_op("Transpose") else None
    if rank is None or rank < 2:
        return False
    default = [*range(rank)][::-1]  # without perm, all axes are reversed
    return list(node.attributes.get("perm", default)) == [*range(rank - 2), rank - 1, rank - 2]


def _product(equation: str) -> tuple[bool, dict[str, int]] | None:
    """Return whether the operands change places, and the attributes of the MatMul; None if it is no such product."""
    operands, arrow, result = equation.replace(" ", "").partition("->")
    terms = operands.split(",")
    if not arrow or len(terms) != 2:
        return None
    parsed = [_parts(term) for term in (*terms, result)]
    left, right, out = parsed
    if left is None or right is None or out is None or not left[0] == right[0] == out[0]:
        return None
    swapped = out[1] in right[1:]
    if swapped:
        left, right = right, left
    row, column = out[1:]
    (depth,) = set(left[1:]) - {row} if row in left[1:] else ("",)
    if depth in ("", row, column) or set(right[1:]) != {depth, column} or column in left[1:]:
        return None
    attributes = {"transA": int(left[1] == depth), "transB": int(right[2] == depth)}
    return swapped, {name: value for name, value in attributes.items() if value}


def _parts(term: str) -> tuple[str, str, str] | None:
    """Split a term into the leading axes and the last two; None where an axis occurs twice or there are fewer."""
    letters = term.replace("...", "")
    if len(letters) < 2 or not letters.isalpha() or len(set(letters)) < len(letters) or term.endswith("..."):
        return None
    return (term[:-2], term[-2], term[-1]) if "." not in term[-2:] else None
