"""Define the rules that write attention in one way: Softmax of scaled products and one mask, then a second product.

=========  =================================================================================================
key        its ``Transpose`` leaves the last axis the last one; the ``MatMul`` has ``transB=1`` instead
scale      ``alpha`` of the first ``MatMul``, before the mask is added
mask       none of zeros, also where these are expanded over an open batch; else one: the sum of constants that are
           added one after the other, the second of the ``Add``
no keys    ``Softmax(x, axis=-1, guarded=1)`` makes zeros of rows that are NaN, such as those without a key; nothing is
           done about these where a constant mask leaves each row a key
queries    a mask is not expanded over them; see ``repeated_masks.py``
windows    ``Add(x, mask, tiled=1)``: the mask is repeated along the first axis of x, as ``numpy.tile`` repeats; it is
           not expanded over the images
=========  =================================================================================================

Source: what torch's exporters write for torchvision's Swin, torch.nn.MultiheadAttention and transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lenet_trt.fuse.folding import computed_constant
from lenet_trt.fuse.movement import as_view, known_sizes_of
from lenet_trt.fuse.products import factor_of, products_of_matrices, swaps_last_two
from lenet_trt.fuse.repeated_masks import one_row_for_all_queries
from lenet_trt.fuse.working_copy import Array, PartialShape, WorkingGraph, WorkingNode

if TYPE_CHECKING:
    from lenet_trt.fuse.dialects import Rule

# A sum of masks is a new constant of the file.
_LARGEST_MASK_BYTES = 1 << 26


def rows_without_keys(graph: WorkingGraph, node: WorkingNode) -> None:
    """Take what gives zeros for a row without any key into the ``Softmax``, or leave it out where each row has one.

    torch's exporters write that behind the ``Softmax`` wherever the mask is of booleans. It would also make zeros of
    scores that are NaN.
    """
    guard = graph.producer(node.inputs[0]) if node.is_op("Where") else None
    if guard is None or not guard.is_op("IsNaN") or graph.only_consumer(guard.outputs[0]) is None:
        return
    zero, softmax = computed_constant(graph, node.inputs[1]), graph.producer(node.inputs[2])
    if zero is None or zero.size != 1 or zero.any() or softmax is None or not softmax.is_op("Softmax"):
        return
    shares = softmax.outputs[0]
    readers = {reader.slot for reader in graph.consumers(shares)}
    if guard.inputs[0] != shares or shares in graph.outputs or readers != {guard.slot, node.slot}:
        return
    if zero.ndim > (graph.rank(shares) or 0) or softmax.attributes.get("axis") != -1:
        return
    guarded = {} if _each_row_has_a_key(graph, softmax) else {"guarded": 1}
    origins = softmax.origins | guard.origins | node.origins
    alone = WorkingNode("Softmax", list(softmax.inputs), list(node.outputs), {**softmax.attributes, **guarded}, origins)
    graph.replace([softmax, guard, node], [(node.slot, alone)])


def no_mask(graph: WorkingGraph, node: WorkingNode) -> None:
    """Leave out a constant mask of zeros, as of a network that masks nothing here."""
    add = _before(graph, node, "Softmax")
    if add is None or not add.is_op("Add"):
        return
    for scores, mask in (add.inputs, add.inputs[::-1]):
        value = computed_constant(graph, mask)
        if value is not None and not value.any() and _same_shape(graph, scores, add.outputs[0]):
            origins = add.origins | node.origins
            alone = WorkingNode("Softmax", [scores], list(node.outputs), node.attributes, origins)
            graph.replace([add, node], [(node.slot, alone)])
            return


def scale_before_mask(graph: WorkingGraph, node: WorkingNode) -> None:
    """Multiply scores and a constant mask one by one, where a ``Softmax`` has a multiple of their sum."""
    after = _before(graph, node, "Softmax")
    factor = None if after is None else factor_of(graph, after)
    add = None if after is None else _before(graph, after, "Mul", "Div")
    if factor is None or after is None or add is None or not add.is_op("Add") or factor[0] != add.outputs[0]:
        return
    scores, mask = add.inputs
    added = graph.constants.get(mask)
    if added is None or scores in graph.constants or not _same_shape(graph, scores, add.outputs[0]):
        return
    scale = np.asarray(factor[1], added.dtype)
    with np.errstate(all="ignore"):
        multiple = np.asarray(added * scale, added.dtype)
    if not scale > 0 or not np.array_equal(np.isfinite(multiple), np.isfinite(added)):
        return
    name = graph.add_constant(f"{mask}.scaled", multiple)
    scaled = f"{after.outputs[0]}.before_mask"
    inputs = [scores if value == add.outputs[0] else value for value in after.inputs]
    graph.learn_shape(scaled, graph.shape(scores) or ())
    first = WorkingNode(after.op_type, inputs, [scaled], {}, after.origins)
    second = WorkingNode("Add", [scaled, name], list(after.outputs), {}, add.origins)
    graph.replace([add, after], [(add.slot, first), (after.slot, second)])


def scores_first(graph: WorkingGraph, node: WorkingNode) -> None:
    """Put the mask of a ``Softmax`` behind the scores, which a ``MatMul`` computes."""
    add = _before(graph, node, "Softmax")
    if add is None or not add.is_op("Add"):
        return
    mask, scores = map(graph.producer, add.inputs)
    if scores is not None and scores.is_op("MatMul") and (mask is None or not mask.is_op("MatMul")):
        swapped = WorkingNode("Add", add.inputs[::-1], list(add.outputs), add.attributes, add.origins)
        graph.replace([add], [(add.slot, swapped)])


def mask_of_windows(graph: WorkingGraph, node: WorkingNode) -> None:
    """Add the masks of shifted windows without the two ``Reshape`` that divide the first axis into [n, windows]."""
    joined = _before(graph, node, "Softmax")
    add = None if joined is None else _before(graph, joined, "Reshape")
    if joined is None or add is None or not add.is_op("Add"):
        return
    for divided_name, mask in (add.inputs, add.inputs[::-1]):
        divided = graph.producer(divided_name)
        if divided is None or not divided.is_op("Reshape") or graph.only_consumer(divided_name) is not add:
            continue
        x = divided.inputs[0]
        windows = _windows(*map(graph.shape, (x, divided_name, joined.outputs[0])))
        value = None if windows is None else computed_constant(graph, mask)
        small = None if value is None or windows is None else _over_windows(value, windows)
        if small is None:
            continue
        name = graph.add_constant(f"{mask}.windows", small)
        origins = divided.origins | add.origins | joined.origins
        new = WorkingNode("Add", [x, name], list(joined.outputs), _repeated(graph, small, x), origins)
        graph.replace([divided, add, joined], [(joined.slot, new)])
        graph.learn_shape(joined.outputs[0], graph.shape(x) or ())
        return


def mask_of_each_image(graph: WorkingGraph, node: WorkingNode) -> None:
    """Add a constant mask of windows without expanding it over the images, as transformers' Swin does."""
    add = _before(graph, node, "Softmax")
    if add is None or not add.is_op("Add") or add.attributes or not _same_shape(graph, add.inputs[0], add.outputs[0]):
        return
    scores, mask = add.inputs
    value = _of_one_image(graph, mask, graph.rank(scores) or 0)
    if value is not None:
        name = graph.add_constant(f"{mask}.of_an_image", value)
        new = WorkingNode("Add", [scores, name], list(add.outputs), _repeated(graph, value, scores), add.origins)
        graph.replace([add], [(add.slot, new)])


