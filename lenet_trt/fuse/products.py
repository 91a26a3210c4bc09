"""Write products of matrices in one way: ``MatMul`` with ``transA`` and ``transB``, which ONNX's own MatMul lacks."""

from __future__ import annotations

from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


def transposes_into_matmul(graph: WorkingGraph, node: WorkingNode) -> None:
    """Read the operand of a ``Transpose`` instead, where it lets the last two axes of a matrix change places."""
    if not node.is_op("MatMul") or any(graph.rank(name) == 1 for name in node.inputs):
        return
    inputs, attributes, origins = list(node.inputs), dict(node.attributes), node.origins
    for index, attribute in enumerate(("transA", "transB")):
        transpose = graph.producer(inputs[index])
        if transpose is None or not _swaps_last_two(graph, transpose):
            continue
        readers = graph.consumers(transpose.outputs[0])
        if transpose.outputs[0] not in graph.outputs and all(reader is node for reader in readers):
            origins |= transpose.origins  # nobody else needs it
        inputs[index] = transpose.inputs[0]
        attributes[attribute] = 1 - attributes.get(attribute, 0)
    if inputs == node.inputs:
        return
    attributes = {name: value for name, value in attributes.items() if value}
    graph.replace([node], [(node.slot, WorkingNode("MatMul", inputs, list(node.outputs), attributes, origins))])


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


def _swaps_last_two(graph: WorkingGraph, node: WorkingNode) -> bool:
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
