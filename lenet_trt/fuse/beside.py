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

    ``parts``: of what is read, tensors of which the place reads a part, and which are small.
    """
    nodes = uses.graph.node

    def giver(name: str) -> int | None:
        while name not in graph.constants and (index := uses.producer.get(name)) is not None:
            if not _only_reshapes(graph, nodes[index]):
                return index
            name = nodes[index].input[0]
        return None

    def readers(name: str) -> Iterator[int]:
        for index in uses.readers.get(name, set()) - match.origins:
            if _only_reshapes(graph, nodes[index]):
                yield from readers(nodes[index].output[0])
            elif nodes[index].op_type != "Shape":
                yield index

    sizes = {name: count(graph.shape(name) or (None,)) or _UNKNOWN for name in read}
    givers = {name: index for name in read if (index := giver(name)) is not None}
    largest = max(sizes.values(), default=0)
    large = [index for name, index in givers.items() if name not in parts and _SMALL * sizes[name] > largest]
    given = match.outputs[0]
    of_first = frozenset() if given in uses.graph_outputs else frozenset(readers(given))
    return Neighbours(frozenset(givers.values()), of_first, frozenset(large).union(*map(readers, match.outputs)))


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
