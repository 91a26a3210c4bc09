"""Make the figures of documents from records of ``lenet-trt bench``: a time, a table, a picture.

Each function is a kind of figure; the words after the kind in a placeholder (``lenet_trt.bench.page``) are its
arguments. The first one is the name of a record, such as "h200/kernels". Where that record is missing, the figure is
"not measured".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lenet_trt.bench.best_peers import FIGURES, contests
from lenet_trt.bench.gains import MeasuredWorkload, display_name, measured_workloads
from lenet_trt.bench.record import Record, Row, load_record
from lenet_trt.bench.resume import mixture
from lenet_trt.bench.sources import NOT_MEASURED, Sources
from lenet_trt.bench.suites import record_summaries, suite
from lenet_trt.bench.tables import duration, markdown_text, record_warnings, rows_markdown, standard_columns
from lenet_trt.bench.zoo.tables import by_network
from lenet_trt.draw.charts import render
from lenet_trt.errors import LenetTrtError

# A table with more rows is folded.
_LONG = 30


def time_figure(sources: Sources, name: str, backend: str, *case: str) -> str:
    """Return the median of one row, or a percentile: ``time h200/sweep "lenet5 kernel" batch=1``, ``percentile=99``."""
    record = sources.record(name)
    if record is None:
        return NOT_MEASURED
    words = dict(_pair(word) for word in case)
    share = words.pop("percentile", None)
    row = _row(record, name, backend, words)
    if share is None:
        return _median(row)
    known = row.extra.get("percentiles", {})
    return duration(known[str(share)]) if str(share) in known else NOT_MEASURED


def _pair(word: str) -> tuple[str, int | str]:
    key, _, value = word.partition("=")
    return key, int(value) if value.isdigit() else value


def _row(record: Record, name: str, backend: str, case: Mapping[str, int | str]) -> Row:
    row = record.find(backend, **case)
    if row is None:
        known = ", ".join(dict.fromkeys(each.backend for each in record.rows))
        raise LenetTrtError(f"{name} has no row of {backend!r} with {dict(case)}; its backends are {known}")
    return row


def _median(row: Row | None) -> str:
    return NOT_MEASURED if row is None or row.stats is None else duration(row.stats.median_us)


def plan_figure(sources: Sources, name: str, key: str) -> str:
    """Return one number of the plan by which a record was timed: ``plan h200/kernels rounds``."""
    record = sources.record(name)
    return NOT_MEASURED if record is None else str(record.plan.get(key, NOT_MEASURED))


def machine_figure(sources: Sources, folder: str) -> str:
    """Return the machine, the packages, the clock and the commits of all records in a folder, as a list."""
    records = {path.stem: load_record(path) for path in sorted((sources.records / folder).glob("*.json"))}
    return "\n".join(_machine(records)) if records else NOT_MEASURED


def _machine(records: Mapping[str, Record]) -> Iterator[str]:
    machines = {str(record.gpu or record.environment.get("cpu")) for record in records.values()}
    if len(machines) > 1:
        raise LenetTrtError(f"one folder has records of {' and '.join(sorted(machines))}: keep a folder for each")
    here = next(iter(records.values())).environment
    if here.get("gpu"):
        yield (
            f"- {here['gpu']} (sm_{here['sm']}, {here['multiprocessors']} multiprocessors, "
            f"{here['l2_bytes'] / 2**20:.0f} MiB L2), driver {here['driver']} (CUDA {here['driver_cuda']}), "
            f"NVRTC {here['nvrtc']}."
        )
    yield f"- {here['cpu']}, {here['cpus']} processors; Python {here['python']}."
    packages = {name: version for r in records.values() for name, version in r.environment["packages"].items()}
    yield f"- {', '.join(f'{name} {version}' for name, version in packages.items())}."
    clocks = [sample["sm_mhz"] for record in records.values() for sample in record.clocks[1:]]
    if clocks:
        span = f"{min(clocks):.0f}" if min(clocks) == max(clocks) else f"{min(clocks):.0f} to {max(clocks):.0f}"
        yield f"- GPU clock, read between the timings and not fixed: {span} MHz."
    for commit in dict.fromkeys(record.commit for record in records.values()):
        told = f"Commit `{commit}`" if commit else "Not in a git checkout"
        same = [f"{name} {r.date} ({r.seconds:.0f} s)" for name, r in records.items() if r.commit == commit]
        yield f"- {told}: {', '.join(same)}."


def compare_figure(sources: Sources, name: str, *chosen: str) -> str:
    """Return a table of workloads, our time beside the best other one: ``compare h200/kernels "matmul fp32"``.

    A word that is no workload's name stands for all whose names begin with it.
    """
    record = sources.record(name)
    if record is None:
        return NOT_MEASURED
    known = {workload.name: workload for workload in measured_workloads(record)}
    found = {word: [word] if word in known else [each for each in known if each.startswith(word)] for word in chosen}
    if unknown := [word for word, names in found.items() if not names]:
        raise LenetTrtError(f"{name} has no workload {unknown[0]!r}; it has {', '.join(known)}")
    shown = [each for names in found.values() for each in names] or known
    headings = ("workload", "floor", "ours", "best of the others", "its time", "times faster", "our error")
    return markdown_text(headings, [_compared(known[each]) for each in shown], left=(0, 3))


def _compared(workload: MeasuredWorkload) -> list[str]:
    ours, peer = workload.product, workload.best_peer
    factor = error = "-"
    if ours and ours.stats and peer and peer.stats:
        factor = f"{peer.stats.median_us / ours.stats.median_us:.2f}"
    if ours and ours.extra.get("error") is not None:
        error = f"{ours.extra['error']:.1e}"
    floor, best = duration(workload.floor_us), display_name(peer) if peer else "-"
    return [workload.title, floor, _median(ours), best, _median(peer), factor, error]


def contest_figure(sources: Sources, name: str, *words: str) -> str:
    """Return a table of engines with our plugins beside TensorRT at its best, a line a workload.

    The words are ``contest h200/engines "workload=LeNet-5 fp32" batch=1``, each as often as needed; without ``batch``,
    all batches are shown.
    """
    record = sources.record(name)
    if record is None:
        return NOT_MEASURED
    chosen: dict[str, list[int | str]] = {"workload": [], "batch": []}
    for word in words:
        key, value = _pair(word)
        if key not in chosen:
            raise LenetTrtError(f"{word!r} is not workload=... or batch=...")
        chosen[key].append(value)
    known = list(dict.fromkeys(row.case["workload"] for row in record.rows if "workload" in row.case))
    if unknown := [value for value in chosen["workload"] if value not in known]:
        raise LenetTrtError(f"{name} has no workload {unknown[0]!r}; it has {', '.join(map(str, known))}")
    batches = {*chosen["batch"], None} if chosen["batch"] else None
    found = [each for each in contests(record) if batches is None or each.case.get("batch") in batches]
    lines = [
        [
            str(workload),
            *map(_joined, zip(*(e.figures() for e in found if e.case["workload"] == workload), strict=True)),
        ]
        for workload in chosen["workload"]
    ]
    return markdown_text(("workload", *FIGURES), lines, left=(0,))


def networks_figure(sources: Sources, names: str, *words: str) -> str:
    """Return a table of networks, a column a batch and precision, with TensorRT's own layers and with our plugins.

    ``names`` is a record, or several with commas between, of which the newest counts that measured a network in a batch
    and precision. The words behind it are networks (without one, all), ``precision=fp16``, which shows this one alone,
    and ``"backend=graph runtime"``, which shows the times of another backend: ``networks zoo/h200,zoo/h200_fp16 unet``.
    """
    found = [sources.record(name) for name in names.split(",")]
    records = [record for record in found if record is not None]
    if len(records) < len(found):
        return NOT_MEASURED
    options = {key: value for key, equals, value in (word.partition("=") for word in words) if equals}
    if unknown := options.keys() - {"backend", "precision"}:
        raise LenetTrtError(f"the figure networks has no option {min(unknown)!r}; it has backend and precision")
    if mixed := mixture(records):
        raise LenetTrtError(f"{names} are of {mixed}: a table must not mix them")
    newest = {row.where: record for record in sorted(records, key=lambda each: each.date) for row in record.rows}
    rows = tuple(row for record in records for row in record.rows if newest[row.where] is record)
    headings, lines = by_network(replace(records[0], rows=rows), [w for w in words if "=" not in w], **options)
    return markdown_text(headings, lines, left=(0,)) if lines else NOT_MEASURED


def _joined(texts: Sequence[str]) -> str:
    """Write the figures of one workload beside one another, with their unit once where they share it."""
    if {*texts} == {"-"}:
        return "-"
    numbers, units = zip(*(text.partition(" ")[::2] for text in texts), strict=True)
    return f"{' / '.join(numbers)} {units[0]}".rstrip() if len({*units}) == 1 else " / ".join(texts)


def steps_figure(sources: Sources, name: str, *chosen: str) -> str:
    """Return a table of the numbered steps, a column a workload: ``steps h200/ladder "matmul fp32"``."""
    record = sources.record(name)
    if record is None:
        return NOT_MEASURED
    known = {workload.name.removeprefix("ladder "): workload for workload in measured_workloads(record)}
    if unknown := [each for each in chosen if each not in known]:
        raise LenetTrtError(f"{name} has no workload {unknown[0]!r}; it has {', '.join(known)}")
    rows = {each: {row.backend: row for row in known[each].ordered()} for each in chosen or known}
    # The product's variant may differ from size to size, so its name is not shown here.
    shown = [b for each in rows.values() for b, row in each.items() if row.extra.get("step") or b == "product"]
    backends = sorted(dict.fromkeys(shown), key=lambda backend: (backend == "product", backend))
    lines = [[backend, *(_median(each.get(backend)) for each in rows.values())] for backend in backends]
    return markdown_text(("step", *(known[each].title for each in rows)), lines, left=(0,))


def rows_figure(sources: Sources, name: str) -> str:
    """Return all rows of a record as a table, with its warnings and what was not timed."""
    record = sources.record(name)
    if record is None:
        return NOT_MEASURED
    module = suite(record.suite)
    columns = module.columns(record) if hasattr(module, "columns") else standard_columns(record)
    timed = [row for row in record.rows if row.stats is not None]
    lines = rows_markdown(timed, columns) if timed else []
    if len(timed) > _LONG:
        lines = ["<details>", f"<summary>All {len(timed)} rows</summary>", "", *lines, "", "</details>"]
    missing: dict[str, list[str]] = {}
    for row in record.rows:
        if row.stats is None:
            named = f"{display_name(row)} ({row.where})" if row.case else display_name(row)
            missing.setdefault(row.why or "", []).append(named)
    parts = [
        [f"- Take care: {warning}." for warning in record_warnings(record)],
        lines,
        ["Without a time:", "", *(f"- {'; '.join(named)}: {why}" for why, named in missing.items())] if missing else [],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def findings_figure(sources: Sources, name: str) -> str:
    """Return the small tables that a suite makes of its rows: who is fastest where, what a remedy saves."""
    record = sources.record(name)
    if record is None:
        return NOT_MEASURED
    found = [f"{each.title}:\n\n{each.markdown()}" for each in record_summaries(record)]
    return "\n\n".join(found) or "nothing found"


def picture_figure(sources: Sources, name: str, path: str, alt: str) -> str:
    """Return the link to a record's picture and draw it: ``picture h200/sweep images/sweep.svg "Time an image"``."""
    record = sources.record(name)
    charts = suite(record.suite).charts(record) if record else []
    if not charts:
        return NOT_MEASURED
    sources.pictures[sources.document.parent / path] = render(charts, "svg")
    return f"![{alt}]({path})"


def quoted_figure(sources: Sources, name: str, folder: str) -> str:
    """Return figures of other people beside ours: ``quoted write-ups h200``."""
    path = sources.path(name)
    if not path.is_file():
        return NOT_MEASURED
    lines = []
    for entry in sources.data(path)["figures"]:
        here = [_quoted(sources, folder, entry[key]) for key in ("same", "ours")]
        told = entry["time"] if entry["gpu"] == "none" else f"{entry['time']} ({entry['gpu']})"
        lines.append([str(entry["source"]), entry["what"], told, *here])
    return markdown_text(("source", "what", "its time (GPU)", "the same here", "ours"), lines, left=range(5))


def _quoted(sources: Sources, folder: str, where: Mapping[str, Any]) -> str:
    name = f"{folder}/{where['suite']}"
    record = sources.record(name)
    row = None if record is None else _row(record, name, where["backend"], where["case"])
    return f"{where['backend']}: {_median(row)}"
