"""Define what could replace what: pieces (one kernel in one place), plans (pieces together), and models of plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import onnx

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_bytes
from lenet_trt.fuse.assemble import assembled
from lenet_trt.fuse.ordered_places import places_in_order
from lenet_trt.fuse.place_choice import chosen
from lenet_trt.fuse.places import Place, find_places
from lenet_trt.fuse.stage import architectures_here, chosen_kernels
from lenet_trt.onnx_model.fixed_axes import batch_sizes, with_sizes
from lenet_trt.onnx_model.plugin_nodes import Replacement
from lenet_trt.optimize.words import plan_text


@dataclass(frozen=True, order=True)
class PluginPiece:
    """Hold a kernel that replaces these nodes (named by their name, or by their first output where they have none)."""

    kernel: str
    nodes: tuple[str, ...]

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
        return plan_text(self.as_list())

    def change_to(self, candidate: PluginPlan) -> PlanChange:
        """Return the change that puts the candidate in, and takes out what overlaps with it."""
        overlapping = (piece for piece in self.pieces if any(piece.overlaps(new) for new in candidate.pieces))
        return PlanChange(candidate, tuple(overlapping))

    def as_list(self) -> list[dict[str, Any]]:
        """Return plain values, for JSON."""
        return [{"kernel": piece.kernel, "nodes": list(piece.nodes)} for piece in self.pieces]


def plan_of(pieces: Iterable[PluginPiece]) -> PluginPlan:
    """Return the plan of these pieces, in one order, however they are given."""
    return PluginPlan(tuple(sorted(set(pieces))))


@dataclass(frozen=True)
class PlanChange:
    """Hold a step from one plan to another: pieces to put in, and pieces to take out.

    ``out``: what overlaps with the new pieces; where there are none, what is left out. Pieces elsewhere in the network
    do not change what a step gains, so it stays the same step when they come or go.
    """

    candidate: PluginPlan
    out: tuple[PluginPiece, ...]

    def __str__(self) -> str:
        return str(self.candidate) if self.candidate.pieces else f"without {PluginPlan(self.out)}"

    def applied(self, plan: PluginPlan) -> PluginPlan:
        """Return the plan after this step."""
        return plan_of([*(piece for piece in plan.pieces if piece not in self.out), *self.candidate.pieces])


@dataclass(frozen=True, eq=False)
class Fitted:
    """Hold the model of a plan; ``records`` name the plugin node of each piece."""

    model: onnx.ModelProto
    records: tuple[Replacement, ...]
    nodes: dict[PluginPiece, str]


class Space:
    """Hold all pieces that fit into one model; ``refusals`` say where a pattern is found and cannot be used."""

    def __init__(self, model: onnx.ModelProto, plugins: str = "all") -> None:
        self._kernels = chosen_kernels(plugins)
        self.given = model
        self.model, places, refused = places_in_order(model, self._kernels) if self._kernels else (model, [], [])
        self._places: dict[PluginPiece, Place] = {}
        for place in places:
            self._places.setdefault(self._piece(place), place)
        self._claimed: dict[int | None, PluginPlan] = {}
        self.refusals = tuple(refused)

    @cached_property
    def candidates(self) -> tuple[PluginPlan, ...]:
        """Return the pieces of each compiled kernel, and all pieces together.

        Repeated blocks have layers of the same sizes, for which a kernel is compiled once: what holds for one of them
        holds for all, and a network of fifty layers has few such kernels.
        """
        if not self._places:
            return ()
        together = [*self._alike(self._places), list(self._places)]
        plans = [plan_of(map(self._piece, chosen(self._places[piece] for piece in pieces))) for pieces in together]
        return tuple(dict.fromkeys(plans))

    def claimed(self, batch: int | None) -> PluginPlan:
        """Return the pieces that ``lenet-trt fuse`` would take for this size of the first axis, on the GPU here."""
        if batch not in self._claimed:
            model = self.model if batch is None else with_sizes(self.model, batch_sizes(self.model, batch))
            present = {piece.kernel for piece in self._places}
            kernels = [kernel for kernel in self._kernels if not kernel.by_name and kernel.name in present]
            places, _ = find_places(model, kernels, architectures_here()) if kernels else ([], [])
            pieces = [self._piece(place) for place in chosen(places)]
            self._claimed[batch] = plan_of(piece for piece in pieces if piece in self._places)
        return self._claimed[batch]

    def changes(self, plan: PluginPlan, batch: int | None) -> Iterator[PlanChange]:
        """Return the steps from a plan: to each candidate, and to the plan without the pieces of a compiled kernel."""
        for candidate in dict.fromkeys((*self.candidates, self.claimed(batch))):
            if candidate.pieces:
                yield plan.change_to(candidate)
        for pieces in self._alike(plan.pieces):
            yield PlanChange(PluginPlan(), tuple(pieces))

    def fitted(self, plan: PluginPlan) -> Fitted:
        """Return the model with the plan's plugin nodes.

        Raises:
            LenetTrtError: the pieces cannot all be in one file.
        """
        if not plan.pieces:
            return Fitted(self.given, (), {})
        taken = [self._places[piece] for piece in plan.pieces]
        model, records, left = assembled(self.model, taken, list(self._places.values()))
        if left:
            raise LenetTrtError("; ".join(f"{entry.kernel}: {entry.reason}" for entry in left))
        order = sorted(zip(plan.pieces, taken, strict=True), key=lambda entry: max(entry[1].match.origins))
        named = {piece: record.node for (piece, _), record in zip(order, records, strict=True)}
        return Fitted(model, tuple(records), named)

    def _alike(self, pieces: Iterable[PluginPiece]) -> list[list[PluginPiece]]:
        """Return the pieces in groups of one compiled kernel."""
        groups: dict[object, list[PluginPiece]] = {}
        for piece in pieces:
            code = self._places[piece].specialized
            key = (code.kernel.name, code.types.name, code.static_axes, code.attributes)
            groups.setdefault(key, []).append(piece)
        return list(groups.values())

    def _piece(self, place: Place) -> PluginPiece:
        nodes: Sequence[onnx.NodeProto] = self.model.graph.node
        return PluginPiece(
            place.kernel.name,
            tuple(nodes[index].name or nodes[index].output[0] for index in sorted(place.match.origins)),
        )
