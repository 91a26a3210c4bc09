"""Read from the record of ``kernels`` each kernel's time, its floor, and the best peer's time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lenet_trt.bench.record import Record, Row

# The variant that the declaration picks, timed once more under this name.
PRODUCT = "product"


@dataclass(frozen=True)
class MeasuredWorkload:
    """Hold one workload of a record: its facts and its rows. The fact ``mode`` says how its times are compared."""

    name: str
    facts: Mapping[str, Any]
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        """Return the workload's name as people call it."""
        return str(self.facts["title"])

    @property
    def short_title(self) -> str:
        """Return the title without the part that all titles of its kind share."""
        return self.title.replace(", 50 filters 5x5", "")

    @property
    def floor_us(self) -> float:
        """Return the least time that any arithmetic of its precision allows."""
        return float(min(self.facts["floors_us"].values()))

    @property
    def main(self) -> list[Row]:
        """Return the rows that are compared: each contender in the workload's own mode, or in the mode that it has."""
        best: dict[str, Row] = {}
        for row in self.rows:
            if row.backend not in best or row.case.get("mode") == self.facts["mode"]:
                best[row.backend] = row
        return list(best.values())

    @property
    def product(self) -> Row | None:
        """Return the row of the variant that the declaration picks, if it was timed."""
        return next((row for row in self.main if row.backend == PRODUCT and row.stats), None)

    @property
    def best_peer(self) -> Row | None:
        """Return the fastest row that is not ours, among those with a time and a finite result."""
        timed = [(row.stats.median_us, row) for row in self.main if row.stats and not row.extra.get("ours")]
        right = [(us, row) for us, row in timed if row.extra.get("error") is not None]
        return min(right, key=lambda pair: pair[0])[1] if right else None

    def ordered(self) -> list[Row]:
        """Return the steps in order, the product, its variants and the peers by time, then the rows without a time."""

        def key(row: Row) -> tuple[int, float]:
            if row.stats is None:
                return 4, 0.0
            if row.extra.get("step"):
                return 0, 0.0
            if row.backend == PRODUCT:
                return 1, 0.0
            return (2 if row.extra.get("ours") else 3), row.stats.median_us

        return sorted(self.main, key=key)


def measured_workloads(record: Record) -> Iterator[MeasuredWorkload]:
    """Yield the workloads of a record of ``kernels`` or ``ladder``, in its order."""
    for name, facts in record.details.get("workloads", {}).items():
        yield MeasuredWorkload(name, facts, [row for row in record.rows if row.case.get("workload") == name])


def gains(record: Record) -> list[dict[str, Any]]:
    """Return what ``lenet-trt plugins`` lists: a row for each workload, with the kernel's and the best peer's time."""
    rows = []
    for workload in measured_workloads(record):
        ours, peer = workload.product, workload.best_peer
        if ours is None or peer is None or not workload.facts["kernel"]:
            continue
        assert ours.stats is not None
        assert peer.stats is not None
        rows.append(
            {
                "kernel": workload.facts["kernel"],
                "workload": workload.title,
                "us": ours.stats.median_us,
                "peer": peer.backend,
                "peer_us": peer.stats.median_us,
                "gpu": record.gpu,
            }
        )
    return rows


def display_name(row: Row) -> str:
    """Return the contender's name; the product's name says which variant it is."""
    return f"{PRODUCT} ({row.extra['variant']})" if row.backend == PRODUCT and "variant" in row.extra else row.backend
