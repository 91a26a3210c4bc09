"""Say in words what plans and trials of a record are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

# A plan of more pieces is told as the number of places of each kernel.
_MOST_PIECES, _MOST_NODES = 4, 12


def plan_text(pieces: Sequence[Mapping[str, Any]]) -> str:
    """Say which kernels replace which nodes, or, of many places, how many places each kernel has."""
    if not pieces:
        return "the model as it is"
    if len(pieces) <= _MOST_PIECES:
        return "; ".join(f"{piece['kernel']} for {_nodes(piece['nodes'])}" for piece in pieces)
    counts = Counter(piece["kernel"] for piece in pieces)
    return ", ".join(f"{kernel} at {count} place{'s' * (count > 1)}" for kernel, count in counts.items())


def trial_text(trial: Mapping[str, Any]) -> str:
    """Say what a trial put into the model, or what it left out of the plan before."""
    if trial["candidate"]:
        return plan_text(trial["candidate"])
    return f"without {plan_text([piece for piece in trial['before'] if piece not in trial['after']])}"


def _nodes(nodes: Sequence[str]) -> str:
    more = len(nodes) - _MOST_NODES
    return ", ".join(nodes[:_MOST_NODES]) + (f" and {more} more" if more > 0 else "")
