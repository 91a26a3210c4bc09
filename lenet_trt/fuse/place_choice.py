"""Choose of the places where kernels can be used those that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lenet_trt.fuse.beside import places_beside
from lenet_trt.fuse.groups import places_in_groups
from lenet_trt.fuse.places import Place


def chosen(places: Iterable[Place]) -> list[Place]:
    """Return places that do not overlap, of layers that TensorRT joins with no other.

    Those of most nodes come first, then those that patterns prefer, then those of kernels in their order.
    """
    left = list(places)
    while True:
        result = _chosen(left)
        taken = nodes_of(result)
        joined = [place for place in result if place.is_joined(taken)]
        if not joined:
            return result
        # A part of what is left to TensorRT is left too: TensorRT joins it with the rest.
        left = [place for place in left if not any(place.is_part_of(whole) for whole in joined)]


def nodes_of(places: Iterable[Place]) -> frozenset[int]:
    """Return the indexes of the nodes that places replace."""
    return frozenset().union(*(place.match.origins for place in places))


def _chosen(places: Iterable[Place]) -> list[Place]:
    order = sorted(
        places,
        key=lambda p: (-len(p.match.origins), -p.match.pattern.preference, p.rank, min(p.match.origins)),
    )
    grouped = [place for place in order if place.grouped and place.kernel.is_linear]
    # A kernel with a packed layout leaves its nodes to a group that replaces them too: nothing is converted there.
    waiting = [p for p in order if not p.kernel.is_linear and any(map(p.is_within, grouped))]
    result = _with_taken([place for place in order if place not in waiting], [])
    result += _in_groups(order, result, linear=True)
    return _with_taken([place for place in order if not place.kernel.is_linear], result)


def _with_taken(places: Sequence[Place], before: Sequence[Place]) -> list[Place]:
    """Return those before, then the claimed ones of these places, packed ones in groups, and those beside plugins."""
    result = [*before, *_apart((place for place in places if place.claimed), before)]
    result += _in_groups(places, result, linear=False)
    return result + places_beside(_apart((place for place in places if place.beside), result), result)


def _in_groups(places: Iterable[Place], before: Sequence[Place], *, linear: bool) -> list[Place]:
    """Return the places of this layout that make groups, also with those before them.

    TensorRT converts between a packed layout and a linear one, whichever layers have them.
    """
    grouped = [place for place in places if place.grouped and place.kernel.is_linear == linear]
    return places_in_groups(_apart(grouped, before), [place for place in before if place.kernel.is_linear == linear])


def _apart(places: Iterable[Place], before: Sequence[Place] = ()) -> list[Place]:
    """Return the places that overlap with none before them."""
    taken = set(nodes_of(before))
    result = []
    for place in places:
        if not place.match.origins & taken:
            taken |= place.match.origins
            result.append(place)
    return result
