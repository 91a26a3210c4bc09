"""The record of a run: plain data to keep as JSON, and the same as a table for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from lenet_trt.errors import LenetTrtError

SCHEMA = 1
PRODUCT = "product"

Data: TypeAlias = Mapping[str, Any]


def load(path: Path) -> Data:
    """Read a record.

    Raises:
        LenetTrtError: the file is not there, not JSON, or of another schema.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise LenetTrtError(f"{path} is not JSON ({error}); wanted what scripts/gpu_bench.py -o writes") from error
    seen = data.get("schema") if isinstance(data, dict) else None
    if seen != SCHEMA:
        raise LenetTrtError(f"{path} has schema {seen}; this script reads {SCHEMA}: measure again")
    return data


def product_of(workload: Data) -> Data | None:
    """The row of the variant that the declaration picks, if it ran."""
    return next((row for row in timed(workload) if row["name"] == PRODUCT), None)


def best_peer(workload: Data) -> Data | None:
    """The fastest row that is not ours, among those that ran and gave a finite result."""
    peers = [row for row in timed(workload) if not row["ours"] and row["error"] is not None]
    return min(peers, key=lambda row: float(row["us"]), default=None)


def timed(workload: Data) -> list[Data]:
    """The rows that have a time."""
    return [row for row in workload["contenders"] if "us" in row]


def ordered(workload: Data) -> list[Data]:
    """All rows: steps in their order, the product, its variants and the peers by time, then what failed."""

    def key(row: Data) -> tuple[int, float]:
        if "us" not in row:
            return 4, 0.0
        if row.get("step"):
            return 0, 0.0
        if row["name"] == PRODUCT:
            return 1, 0.0
        return (2 if row["ours"] else 3), float(row["us"])

    return sorted(workload["contenders"], key=key)


def gains(workloads: Sequence[Data], gpu: str) -> list[dict[str, Any]]:
    """What ``lenet-trt plugins`` lists: each kernel's time beside the best peer's, a row a workload."""
    rows = []
    for workload in workloads:
        ours, peer = product_of(workload), best_peer(workload)
        if ours and peer and workload["kernel"] and workload["suite"] not in ("sweep", "ladder"):
            rows.append(
                {
                    "kernel": workload["kernel"],
                    "workload": workload["title"],
                    "us": ours["us"],
                    "peer": peer["name"],
                    "peer_us": peer["us"],
                    "gpu": gpu,
                }
            )
    return rows


def display_name(row: Data) -> str:
    """The contender's name; of the product also which variant it is."""
    if row["name"] == PRODUCT:
        return f"{PRODUCT} ({row['variant']})"
    return str(row["name"])


def error_text(row: Data) -> str:
    """The relative error, or what is to be said instead."""
    return "not finite" if row["error"] is None else f"{row['error']:.1e}"


def cells(workload: Data, row: Data) -> tuple[str, ...]:
    """Median, spread, error, times the floor, and how many times faster than the best peer."""
    if "us" not in row:
        return ("-", "-", "-", "-", "-")
    peer = best_peer(workload)
    faster = f"{peer['us'] / row['us']:.2f}" if peer else "-"
    return (
        number(row["us"]),
        f"{number(row['p10_us'])} to {number(row['p90_us'])}",
        error_text(row),
        f"{row['us'] / workload['floor_us']:.2f}",
        faster,
    )


def number(us: float) -> str:
    """Microseconds with three or four digits."""
    return f"{us:.2f}" if us < 100 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def table(workloads: Sequence[Data]) -> str:
    """All rows of all workloads, aligned."""
    header = ("workload", "contender", "median us", "p10 to p90", "error", "x floor", "best peer / it")
    lines = [header, *_lines(workloads)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    left = 2  # the names; numbers are on the right
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def failures(workloads: Sequence[Data]) -> list[str]:
    """Why contenders have no time."""
    return [
        f"{workload['name']}, {row['name']}: {row['failed']}"
        for workload in workloads
        for row in workload["contenders"]
        if "failed" in row
    ]


def _lines(workloads: Sequence[Data]) -> Iterator[tuple[str, ...]]:
    for workload in workloads:
        for row in ordered(workload):
            yield (workload["name"], display_name(row), *cells(workload, row))