def sum_of_masks(graph: WorkingGraph, node: WorkingNode) -> None:
    """Add two constants to the scores at once, such as the bias of positions and a mask."""
    second = _before(graph, node, "Softmax")
    first = None if second is None else _before(graph, second, "Add")
    if first is None or second is None or not first.is_op("Add") or first.attributes:
        return
    scores = first.inputs[0]
    if second.inputs[0] != first.outputs[0] or not _same_shape(graph, scores, second.outputs[0]):
        return
    values = [computed_constant(graph, add.inputs[1]) for add in (first, second)]
    total = _sum(values[0], values[1], bool(second.attributes), graph.rank(scores) or 0)
    if total is not None:
        name = graph.add_constant(f"{second.inputs[1]}.sum", total)
        origins = first.origins | second.origins
        new = WorkingNode("Add", [scores, name], list(second.outputs), second.attributes, origins)
        graph.replace([first, second], [(second.slot, new)])


def factor_after_heads(graph: WorkingGraph, node: WorkingNode) -> None:
    """Multiply an operand of a ``MatMul`` by a constant after the ``Reshape`` into heads, as in Whisper.

    The ``Reshape`` becomes a view of what is multiplied.
    """
    for name in dict.fromkeys(node.inputs if node.is_op("MatMul") else ()):
        transpose = graph.producer(name)
        heads = None if transpose is None else _before(graph, transpose, "Transpose")
        scaled = None if heads is None else _before(graph, heads, "Reshape")
        if heads is None or scaled is None or graph.only_consumer(name) is None:
            continue
        factor, sizes = factor_of(graph, scaled), known_sizes_of(graph, heads.outputs[0])
        if factor is None or sizes is None or graph.shape(factor[0]) != graph.shape(scaled.outputs[0]):
            continue
        view = as_view(graph, factor[0], f"{heads.outputs[0]}.not_scaled", sizes)
        graph.learn_shape(view.outputs[0], graph.shape(heads.outputs[0]) or (), factor[0])
        inputs = [view.outputs[0] if value == factor[0] else value for value in scaled.inputs]
        origins = scaled.origins | heads.origins
        second = WorkingNode(scaled.op_type, inputs, list(heads.outputs), {}, origins)
        graph.replace([scaled, heads], [(scaled.slot, view), (heads.slot, second)])


