"""Define the rule that writes attention of one tensor as one node: ``SelfAttention(x, mask, scale=..., shift=...)``.

``guarded=1`` is there where rows of NaN become zeros (see ``attention.py``).

Queries, keys and values are parts of what one dense layer gives; reshapes, transpositions and slices bring them to the
products. The rule follows these (``movement.py``) and finds that they are rows of x, whose shape is

    [images, rows of windows, rows of a window, windows in a row, columns of a window, 3, heads, elements]

Without windows these sizes are 1; where tokens come first, "windows in a row" are the images. ``shift`` is there where
both axes of an image are rolled before the windows are made, and back after. What reads and gives such shapes are two
``Reshape`` without origins: views of values of the file. The mask is [windows or 1, heads or 1, queries or 1, keys].

Source: what torch's exporters write for torch.nn.MultiheadAttention, torchvision's Swin and timm's transformers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from lenet_trt.fuse.attention_products import Products, products_around
from lenet_trt.fuse.movement import (
    OF_ALL,
    Axis,
    StridedLayout,
    as_it_lies,
    as_view,
    joined_factors,
    known_sizes_of,
    layout_after,
    moved,
    source_of,
    written,
)
from lenet_trt.fuse.rolls import Roll, roll_after, roll_of
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


@dataclass(frozen=True)
class TokenRows:
    """Hold how the tokens of all images are the rows of x, and the sizes of a head."""

    images: int
    window_rows: int
    rows: int
    windows: int
    columns: int
    heads: int
    depth: int

    @property
    def tokens(self) -> tuple[int, ...]:
        return (self.images, self.window_rows, self.rows, self.windows, self.columns)

    @property
    def results(self) -> Axis:
        """Return where the results of these rows lie in [images, heads, tokens, depth]."""
        depth = self.depth
        of_window = self.rows * self.columns
        image = self.heads * of_window * depth
        return joined_factors(
            (
                (self.images, self.window_rows * self.windows * image),
                (self.window_rows, self.windows * image),
                (self.rows, self.columns * depth),
                (self.windows, image),
                (self.columns, depth),
                (self.heads, of_window * depth),
                (depth, 1),
            )
        )


def self_attention(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace an attention whose queries, keys and values are parts of one tensor."""
    products = products_around(graph, node)
    if products is None:
        return
    paths = [source_of(graph, name) for name in products.operands]
    source = paths[0][0]
    shape = known_sizes_of(graph, source)
    if shape is None or any(name != source for name, _ in paths):
        return
    layouts = [layout_after(graph, as_it_lies(shape), steps) for _, steps in paths]
    queries, keys, values = as_multiplied(products, layouts)
    if queries is None or keys is None or values is None or not queries.axes == keys.axes == values.axes:
        return
    rolls = _rolls_of(graph, source)
    rows = _rows(graph, products, (queries.offset, keys.offset, values.offset), queries, shape, rolled=bool(rolls))
    mask = None if rows is None else mask_of(graph, products, rows)
    if rows is None or (products.mask is not None and mask is None):
        return
    found = result_of(graph, products.output, rows, rolls)
    if found is None:
        return
    result, after = found
    moving = [*(node for roll in rolls for node in roll.nodes), *(node for _, steps in paths for node, _ in steps)]
    old = list(dict.fromkeys([*moving, *products.nodes, *after]))
    inputs = {"x": (rolls[-1].source if rolls else source, (*rows.tokens, 3, rows.heads, rows.depth))}
    if mask is not None:
        inputs["mask"] = mask
    attributes = {
        "scale": products.scale,
        **({"shift": rolls[0].shift} if rolls and rolls[0].shift else {}),
        **({"guarded": 1} if products.guarded else {}),
    }
    put_node(graph, old, "SelfAttention", inputs, (*rows.tokens, rows.heads, rows.depth), result, attributes)


