"""Join the tokens of an attention once, behind layers that give queries, keys and values of some of them.

Diffusion transformers such as Stable Diffusion 3 have layers for the tokens of an image and others for those of a text,
and one attention for both. Where heads come second (see ``heads_second.py``) networks write

    q = Concat(heads(x xq^T + ..), heads(c cq^T + ..)), and k and v alike

which are parts of

    Concat(x [xq xk xv]^T + .., c [cq ck cv]^T + ..)

A kernel that takes queries, keys and values as parts of one tensor reads that, and tokens are joined once, not thrice.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import onnx

from lenet_trt.fuse.attention_products import products_around
from lenet_trt.fuse.cut import Insertion, NewNodes, Uses, replaced
from lenet_trt.fuse.joined_layers import add_joined_layer, layers_of_one_input
from lenet_trt.fuse.movement import known_sizes_of, source_of
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

_TOKENS, _FEATURES = 1, 2  # axes of what layers give


def with_joined_tokens(
    model: onnx.ModelProto, graph: WorkingGraph, left: Set[str] = frozenset()
) -> tuple[onnx.ModelProto, frozenset[str]]:
    """Return the model with tokens joined so, and their queries, keys and values, which are slices now.

    ``graph``: the model in the form in which attention is written in one way. ``left``: what gives one of these values
    stays as it is.
    """
    uses, new = Uses(model.graph), NewNodes()
    insertions: list[Insertion] = []
    sliced: set[str] = set()
    for node in graph.nodes:
        joints = _joints_before(graph, node)
        layers = _layers_of_parts(graph, joints)
        if not layers:
            continue
        outputs = [joint.outputs[0] for joint in joints]
        origins = frozenset().union(*(each.origins for part in (joints, *layers) for each in part))
        if not left.isdisjoint(outputs) or any(origins & other.origins for other in insertions):
            continue
        first = min(max(joint.origins) for joint in joints)
        if uses.obstacle(origins, [part[0].inputs[0] for part in layers], outputs, first):
            continue
        _add(graph, joints, layers, new)
        insertions.append(Insertion(new.taken(), origins, first))
        sliced.update(outputs)
    return (replaced(model, insertions, [], new.tensors) if insertions else model), frozenset(sliced)


def _joints_before(graph: WorkingGraph, softmax: WorkingNode) -> list[WorkingNode]:
    """Return what joins the tokens of queries, keys and values of an attention; nothing where they are not joined."""
    products = products_around(graph, softmax)
    names = [] if products is None else [source_of(graph, name)[0] for name in products.operands]
    joints = [node for node in map(graph.producer, dict.fromkeys(names)) if node is not None]
    return joints if len(joints) == len(names) and all(_joins_tokens(graph, node) for node in joints) else []


def _joins_tokens(graph: WorkingGraph, node: WorkingNode) -> bool:
    """Return whether a node joins tensors [n, tokens, features]."""
    rank = graph.rank(node.outputs[0])
    return node.is_op("Concat") and rank == _FEATURES + 1 and node.attributes["axis"] % rank == _TOKENS


def _layers_of_parts(graph: WorkingGraph, joints: Sequence[WorkingNode]) -> list[list[WorkingNode]]:
    """Return the layers that give some tokens, of each part; nothing where one has not three layers of one input."""
    counts = {len(joint.inputs) for joint in joints}
    parts = list(zip(*(joint.inputs for joint in joints), strict=True)) if len(counts) == 1 else []
    layers = [layers_of_one_input(graph, [_before_views(graph, name) for name in part]) for part in parts]
    found = [part for part in layers if part is not None]
    widths = {len(graph.constants[layer.inputs[1]]) for part in found for layer in part}
    return found if len(found) == len(parts) and len(widths) == 1 else []


def _before_views(graph: WorkingGraph, name: str) -> str:
    """Return the value of which another is a view of the same shape; its own name if there is none."""
    source, _ = source_of(graph, name, ("Reshape",))
    return source if known_sizes_of(graph, source) == known_sizes_of(graph, name) else name


def _add(
    graph: WorkingGraph, joints: Sequence[WorkingNode], layers: Sequence[Sequence[WorkingNode]], new: NewNodes
) -> None:
    """Add a layer for each part, one ``Concat``, and slices of it in the place of the joints."""
    name = f"{joints[0].outputs[0]}.joined"
    new.add("Concat", [add_joined_layer(graph, part, new) for part in layers], name, axis=_TOKENS)
    width = len(graph.constants[layers[0][0].inputs[1]])
    for index, joint in enumerate(joints):
        new.part(name, _FEATURES, index * width, width, joint.outputs[0])
