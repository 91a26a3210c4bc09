"""The ledger as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lenet_trt.traces.kernel_names import TABLE_WIDTH, short_name

if TYPE_CHECKING:
    from lenet_trt.ledger import Ledger, Row

_NAME_WIDTH = 32
_COLUMNS = {
    "floor_us": "floor",
    "inefficiency_us": "inefficiency",
    "unjudged_us": "no floor",
    "copies_us": "copies",
    "launch_gaps_us": "gaps",
    "host_enqueue_us": "host",
    "residual_us": "residual",
}


def lines(ledger: Ledger) -> list[str]:
    """The terms, the rows by node, and what a reader should know."""
    from lenet_trt.ledger import TERMS

    total = ledger.total
    shown = {term: name for term, name in TERMS.items() if getattr(total, term) or term in ("floor_us", "residual_us")}
    if not ledger.floor_known:
        shown.pop("floor_us")
    spans = f"mean of the middle {len(ledger.used)} of {ledger.iterations} inferences"
    out = [f"end to end {ledger.end_to_end_us:,.2f} us ({spans})"]
    for term, name in shown.items():
        value = getattr(total, term)
        share = value / ledger.end_to_end_us if ledger.end_to_end_us else 0.0
        out.append(f"  {name:<24}{value:>12,.2f} us  {share:>6.1%}")
    out += [f"    {why}: {value:,.2f} us" for why, value in ledger.residual.items()]
    out += ["", *_table(ledger, list(shown))]
    if ledger.floor_from:
        out.append(f"floors: {ledger.floor_from}")
    if ledger.inflation:
        grown = ledger.inflation
        out.append(
            f"without the profiler {grown.unprofiled_us:,.2f} us: "
            f"it added {grown.added_us:,.2f} us ({grown.share:+.1%})"
        )
    else:
        out.append("what the profiler added is not known: no inference was timed without it")
    return [*out, *(f"note: {note}" for note in ledger.notes)]


def _table(ledger: Ledger, shown: list[str]) -> list[str]:
    heads = ["node", "us", *(_COLUMNS[term] for term in shown), "kernel"]
    body = [_cells(row, shown) for row in ledger.rows]
    body.append(["sum", f"{ledger.end_to_end_us:,.2f}", *(f"{getattr(ledger.total, t):,.2f}" for t in shown), ""])
    widths = [max(len(row[column]) for row in (heads, *body)) for column in range(len(heads))]
    return [
        "  ".join(
            cell.ljust(width) if column in (0, len(heads) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *body)
    ]


def _cells(row: Row, shown: list[str]) -> list[str]:
    name = row.node if row.node is not None else "(no node)"
    name = name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 1] + "…"
    kernel = short_name(row.kernels[0], TABLE_WIDTH) if row.kernels else ""
    more = f" and {len(row.kernels) - 1} more" if len(row.kernels) > 1 else ""
    return [name, f"{row.terms.total_us:,.2f}", *(f"{getattr(row.terms, t):,.2f}" for t in shown), kernel + more]