def as_multiplied(products: Products, layouts: Sequence[StridedLayout | None]) -> list[StridedLayout | None]:
    """Return the layouts of queries, keys and values with the last two axes as the products take them."""
    return [
        layout.last_two_swapped() if layout is not None and turned else layout
        for layout, turned in zip(layouts, products.turned, strict=True)
    ]


def _rolls_of(graph: WorkingGraph, name: str) -> list[Roll]:
    """Return the rolls of both axes of an image, [images, rows, columns, ...], by one shift; the last one first."""
    last = roll_of(graph, name)
    first = None if last is None else roll_of(graph, last.source)
    if first is None or last is None or {first.axis, last.axis} != {1, 2} or first.shift != last.shift:
        return []
    return [last, first]


def _rows(
    graph: WorkingGraph,
    products: Products,
    offsets: tuple[int, int, int],
    queries: StridedLayout,
    shape: tuple[int, ...],
    *,
    rolled: bool,
) -> TokenRows | None:
    """Return the rows of a tensor that has this shape, in which all operands have the layout of the queries."""
    depth = queries.shape[-1]
    width = offsets[1]  # of all heads
    if (
        queries.axes[-1] != joined_factors([(depth, 1)])
        or offsets != (0, width, 2 * width)
        or width <= 0
        or width % depth
    ):
        return None
    heads = width // depth
    images = joined_factors(factor for axis in queries.axes[:-2] for factor in axis)
    if heads > 1:
        if images[-1:] != ((heads, depth),):
            return None
        images = images[:-1]
    sizes = _in_order(images, queries.axes[-2], 3 * width, prod(shape))
    if sizes is None:
        return None
    count, rows, windows, columns = sizes
    window_rows = 1
    if rolled:
        if len(shape) < 3 or shape[1] % rows or shape[2] != windows * columns:
            return None
        window_rows = shape[1] // rows
    elif (masks := windows_of_mask(graph, products)) > 1:
        if masks % windows:
            return None
        window_rows = masks // windows
    if window_rows == 0 or count % window_rows:
        return None
    return TokenRows(count // window_rows, window_rows, rows, windows, columns, heads, depth)


def _in_order(images: Axis, tokens: Axis, row: int, end: int) -> tuple[int, int, int, int] | None:
    """Return the sizes (images, tokens, images, tokens) of axes that follow each other, each row once."""
    ordered = sorted([*((*f, 0) for f in images), *((*f, 1) for f in tokens)], key=lambda f: -f[1])
    for mine in (images, tokens):
        if list(mine) != sorted(mine, key=lambda f: -f[1]):
            return None
    stride = row
    for size, seen, _ in reversed(ordered):
        if seen != stride:
            return None
        stride *= size
    if stride != end:
        return None
    sizes, place = [1, 1, 1, 1], 0
    for size, _, of_tokens in ordered:
        place += (place + of_tokens) % 2
        if place > 3:
            return None
        sizes[place] = size
        place += 1
    return sizes[0], sizes[1], sizes[2], sizes[3]


def _shape_of_mask(graph: WorkingGraph, products: Products) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the shapes of the scores and of the mask, with as many axes."""
    scores = known_sizes_of(graph, products.nodes[0].outputs[0])
    mask = None if products.mask is None else known_sizes_of(graph, products.mask)
    if scores is None or mask is None or products.mask is None or len(mask) > len(scores):
        return None
    if not _open_sizes(graph, products.mask) <= _open_sizes(graph, products.nodes[0].outputs[0]):
        return None
    return scores, (1,) * (len(scores) - len(mask)) + mask


def windows_of_mask(graph: WorkingGraph, products: Products) -> int:
    """Return the number of windows that the mask has, of those of an image; 1 where all have one mask."""
    shapes = _shape_of_mask(graph, products)
    if shapes is None:
        return 1
    scores, mask = shapes
    return mask[0] if products.tiled else prod(mask[: len(scores) - 3])


def mask_of(graph: WorkingGraph, products: Products, rows: TokenRows) -> tuple[str, tuple[int, ...]] | None:
    """Return the mask and its shape [windows or 1, heads or 1, queries or 1, keys]."""
    shapes = _shape_of_mask(graph, products)
    if shapes is None or products.mask is None or len(shapes[0]) < 3:
        return None
    scores, mask = shapes
    *windows, heads, queries, keys = mask
    of_image = rows.window_rows * rows.windows
    # The windows that differ are the last ones.
    several = [size for size in windows if size > 1]
    if several and not products.tiled and several != list(scores[:-3][-len(several) :]):
        return None
    if scores[-3] != rows.heads or heads not in (1, rows.heads) or prod(windows) not in (1, of_image):
        return None
    tokens = rows.rows * rows.columns
    if keys != tokens or queries not in (1, tokens):
        return None
    return products.mask, (prod(windows), heads, queries, keys)


def _open_sizes(graph: WorkingGraph, name: str) -> set[str]:
    return {size for size in graph.shape(name) or () if isinstance(size, str)}


def result_of(
    graph: WorkingGraph, name: str, rows: TokenRows, rolls: Sequence[Roll]
) -> tuple[str, list[WorkingNode]] | None:
    """Return the value in which the results are in the order of the rows, and the nodes that bring them there."""
    shape = known_sizes_of(graph, name)
    layout = None if shape is None else as_it_lies(shape)
    nodes: list[WorkingNode] = []
    while layout is not None:
        if layout.factors == rows.results:
            back = _rolled_back(graph, name, rolls)
            if back is not None:
                return back[0], [*nodes, *back[1]]
        node = graph.only_consumer(name)
        if node is None or not node.is_op(*OF_ALL):
            return None
        nodes.append(node)
        name = node.outputs[0]
        layout = moved(graph, node, layout, name)
    return None


def _rolled_back(graph: WorkingGraph, name: str, rolls: Sequence[Roll]) -> tuple[str, list[WorkingNode]] | None:
    """Return the value that is rolled back, and the nodes that do it."""
    shape = known_sizes_of(graph, name)
    left = {roll.axis: roll.shift for roll in rolls}
    nodes: list[WorkingNode] = []
    while left:
        roll = roll_after(graph, name)
        if roll is None or shape is None or left.pop(roll.axis, 0) != shape[roll.axis] - roll.shift:
            return None
        nodes += roll.nodes
        name = roll.output
    return name, nodes


def put_node(
    graph: WorkingGraph,
    old: Sequence[WorkingNode],
    op_type: str,
    inputs: Mapping[str, tuple[str, tuple[int, ...]]],
    shape: Sequence[int],
    result: str,
    attributes: Mapping[str, int | float],
) -> None:
    """Put a node in the place of others; it reads views of values, and ``result`` is a view of what it gives.

    ``inputs``: a value and the shape of its view, by what the input is; ``shape``: of what the node gives.
    """
    *slots, here, after = sorted(node.slot for node in old)[-len(inputs) - 2 :]
    new: list[tuple[int, WorkingNode]] = []
    names: list[str] = []
    for slot, (what, (name, sizes)) in zip(slots, inputs.items(), strict=True):
        value = graph.constants.get(name)
        if value is None:
            names.append(f"{result}.{op_type}.{what}")
            new.append((slot, _view(graph, name, names[-1], sizes)))
        else:
            names.append(graph.add_constant(f"{name}.as_{what}", value.reshape(sizes)))
    y = f"{result}.{op_type}.y"
    graph.learn_shape(y, _known(shape))
    origins = frozenset().union(*(node.origins for node in old))
    new.append((here, WorkingNode(op_type, names, [y], dict(attributes), origins)))
    graph.replace(old, [*new, (after, as_view(graph, y, result, known_sizes_of(graph, result) or ()))])


def _view(graph: WorkingGraph, name: str, view: str, shape: Sequence[int]) -> WorkingNode:
    graph.learn_shape(view, _known(shape))
    return as_view(graph, name, view, shape)


def _known(sizes: Sequence[int]) -> tuple[int | None, ...]:
    return tuple(None if size < 0 else size for size in written(sizes))
