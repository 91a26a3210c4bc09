"""The report of ``verify``: one Markdown page that says all that somebody else needs to trust the figures."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence

from lenet_trt.bench.engine_workloads import OURS, THEIRS
from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.tables import duration
from lenet_trt.text_table import markdown_table

_HEADS = ("workload", "batch", "backend", "built", "ran", "error", "largest error", "right", "median", "it / ours")
_RIGHT = frozenset({1, 5, 6, 8, 9})
_SHOWN_LAYERS = 40


def failures(record: Record, *, build_only: bool) -> list[Row]:
    """Return the rows of our kernels that did not run, or whose results are not right."""
    ours = [row for row in record.rows if row.extra.get("ours") or row.backend == OURS]
    if build_only:
        return [row for row in ours if "build_seconds" not in row.extra]
    return [row for row in ours if row.stats is None or not row.extra.get("right")]


def kernel_verdict(record: Record, *, build_only: bool) -> str:
    """Say in a sentence what was found."""
    ours = [row for row in record.rows if row.backend == OURS]
    wrong = failures(record, build_only=build_only)
    if build_only:
        return f"{len(ours) - len(wrong)} of {len(ours)} engines with our kernels were built; nothing was run."
    return f"{len(ours) - len(wrong)} of {len(ours)} engines with our kernels were built, ran and are right."


def markdown(record: Record, *, build_only: bool) -> str:
    """Write the report."""
    tool = str(record.details.get("trtexec"))
    where = record.gpu or "no GPU"
    lines = [
        f"# lenet-trt verify: {tool} on {where}",
        "",
        kernel_verdict(record, build_only=build_only),
        "",
        *markdown_table(("what", "which"), list(_machine(record, tool))),
        "",
        "## Workloads",
        "",
        *markdown_table(_HEADS, [_cells(row, record) for row in record.rows], _RIGHT),
        "",
        *record.notes,
    ]
    problems = [row for row in record.rows if row.stats is None and row.why]
    if problems and not build_only:
        lines += ["", "## What did not work", ""]
        lines += [f"- {row.backend}, {row.where}: {row.why}" for row in problems]
    elif wrong := [row for row in problems if "build_seconds" not in row.extra]:
        lines += ["", "## What was not built", ""]
        lines += [f"- {row.backend}, {row.where}: {row.why}" for row in wrong]
    lines += list(_layers(record.rows))
    lines += [
        "",
        "The file verify.json beside this page has every figure. Share both; the command and reasons may name paths.",
    ]
    return "\n".join(lines) + "\n"


def _machine(record: Record, tool: str) -> Iterator[tuple[str, str]]:
    here = record.environment
    yield "GPU", f"{record.gpu} (sm_{here.get('sm')})" if record.gpu else str(here.get("why_no_gpu"))
    yield "driver", f"{here.get('driver')}, for CUDA {here.get('driver_cuda')}" if record.gpu else "none"
    yield "TensorRT", tool
    if record.details.get("targets"):
        yield "built for", ", ".join(record.details["targets"])
    yield "plugin library", str(record.details.get("library_sha256") or "none")
    yield "kernels compiled by", f"NVRTC {here.get('nvrtc')}"
    yield "lenet-trt", f"{here.get('lenet_trt')}, commit {record.commit or 'not known'}"
    yield "Python, system", f"{here.get('python')}, {platform.system()} {platform.machine()}"
    yield "CPU", str(here.get("cpu"))
    yield "command", f"`{record.command}`"
    yield "when", f"{record.date}, {record.seconds:.0f} s"


def _cells(row: Row, record: Record) -> tuple[str, ...]:
    extra = row.extra
    ours = record.find(OURS, **row.case)
    faster = "-"
    if row.backend != OURS and row.stats is not None and ours is not None and ours.stats is not None:
        faster = f"{row.stats.median_us / ours.stats.median_us:.3g}"
    return (
        str(row.case["workload"]),
        str(row.case.get("batch", "-")),
        row.backend,
        f"{extra['build_seconds']:g} s" if "build_seconds" in extra else "no",
        "yes" if row.stats is not None else "no",
        f"{extra['error']:.1e}" if extra.get("error") is not None else "-",
        f"{extra['max_error']:.1e}" if extra.get("max_error") is not None else "-",
        {True: "yes", False: "NO", None: "-"}[extra.get("right")],
        duration(row.stats.median_us) if row.stats is not None else "-",
        faster,
    )


def _layers(rows: Sequence[Row]) -> Iterator[str]:
    """TensorRT's names of the layers, once for each workload and backend."""
    shown: set[tuple[str, tuple[str, ...]]] = set()
    chosen = [row for row in rows if row.backend in (THEIRS, OURS) and row.extra.get("layers")]
    if chosen:
        yield from ("", "## Layers, as TensorRT names them")
    for row in chosen:
        names = tuple(row.extra["layers"])
        key = (f"{row.case['workload']}{row.backend}", names)
        if key in shown:
            continue
        shown.add(key)
        yield from ("", f"{row.backend}, {row.where}:", "", "```")
        yield from names[:_SHOWN_LAYERS]
        if len(names) > _SHOWN_LAYERS:
            yield f"and {len(names) - _SHOWN_LAYERS} more"
        yield "```"
