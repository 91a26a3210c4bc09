"""Make the figures of documents from a record of ``lenet-trt tune -o``: what tuning changed, and what that gained."""

from __future__ import annotations

from lenet_trt.bench.sources import NOT_MEASURED, Sources
from lenet_trt.cuda.tuning_record import read_tuning_record
from lenet_trt.tune.tables import calls_table, differences_table, summary_table


def tuned_figure(sources: Sources, name: str, most: str = "20") -> str:
    """Return the machine, a row for each kernel, and the calls with the largest gains: ``tuned tune/h200 20``."""
    path = sources.path(name)
    if not path.is_file():
        return NOT_MEASURED
    record = read_tuning_record(path)
    machines = dict.fromkeys(str(tuning.machine) for tuning in record.tunings)
    timed = f"{record.timed} of {record.ladders} ladders in {record.seconds:.0f} s"
    commit = f", commit `{record.commit[:12]}`" if record.commit else ""
    head = f"{'; '.join(machines)}; {timed}; `{record.command}`{commit}."
    return "\n".join((head, "", *summary_table(record.tunings), "", *calls_table(record.tunings, int(most))))


def tuned_apart_figure(sources: Sources, one: str, other: str, most: str = "20") -> str:
    """Return where two GPUs want different variants, and at what cost: ``tuned_apart tune/h200 tune/h100 20``."""
    paths = [sources.path(name) for name in (one, other)]
    if not all(path.is_file() for path in paths):
        return NOT_MEASURED
    first, second = (read_tuning_record(path).tunings for path in paths)
    return "\n".join(differences_table(first, second, int(most)))
