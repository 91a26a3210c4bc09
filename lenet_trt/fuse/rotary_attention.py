"""Define the rule that writes attention with rotary positions as one node.

    RotaryAttention(x, cos, sin, mask, scale=..., repeats=...)    x [n, b, tokens, repeats + 2, g, d]
    RotaryAttention(x, cos, sin, mask, query_scale, key_scale, scale=..., repeats=..., epsilon=...)

Queries, keys and values are parts of what one dense layer gives (``joined_layers.py``): ``repeats * g`` heads of
queries, ``g`` of keys, ``g`` of values. Each head of keys and values is there for ``repeats`` heads of queries, which
follow each other; exporters write that as an ``Expand``, or leave it to the product where one head is there for all.
The angles are [tokens, d]; b is the number of masks, whose shape is [b, heads or 1, queries or 1, keys]. ``guarded``:
see ``self_attention.py``. Where queries and keys are normalised before they are turned, the node has the factors and
the epsilon of both RMS norms, and ``axes_input`` as theirs (``rms_norms.py``).

Source: what torch's exporters write for the LLaMA, Mistral, Qwen2, Qwen3 and Falcon of transformers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from lenet_trt.fuse.attention_products import products_around
from lenet_trt.fuse.movement import (
    REPEATING,
    Axis,
    StridedLayout,
    as_it_lies,
    joined_factors,
    known_sizes_of,
    layout_after,
    source_of,
)
from lenet_trt.fuse.rotary_positions import NormedRows, rotary_positions, rows_before
from lenet_trt.fuse.self_attention import (
    TokenRows,
    as_multiplied,
    mask_of,
    put_node,
    result_of,
    windows_of_mask,
)
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


def rotary_attention(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace an attention whose queries and keys, parts of one tensor, are turned by rotary positions."""
    products = products_around(graph, node)
    if products is None or products.mask is None:
        return
    paths = [source_of(graph, name, REPEATING) for name in products.operands]
    queries, keys = (rotary_positions(graph, name) for name, _ in paths[:2])
    if queries is None or keys is None or (queries.cos, queries.sin) != (keys.cos, keys.sin):
        return
    before = [rows_before(graph, queries.x), rows_before(graph, keys.x), NormedRows(*paths[2], None, [])]
    source = before[0].source
    shape = known_sizes_of(graph, source)
    norms = _norms(graph, before[:2])
    if shape is None or norms is None or any(rows.source != source for rows in before):
        return
    layouts = [_layout(graph, shape, rows, moved) for rows, (_, moved) in zip(before[:2], paths[:2], strict=True)]
    layouts.append(_layout(graph, shape, before[2], []))
    masks = windows_of_mask(graph, products)
    found = _rows(prod(shape), known_sizes_of(graph, queries.x), masks, as_multiplied(products, layouts))
    rows, groups = found or (None, 0)
    mask = None if rows is None else mask_of(graph, products, rows)
    end = None if rows is None else result_of(graph, products.output, rows, [])
    if rows is None or mask is None or end is None:
        return
    result, after = end
    repeats = rows.heads // groups
    sequences, angles = (rows.images, rows.window_rows, rows.rows), (rows.rows, rows.depth)
    inputs = {
        "x": (source, (*sequences, repeats + 2, groups, rows.depth)),
        "cos": (queries.cos, angles),
        "sin": (queries.sin, angles),
        "mask": mask,
    }
    inputs |= {what: (scale, (rows.depth,)) for what, scale in norms.scales.items()}
    moving = [node for rows in before for node, _ in (*rows.early, *rows.late)]
    moving += [node for _, moved in paths for node, _ in moved]
    old = list(dict.fromkeys([*moving, *norms.nodes, *queries.nodes, *keys.nodes, *products.nodes, *after]))
    attributes = {"scale": products.scale, "repeats": repeats, **norms.attributes}
    attributes |= {"guarded": 1} if products.guarded else {}
    put_node(graph, old, "RotaryAttention", inputs, (*sequences, repeats, groups, rows.depth), result, attributes)


@dataclass(frozen=True)
class _Norms:
    """Hold the RMS norms of queries and keys: their factors by what they are, and the attributes of both."""

    scales: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, int | float] = field(default_factory=dict)
    nodes: tuple[WorkingNode, ...] = ()


def _norms(graph: WorkingGraph, before: Sequence[NormedRows]) -> _Norms | None:
    """Return the norms of queries and keys, if both have one of one kind; none are no norms, too."""
    queries, keys = (rows.norm for rows in before)
    if queries is None and keys is None:
        return _Norms()
    if queries is None or keys is None or queries.attributes != keys.attributes:
        return None
    scales = {"query_scale": queries.inputs[1], "key_scale": keys.inputs[1]}
    for norm in (queries, keys):
        scale, shape = graph.constants.get(norm.inputs[1]), graph.shape(norm.inputs[0])
        if scale is None or not shape or scale.shape != shape[-1:]:  # one number may be that of all elements
            return None
    return _Norms(scales, queries.attributes, (queries, keys))


def _layout(
    graph: WorkingGraph, shape: tuple[int, ...], rows: NormedRows, behind: list[tuple[WorkingNode, str]]
) -> StridedLayout | None:
    """Return the layout of an operand that is turned between its rows and the nodes behind: that changes no place.

    A norm is over the elements of a head, which lie side by side.
    """
    layout = layout_after(graph, as_it_lies(shape), rows.early)
    if rows.norm is not None:
        depth = (known_sizes_of(graph, rows.norm.inputs[0]) or (0,))[-1]
        if layout is None or layout.axes[-1] != ((depth, 1),):
            return None
    return layout_after(graph, layout, [*rows.late, *behind])


def _for_all_heads(layout: StridedLayout | None, heads: int) -> StridedLayout | None:
    """Return the layout of keys or values with as many heads as queries: a product repeats a head that is alone."""
    if layout is None or layout.shape[-3:-2] != (1,):
        return layout
    return layout.repeated((*layout.shape[:-3], heads, *layout.shape[-2:]))


def _rows(
    size: int, queries: tuple[int, ...] | None, masks: int, layouts: list[StridedLayout | None]
) -> tuple[TokenRows, int] | None:
    """Return the rows of a tensor of this size, and its heads of keys, if all parts lie in it as the kernel has them.

    ``queries``: their shape [..., heads, tokens, depth].
    """
    if queries is None:
        return None
    *images, heads, tokens, depth = queries
    layouts = [_for_all_heads(layout, heads) for layout in layouts]
    count = prod(images)
    width = size // (count * tokens)
    groups, odd = divmod(width // depth - heads, 2)
    if size != count * tokens * width or width % depth or groups < 1 or odd or heads % groups or count % masks:
        return None
    of_images = as_it_lies((*images, tokens * width)).axes[:-1]

    def part(first: int, of_heads: Axis) -> StridedLayout:
        """Return the layout of heads of a kind, [..., heads, tokens, depth], from one on."""
        factors: list[Axis] = [of_heads, ((tokens, width),), ((depth, 1),)]
        return StridedLayout((*of_images, *map(joined_factors, factors)), first * depth)

    shared = ((groups, depth), (heads // groups, 0))
    wanted = [part(0, ((heads, depth),)), part(heads, shared), part(heads + groups, shared)]
    return (TokenRows(count // masks, masks, tokens, 1, 1, heads, depth), groups) if layouts == wanted else None
