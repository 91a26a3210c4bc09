"""Choose places beside other plugins, where TensorRT's compiler has less to join layers with (``BesidePlugins``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx

from lenet_trt.fuse.cut import Uses
from lenet_trt.fuse.match import Match
from lenet_trt.fuse.working_copy import WorkingGraph, count

if TYPE_CHECKING:
    from lenet_trt.fuse.places import Place


# A small input of a layer has so many times fewer elements than its largest one. A size that is not known is large.
_SMALL, _UNKNOWN = 64, 1 << 40


@dataclass(frozen=True)
class Neighbours:
    """Hold the indexes of nodes that give the inputs of a place, that read its first output, and of all around it.

    What gives a small input is not around it: to convert that costs little.
    """

    givers: frozenset[int]
    readers: frozenset[int]
    all: frozenset[int]

    def are_plugins(self, taken: Set[int], both: bool, others: Set[int] = frozenset()) -> bool:
        """Return whether one of the nodes ``taken`` gives an input, or they alone read the output; or both.

        ``others`` may read the output as well, if one of the nodes ``taken`` does.
        """
        read = not self.readers.isdisjoint(taken) and self.readers <= taken | others
        sides = (not self.givers.isdisjoint(taken), read)
        return all(sides) if both else any(sides)


def places_beside(places: Sequence[Place], taken: Sequence[Place]) -> list[Place]:
    """Return the places that are beside taken ones, or beside others that are, with plugins where they want them."""
    inside = frozenset().union(*(place.match.origins for place in taken))
    result: list[Place] = []
    reached = set(inside)
    while more := [p for p in places if p not in result and p.neighbours.are_plugins(reached, both=False)]:
        result += more
        reached.update(*(place.match.origins for place in more))
    while True:
        nodes = inside.union(*(place.match.origins for place in result))
        # A norm is not left out because of the one behind it, which the network's last layer made TensorRT's.
        kept = [place for place in result if _wanted(place, nodes, reached)]
        if len(kept) == len(result):
            return result
        result = kept


def _wanted(place: Place, taken: Set[int], others: Set[int]) -> bool:
    """Return whether a place has plugins on the sides where its kernel wants them."""
    declared = place.kernel.beside_plugins
    return declared is not None and place.neighbours.are_plugins(taken, declared.both, others)


def neighbours(
    graph: WorkingGraph, uses: Uses, match: Match, read: Sequence[str], parts: Set[str] = frozenset()
) -> Neighbours:
    """Return the neighbours of a place, behind what only gives a tensor another shape.

    All around it are also behind what joins the tokens of several tensors, or takes some of them.

    ``parts``: of what is read, tensors of which the place reads a part, and which are small.
    """
    nodes = uses.graph.node

    def givers(name: str, *, of_all: bool = False) -> Iterator[int]:
        index = None if name in graph.constants else uses.producer.get(name)
        if index is not None:
            passed = _passed(graph, nodes[index], of_all)
            yield from () if passed else (index,)
            for given in passed:
                yield from givers(given, of_all=of_all)

    def readers(name: str, *, of_all: bool = False) -> Iterator[int]:
        for index in uses.readers.get(name, set()) - match.origins:
            if _passed(graph, nodes[index], of_all):
                for given in nodes[index].output:
                    yield from readers(given, of_all=of_all)
            elif nodes[index].op_type != "Shape":
                yield index

    sizes = {name: count(graph.shape(name) or (None,)) or _UNKNOWN for name in read}
    largest = max(sizes.values(), default=0)
    large = [name for name in read if name not in parts and _SMALL * sizes[name] > largest]
    given = match.outputs[0]
    return Neighbours(
        frozenset().union(*map(givers, read)),
        frozenset() if given in uses.graph_outputs else frozenset(readers(given)),
        frozenset(index for name in large for index in givers(name, of_all=True)).union(
            *(readers(name, of_all=True) for name in match.outputs)
        ),
    )


def _passed(graph: WorkingGraph, node: onnx.NodeProto, of_all: bool) -> Sequence[str]:
    """Return the inputs of a node behind which neighbours are; ``of_all``: those around a place."""
    if _only_reshapes(graph, node):
        return node.input[:1]
    return _tokens_moved(graph, node) if of_all else ()


def _tokens_moved(graph: WorkingGraph, node: onnx.NodeProto) -> Sequence[str]:
    """Return the tokens [n, tokens, features] that a node joins or parts: it copies them, in whatever layout."""
    if node.op_type not in ("Concat", "Slice", "Split"):
        return ()
    moved = node.input if node.op_type == "Concat" else node.input[:1]
    shapes = [graph.shape(name) for name in (*moved, *node.output)]
    kept = {(shape[0], shape[2]) if shape is not None and len(shape) == 3 else None for shape in shapes}
    return moved if len(kept) == 1 and None not in kept else ()


def _only_reshapes(graph: WorkingGraph, node: onnx.NodeProto) -> bool:
    """Return whether a node leaves all elements where they are."""
    if node.op_type != "Transpose":
        return node.op_type in ("Reshape", "Squeeze", "Unsqueeze", "Flatten")
    shape = graph.shape(node.input[0])
    perm = [axis for entry in node.attribute if entry.name == "perm" for axis in entry.ints]
    if shape is None or len(perm) != len(shape):
        return False
    longer = [axis for axis in perm if shape[axis] != 1]
    return longer == sorted(longer)