def factor_after_transposition(graph: WorkingGraph, node: WorkingNode) -> None:
    """Multiply an operand of a ``MatMul`` by a constant after its ``Transpose``: the product then takes the factor."""
    for name in dict.fromkeys(node.inputs if node.is_op("MatMul") else ()):
        transpose = graph.producer(name)
        if transpose is None or not transpose.is_op("Transpose") or graph.only_consumer(name) is None:
            continue
        scaled = _before(graph, transpose, "Transpose")
        factor = None if scaled is None else factor_of(graph, scaled)
        if scaled is None or factor is None or graph.shape(factor[0]) != graph.shape(scaled.outputs[0]):
            continue
        between = f"{name}.not_scaled"
        graph.learn_shape(between, graph.shape(name) or ())
        inputs = [between if value == factor[0] else value for value in scaled.inputs]
        first = WorkingNode("Transpose", [factor[0]], [between], transpose.attributes, transpose.origins)
        second = WorkingNode(scaled.op_type, inputs, list(transpose.outputs), {}, scaled.origins)
        graph.replace([scaled, transpose], [(scaled.slot, first), (transpose.slot, second)])


def last_axis_last(graph: WorkingGraph, node: WorkingNode) -> None:
    """Let the ``Transpose`` of an operand keep the last axis where it is; the ``MatMul`` swaps the last two itself."""
    ranks = [graph.rank(name) for name in node.inputs] if node.is_op("MatMul") else []
    if not ranks or None in ranks or 1 in ranks:
        return
    inputs, attributes = list(node.inputs), dict(node.attributes)
    moved = []
    for index, swap in enumerate(("transA", "transB")):
        transpose = graph.producer(inputs[index])
        if transpose is None or not transpose.is_op("Transpose") or graph.only_consumer(inputs[index]) is None:
            continue
        perm, shape = list(transpose.attributes.get("perm", ())), graph.shape(inputs[index])
        if len(perm) < 3 or perm[-2] != len(perm) - 1 or shape is None or swaps_last_two(graph, transpose):
            continue
        name = f"{inputs[index]}.last_axis_last"
        graph.learn_shape(name, (*shape[:-2], shape[-1], shape[-2]))
        kept = {"perm": [*perm[:-2], perm[-1], perm[-2]]}
        moved.append((transpose, WorkingNode("Transpose", list(transpose.inputs), [name], kept, transpose.origins)))
        inputs[index] = name
        attributes[swap] = 1 - attributes.get(swap, 0)
    if moved:
        attributes = {name: value for name, value in attributes.items() if value}
        new = WorkingNode("MatMul", inputs, list(node.outputs), attributes, node.origins)
        slots = [(old.slot, transpose) for old, transpose in moved]
        graph.replace([*(old for old, _ in moved), node], [*slots, (node.slot, new)])


ATTENTION: tuple[Rule, ...] = (
    scores_first,
    one_row_for_all_queries,  # a row may be a constant where the mask is expanded over an open batch
    rows_without_keys,
    no_mask,
    scale_before_mask,
    mask_of_windows,
    mask_of_each_image,
    sum_of_masks,
    factor_after_heads,
    factor_after_transposition,
    products_of_matrices,
    last_axis_last,
)


