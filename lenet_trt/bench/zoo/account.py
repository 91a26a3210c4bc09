"""Account for the time of one traced engine: terms, the layers with the most to recover, kinds, reformats, regions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from lenet_trt.bench.zoo.kinds import layer_kind
from lenet_trt.floors.floor import Ceilings, bound_by
from lenet_trt.floors.work import NodeWork
from lenet_trt.tensorrt.layers import EngineLayer
from lenet_trt.trace.engine import traced_work
from lenet_trt.trace.ledger import LedgerRow, ledger_of
from lenet_trt.trace.timeline import Timeline

SHOWN_LAYERS = 10
# A layer whose floor is shorter than a launch cannot come near it, whatever its kernel does.
_SHORTEST_LAUNCH_US = 2.0
_DIGITS = 3


def accounted(
    timeline: Timeline, nodes: Sequence[NodeWork], kinds: Mapping[str, str], ceilings: Ceilings
) -> dict[str, Any]:
    """Return the account of a trace by trtexec, as plain values for a record; times in microseconds.

    ``nodes`` is the work of the model's nodes, ``kinds`` their kinds. The profiler makes each layer longer, by some
    microseconds: what the traced layers take longer together than an inference without it is shared out over them and
    left out of all times. What a layer could recover is its time less its floor; of a reformat, all its time. A layer
    without a floor is not judged, and counts as nothing to recover.
    """
    work = {entry.node: entry for entry in traced_work(timeline, nodes)}
    found = ledger_of(timeline, list(work.values()), ceilings)
    layers: dict[str, EngineLayer] = {layer.node: layer for layer in timeline.layers}
    named = [row for row in found.rows if row.node is not None]
    added_us = max(0.0, found.end_to_end_us - (timeline.unprofiled_us or found.end_to_end_us)) / max(1, len(named))
    rows = [_layer(row, added_us, layers, work, kinds, ceilings) for row in named]
    return {
        "traced_us": None if timeline.unprofiled_us is None else _rounded(timeline.unprofiled_us),
        "layers_us": _rounded(sum(row["us"] for row in rows)),
        "floor_us": _rounded(sum(row["floor_us"] or 0.0 for row in rows)),
        "profiler_us": _rounded(added_us),
        "layers": len(timeline.layers),
        "top": sorted(rows, key=lambda row: -row["recoverable_us"])[:SHOWN_LAYERS],
        "kinds": _sums(rows, "kind"),
        "causes": _sums(rows, "cause"),
        "reformats": _part(row for row in rows if row["cause"] == "reformat"),
        "regions": _part(row for row in rows if row["region"]),
        "notes": list(found.notes),
    }


def _layer(
    row: LedgerRow,
    added_us: float,
    layers: Mapping[str, EngineLayer],
    work: Mapping[str, NodeWork],
    kinds: Mapping[str, str],
    ceilings: Ceilings,
) -> dict[str, Any]:
    assert row.node is not None
    layer = layers.get(row.node)
    time_us = max(0.0, row.terms.total_us - added_us)
    cause = _cause(row, work.get(row.node), ceilings)
    floor_us = None if row.roof_us is None else min(row.roof_us, time_us)
    recoverable_us = time_us if cause == "reformat" else 0.0 if floor_us is None else time_us - floor_us
    return {
        "layer": row.node,
        "op": row.op,
        "kind": layer_kind(layer, row.nodes, kinds),
        "region": layer is not None and layer.is_region,
        "kernel": row.kernels[0] if row.kernels else "",
        "shapes": row.shapes,
        "us": _rounded(time_us),
        "floor_us": None if floor_us is None else _rounded(floor_us),
        "recoverable_us": _rounded(recoverable_us),
        "cause": cause,
    }


def _cause(row: LedgerRow, work: NodeWork | None, ceilings: Ceilings) -> str:
    """Say why a layer takes longer than its floor, as far as its sizes tell."""
    if row.terms.copies_us and row.roof_us is None:
        return "reformat"
    if row.roof_us is None or work is None:
        return "not judged"
    if row.roof_us < max(ceilings.launch_us, _SHORTEST_LAUNCH_US):
        return "shorter than a launch"
    return f"kernel, bound by {bound_by(work.work, work.arithmetic, ceilings)}"


def _sums(rows: Sequence[Mapping[str, Any]], key: str) -> dict[str, dict[str, float]]:
    """Add up layers, time, floor and what could be recovered for each value of a key, the most to recover first."""
    found: dict[str, dict[str, float]] = defaultdict(
        lambda: {"layers": 0, "us": 0.0, "floor_us": 0.0, "recoverable_us": 0.0}
    )
    for row in rows:
        one = found[row[key]]
        one["layers"] += 1
        for name in ("us", "floor_us", "recoverable_us"):
            one[name] = _rounded(one[name] + (row[name] or 0.0))
    return dict(sorted(found.items(), key=lambda entry: -entry[1]["recoverable_us"]))


def _part(rows: Any) -> dict[str, float]:
    times = [row["us"] for row in rows]
    return {"layers": len(times), "us": _rounded(sum(times))}


def _rounded(us: float) -> float:
    return round(us, _DIGITS)
