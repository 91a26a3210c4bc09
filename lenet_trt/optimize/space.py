"""Define what could replace what: pieces (one kernel in one place), plans (pieces together), and models of plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import onnx

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_bytes
from lenet_trt.fuse.assemble import assembled
from lenet_trt.fuse.places import Place, chosen, find_places
from lenet_trt.fuse.stage import chosen_kernels
from lenet_trt.onnx_model.plugin_nodes import Refusal, Replacement


@dataclass(frozen=True, order=True)
class PluginPiece:
    """Hold a kernel that replaces these nodes (named by their name, or by their first output where they have none)."""

    kernel: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.nodes[:3]) + (f" and {len(self.nodes) - 3} more" if len(self.nodes) > 3 else "")
        return f"{self.kernel} for {shown}"

    def overlaps(self, other: PluginPiece) -> bool:
        """Say whether both pieces replace the same node."""
        return not set(self.nodes).isdisjoint(other.nodes)


@dataclass(frozen=True)
class PluginPlan:
    """Hold pieces that do not overlap; a plan without pieces is the given model."""

    pieces: tuple[PluginPiece, ...] = ()

    @property
    def key(self) -> str:
        """Return a short name that is the same in every run."""
        return sha256_bytes(repr(self.pieces).encode())[:12] if self.pieces else "plain"

    def __str__(self) -> str:
        return "; ".join(map(str, self.pieces)) or "the model as it is"

    def changed_by(self, candidate: PluginPlan) -> tuple[PluginPiece, ...]:
        """Return the pieces that the candidate would displace."""
        return tuple(piece for piece in self.pieces if any(piece.overlaps(new) for new in candidate.pieces))

    def with_candidate(self, candidate: PluginPlan) -> PluginPlan:
        """Return the plan with the candidate's pieces, and without the pieces that overlap with them."""
        out = self.changed_by(candidate)
        return plan_of([*(piece for piece in self.pieces if piece not in out), *candidate.pieces])

    def as_list(self) -> list[dict[str, Any]]:
        """Return plain values, for JSON."""
        return [{"kernel": piece.kernel, "nodes": list(piece.nodes)} for piece in self.pieces]


def plan_of(pieces: Iterable[PluginPiece]) -> PluginPlan:
    """Return the plan of these pieces, in one order, however they are given."""
    return PluginPlan(tuple(sorted(set(pieces))))


@dataclass(frozen=True, eq=False)
class Fitted:
    """Hold the model of a plan; ``records`` name the plugin node of each piece."""

    model: onnx.ModelProto
    records: tuple[Replacement, ...]
    nodes: dict[PluginPiece, str]


class Space:
    """Hold all pieces that fit into one model; ``refusals`` say where a pattern is found and cannot be used."""

    def __init__(self, model: onnx.ModelProto, plugins: str = "all") -> None:
        self.model = model
        kernels = chosen_kernels(plugins)
        places, refused = find_places(model, kernels) if kernels else ([], [])
        self._places: dict[PluginPiece, Place] = {}
        for place in places:
            self._places.setdefault(self._piece(place), place)
        self.refusals = tuple(Refusal(match.kernel.name, names, why) for match, names, why in refused)

    @cached_property
    def candidates(self) -> tuple[PluginPlan, ...]:
        """Return the pieces of each compiled kernel, and all pieces that ``lenet-trt fuse`` would take together.

        Repeated blocks have layers of the same sizes, for which a kernel is compiled once: what holds for one of them
        holds for all, and a network of fifty layers has few such kernels.
        """
        alike: dict[object, list[Place]] = {}
        for place in self._places.values():
            code = place.specialized
            key = (code.kernel.name, code.types.name, code.static_axes, code.attributes)
            alike.setdefault(key, []).append(place)
        together = [*alike.values(), list(self._places.values())]
        plans = [plan_of(self._piece(place) for place in chosen(places)) for places in together if places]
        return tuple(dict.fromkeys(plans))

    def fitted(self, plan: PluginPlan) -> Fitted:
        """Return the model with the plan's plugin nodes.

        Raises:
            LenetTrtError: the pieces cannot all be in one file.
        """
        if not plan.pieces:
            return Fitted(self.model, (), {})
        taken = [self._places[piece] for piece in plan.pieces]
        model, records, left = assembled(self.model, taken, list(self._places.values()))
        if left:
            raise LenetTrtError("; ".join(f"{entry.kernel}: {entry.reason}" for entry in left))
        order = sorted(zip(plan.pieces, taken, strict=True), key=lambda entry: max(entry[1].match.origins))
        named = {piece: record.node for (piece, _), record in zip(order, records, strict=True)}
        return Fitted(model, tuple(records), named)

    def _piece(self, place: Place) -> PluginPiece:
        nodes: Sequence[onnx.NodeProto] = self.model.graph.node
        return PluginPiece(
            place.kernel.name,
            tuple(nodes[index].name or nodes[index].output[0] for index in sorted(place.match.origins)),
        )
