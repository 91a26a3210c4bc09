"""Choose places that are next to each other, where TensorRT converts few tensors between layouts (``in_groups``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lenet_trt.fuse.places import Place

# Of a group for each layer around it, whose tensors TensorRT converts from its own layouts and to them. It has packed
# channels itself, and converts none: a group of places with a packed layout has as many, whatever is around it.
LEAST_PLACES = 3


def places_in_groups(places: Sequence[Place], taken: Sequence[Place]) -> list[Place]:
    """Return the places that are in a group of ``LEAST_PLACES`` for each other layer that is next to it, or of more.

    Places are in one group if one reads what another gives; those that are taken already belong to it. The model's
    inputs and outputs are no layers. All places are linear, or all are packed; around packed ones nothing counts.
    """
    owners = {index: place for place in (*places, *taken) for index in place.match.origins}
    result: list[Place] = []
    seen: set[Place] = set()
    for place in places:
        if place in seen:
            continue
        group, around = _group_of(place, owners)
        seen |= group
        converted = len(around) if place.kernel.is_linear else 0
        if len(group) >= LEAST_PLACES * max(converted, 1):
            result += [each for each in places if each in group]
    return result


def _group_of(place: Place, owners: Mapping[int, Place]) -> tuple[set[Place], set[int]]:
    """Return the group of a place, and the nodes next to it that are no place's."""
    group, around, reached = {place}, set[int](), [place]
    while reached:
        for index in reached.pop().neighbours.all:
            neighbour = owners.get(index)
            if neighbour is None:
                around.add(index)
            elif neighbour not in group:
                group.add(neighbour)
                reached.append(neighbour)
    return group, around