def _before(graph: WorkingGraph, node: WorkingNode, *op_types: str) -> WorkingNode | None:
    """Return what computes the first operand of such a node, for this node alone."""
    if not node.is_op(*op_types) or graph.only_consumer(node.inputs[0]) is None:
        return None
    return graph.producer(node.inputs[0])


def _each_row_has_a_key(graph: WorkingGraph, softmax: WorkingNode) -> bool:
    """Return whether a constant mask, the only one, is finite somewhere in each row."""
    add = graph.producer(softmax.inputs[0])
    for name, other in () if add is None or not add.is_op("Add") else (add.inputs, add.inputs[::-1]):
        mask = computed_constant(graph, name)
        if mask is not None and mask.ndim and np.isfinite(mask).any(axis=-1).all() and _is_scores(graph, other):
            return True
    return False


def _is_scores(graph: WorkingGraph, name: str) -> bool:
    """Return whether a value is a product of matrices, or a multiple of one: no mask has been added to it."""
    node = graph.producer(name)
    while node is not None and (scaled := factor_of(graph, node)) is not None:
        node = graph.producer(scaled[0])
    return node is not None and node.is_op("MatMul")


def _same_shape(graph: WorkingGraph, first: str, second: str) -> bool:
    shape = graph.shape(first)
    return shape is not None and None not in shape and shape == graph.shape(second)


def _windows(before: PartialShape | None, between: PartialShape | None, after: PartialShape | None) -> list[int] | None:
    """Return [windows, ...] where [n * windows, ...] becomes [n, windows, ...] and back; the dots stand for sizes."""
    if before is None or between is None or after is None or len(before) < 3:
        return None
    known = [size for size in between[1:] if isinstance(size, int)]
    same = tuple(known[1:]) == before[1:] == after[1:]
    return known if same and len(known) == len(before) == len(between) - 1 else None


def _repeated(graph: WorkingGraph, mask: Array, scores: str) -> dict[str, int]:
    """Return the attributes of an ``Add`` of scores and of a mask of the windows of one image."""
    return {} if len(mask) in (1, (graph.shape(scores) or (None,))[0]) else {"tiled": 1}


def _of_one_image(graph: WorkingGraph, name: str, rank: int) -> Array | None:
    """Return the mask [windows, ...] of each image in a value [images * windows, ...], with a bias added to it."""
    node = graph.producer(name)
    if node is not None and node.is_op("Add"):
        for mask, bias in (node.inputs, node.inputs[::-1]):
            one = _of_one_image(graph, mask, rank)
            if one is not None:
                return _sum(computed_constant(graph, bias), one, True, rank)
    expand = graph.producer(node.inputs[0]) if node is not None and node.is_op("Reshape") else None
    if expand is None or not expand.is_op("Expand"):
        return None
    value, wide, joined = computed_constant(graph, expand.inputs[0]), graph.shape(expand.outputs[0]), graph.shape(name)
    if value is None or wide is None or joined is None or len(joined) != rank or len(wide) != rank + 1:
        return None
    value = value[(None,) * (len(wide) - value.ndim)]
    return value[0] if len(value) == 1 and value.shape[1:] == wide[1:] and joined[1:] == wide[2:] else None


def _over_windows(mask: Array, windows: list[int]) -> Array | None:
    """Return the mask without the axis over n; None where the mask has such an axis, or is larger than the scores."""
    if mask.ndim > len(windows) + 1:
        return None
    sizes = (1,) * (len(windows) + 1 - mask.ndim) + mask.shape
    fits = all(size in (1, whole) for size, whole in zip(sizes, [1, *windows], strict=True))
    return mask.reshape(sizes[1:]) if fits else None


def _sum(first: Array | None, second: Array | None, tiled: bool, rank: int) -> Array | None:
    """Return the sum of two masks, unless it is large, or infinite where they are not."""
    if first is None or second is None or first.dtype != second.dtype:
        return None
    if tiled and first.ndim == rank and first.shape[0] != 1:
        return None  # it is not repeated as the other one is
    try:
        shape = np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        return None
    if int(np.prod(shape, dtype=np.int64)) * first.itemsize > _LARGEST_MASK_BYTES:
        return None
    with np.errstate(all="ignore"):
        total = np.asarray(first + second)
    return total if np.array_equal(np.isfinite(total), np.isfinite(first) & np.isfinite(second)) else None
