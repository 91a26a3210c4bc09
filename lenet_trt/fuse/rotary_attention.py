"""Define the rule that writes attention with rotary positions as one node.

    RotaryAttention(x, cos, sin, mask, scale=..., repeats=...)    x [n, tokens, repeats + 2, g, d], cos and sin [tokens, d]

Queries, keys and values are parts of what one dense layer gives (``joined_layers.py``): ``repeats * g`` heads of
queries, ``g`` of keys, ``g`` of values. Each head of keys and values is there for ``repeats`` heads of queries, which
follow each other; exporters write that as an ``Expand``. ``guarded`` and the mask: see ``self_attention.py``.

Source: what torch's exporters write for the LLaMA, Mistral and Qwen2 of transformers.
"""

from __future__ import annotations

from lenet_trt.fuse.attention_products import products_around
from lenet_trt.fuse.movement import REPEATING, Axis, StridedLayout, as_it_lies, joined_factors, known_sizes_of, source_of
from lenet_trt.fuse.rotary_positions import RotaryPositions, rotary_positions
from lenet_trt.fuse.self_attention import Rows, layout_after, mask_of, put_node, result_of
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

_TOKENS = 3  # axes of x: [n, tokens, all heads]


def rotary_attention(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace an attention whose queries and keys, parts of one tensor, are turned by rotary positions."""
    products = products_around(graph, node)
    if products is None or products.mask is None:
        return
    paths = [source_of(graph, name, REPEATING) for name in products.operands]
    turned = [rotary_positions(graph, name) for name, _ in paths[:2]]
    queries, keys = turned
    if queries is None or keys is None or (queries.cos, queries.sin) != (keys.cos, keys.sin):
        return
    before = [source_of(graph, queries.x), source_of(graph, keys.x), (paths[2][0], [])]
    source = before[0][0]
    shape = known_sizes_of(graph, source)
    if shape is None or len(shape) != _TOKENS or any(name != source for name, _ in before):
        return
    steps = [[*early, *late] for (_, early), (_, late) in zip(before, paths, strict=True)]
    layouts = [_layout(graph, shape, early, late) for (_, early), (_, late) in zip(before, paths, strict=True)]
    layouts = [
        layout.last_two_swapped() if layout is not None and swapped else layout
        for layout, swapped in zip(layouts, products.turned, strict=True)
    ]
    rows = _rows(graph, shape, queries, layouts)
    mask = None if rows is None else mask_of(graph, products, rows)
    found = None if rows is None else result_of(graph, products.output, rows, [])
    if rows is None or mask is None or found is None:
        return
    result, after = found
    n, tokens, _ = shape
    groups = (shape[-1] // rows.depth - rows.heads) // 2
    repeats = rows.heads // groups
    angles = (tokens, rows.depth)
    inputs = {
        "x": (source, (n, tokens, repeats + 2, groups, rows.depth)),
        "cos": (queries.cos, angles),
        "sin": (queries.sin, angles),
        "mask": mask,
    }
    moving = [node for each in steps for node, _ in each]
    old = list(dict.fromkeys([*moving, *queries.nodes, *keys.nodes, *products.nodes, *after]))
    attributes = {"scale": products.scale, "repeats": repeats, **({"guarded": 1} if products.guarded else {})}
    put_node(graph, old, "RotaryAttention", inputs, (n, tokens, repeats, groups, rows.depth), result, attributes)


def _layout(
    graph: WorkingGraph,
    shape: tuple[int, ...],
    before: list[tuple[WorkingNode, str]],
    behind: list[tuple[WorkingNode, str]],
) -> StridedLayout | None:
    """Return the layout of an operand that is turned between these nodes: that changes no place."""
    return layout_after(graph, layout_after(graph, as_it_lies(shape), before), behind)


def _rows(
    graph: WorkingGraph, shape: tuple[int, ...], queries: RotaryPositions, layouts: list[StridedLayout | None]
) -> Rows | None:
    """Return the rows of a tensor of this shape, if queries, keys and values lie in it as the kernel has them."""
    n, tokens, width = shape
    of_queries = known_sizes_of(graph, queries.x)
    if of_queries is None:
        return None
    _, heads, _, depth = of_queries
    groups, odd = divmod(width // depth - heads, 2)
    if groups < 1 or odd or heads % groups or width % depth:
        return None

    def part(first: int, of_heads: Axis) -> StridedLayout:
        """Return the layout of heads of a kind, [n, heads, tokens, depth], from one on."""
        factors = [((n, tokens * width),), of_heads, ((tokens, width),), ((depth, 1),)]
        return StridedLayout(tuple(map(joined_factors, factors)), first * depth)

    shared = ((groups, depth), (heads // groups, 0))
    wanted = [part(0, ((heads, depth),)), part(heads, shared), part(heads + groups, shared)]
    return Rows(1, n, tokens, 1, 1, heads, depth) if layouts == wanted else None
