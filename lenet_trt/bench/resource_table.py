"""Write what variants take of GPUs as a table: ``lenet-trt plugins --resources``, and the figure made of its JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lenet_trt.bench.sources import NOT_MEASURED, Sources
from lenet_trt.bench.tables import markdown_text
from lenet_trt.cuda.gpus import sm_text
from lenet_trt.schema import Count, Real, read_json


@dataclass(frozen=True)
class ResourceRow:
    """Hold what a variant takes on one architecture; ``limit``: what keeps more blocks from a multiprocessor."""

    kernel: str
    variant: str
    types: str
    sm: Count
    registers: Count
    shared_bytes: Count
    local_bytes: Count
    blocks: Count
    occupancy: Real
    limit: str


def resource_table(rows: Sequence[ResourceRow]) -> str:
    """Return the rows as Markdown: a line for each variant and type, a column for each architecture."""
    sms = sorted({row.sm for row in rows})
    lines: dict[tuple[str, str, str], dict[int, str]] = {}
    for row in rows:
        local = f", {row.local_bytes} B local" if row.local_bytes else ""
        cell = f"{row.registers} / {row.shared_bytes / 1024:.1f} / {row.occupancy:.0%}{local}"
        lines.setdefault((row.kernel, row.variant, row.types), {})[row.sm] = cell
    cells = [[*names, *(found.get(sm, "-") for sm in sms)] for names, found in lines.items()]
    return markdown_text(("kernel", "variant", "types", *map(sm_text, sms)), cells, left=(0, 1, 2))


def resources_figure(sources: Sources, name: str) -> str:
    """Return the table of the rows in a file of ``lenet-trt plugins --resources --json``: ``resources resources``."""
    path = sources.path(name)
    if not path.is_file():
        return NOT_MEASURED
    again = "make it again with lenet-trt plugins --resources --json"
    return resource_table(read_json(path, list[ResourceRow], wanted="resources of variants", fix=again))
