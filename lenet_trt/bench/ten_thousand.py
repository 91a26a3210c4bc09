"""Measure the suite ``10k``: every backend classifies all 10,000 MNIST test images.

A time is how long a caller waits, by the host's clock, from the call to the last logit. The images are one batch of
float32; for backends on the GPU the batch lies in GPU memory. The main backends are timed from host memory as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lenet_trt.bench.backends.listed import COMPILED, NAIVE, OURS, backends
from lenet_trt.bench.backends.measure import HOST, Opened, measure_batch, not_quick, opened
from lenet_trt.bench.backends.naive import Naive
from lenet_trt.bench.backends.protocol import Backend, mnist
from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.suite import Recording, SuiteOptions, recording
from lenet_trt.bench.tables import Column, Summary, duration
from lenet_trt.draw.chart import Chart, Series

COUNT = 10_000
# Seconds of timing that a slow backend gets; a call of the naive program takes about one.
_BUDGET_S = 2.0


def measure(options: SuiteOptions) -> Record:
    """Time every backend on the same 10,000 images."""
    return measure_10k(options, backends(options), COUNT)


def measure_10k(options: SuiteOptions, chosen: Sequence[Backend], count: int) -> Record:
    """Time these backends on the first ``count`` images."""
    plan = replace(options.plan, budget_s=min(options.plan.budget_s, _BUDGET_S))
    tuned = "left out: tuned for 10,000 images it is faster, and that is measured"
    left_out = not_quick(chosen) if options.quick else dict.fromkeys(COMPILED, tuned)
    with recording("10k", options) as found, opened(chosen, found, left_out) as ready:
        images = mnist(count)
        measure_batch(found, ready, images, {}, plan, where=True)
        for each in ready:
            if each.backend.name.startswith(NAIVE):
                _profile(found, each, count)
    return found.finish()


def _profile(found: Recording, each: Opened, count: int) -> None:
    """Measure where the naive program's time goes, and keep it in ``details`` under the row's name."""
    if each.session is None or found.rows == []:
        return
    found.say(f"where the time of {each.backend.name} goes")
    try:
        ready = each.session.prepare(mnist(count))
        assert isinstance(ready, Naive)
        kept: dict[str, Any] = found.details.setdefault("naive", {})
        if each.backend.name != NAIVE:
            kept[each.backend.name] = {"sync_share": round(ready.sync_share(), 4)}
            return
        shares = ready.shares()
    except Exception as problem:  # the timings stay
        found.notes.append(f"{each.backend.name}: where its time goes is not known ({problem})")
        return
    kept[each.backend.name] = {
        "sync_share": round(shares.sync, 4),
        "kernels": {
            name: {"share": round(share, 4), "us_a_launch": round(us, 3)}
            for name, (share, us) in shares.kernels.items()
        },
    }


def summaries(record: Record) -> list[Summary]:
    """Return the time of the naive programs by what they do."""
    lines = []
    for name, shares in record.details.get("naive", {}).items():
        kernels = [f"{kernel} {of['share']:.0%}" for kernel, of in shares.get("kernels", {}).items()]
        lines.append([name, f"{shares['sync_share']:.0%}", ", ".join(kernels) or "-"])
    headings = ("program", "of its time in sync calls", "of the time in kernels")
    return [Summary("Where the naive program's time goes", headings, lines, headings[1:2])] if lines else []


def columns(record: Record) -> list[Column]:
    """Return the columns: memory of the images, time with its interval, images per second, GPU time, right classes."""
    return [
        Column("images in", lambda row: str(row.case.get("images", "")), left=True),
        Column("backend", lambda row: row.backend, left=True),
        Column("time", lambda row: duration(row.stats.median_us) if row.stats else "-"),
        Column("95% interval", interval),
        Column("images/s", _rate),
        Column("gpu alone", gpu_alone),
        Column("right", lambda row: f"{row.extra['right']}/{row.extra['count']}" if "right" in row.extra else "-"),
        Column("as float64", lambda row: str(row.extra.get("same_class", "-"))),
        Column("error", lambda row: f"{row.extra['error']:.1e}" if "error" in row.extra else "-"),
    ]


def _rate(row: Row) -> str:
    return f"{row.extra.get('count', COUNT) / row.stats.median_us * 1e6:,.0f}" if row.stats else "-"


def interval(row: Row) -> str:
    """Return the 95% interval of the median as text."""
    return f"{duration(row.stats.low_us)} to {duration(row.stats.high_us)}" if row.stats else "-"


def gpu_alone(row: Row) -> str:
    """Return the median of the GPU's own time as text, where it is known."""
    alone = row.extra.get("gpu_alone")
    return duration(alone["median_us"]) if alone and row.stats else "-"


def charts(record: Record) -> list[Chart]:
    """Draw the milliseconds for all images, a bar a backend, slow to fast, on a logarithmic axis."""
    found = [(row, row.stats.median_us / 1e3) for row in record.rows if row.stats is not None and not _copies(row)]
    shown = sorted(((row.backend, ms, _group(row)) for row, ms in found), key=lambda bar: -bar[1])
    names = [name for name, _, _ in shown]
    series = [
        Series(
            group,
            names,
            [ms if of == group else None for _, ms, of in shown],
            "bars",
            group == "ours",
            "time",
            texts=[duration(ms * 1e3) if of == group else "" for _, ms, of in shown],
        )
        for group in ("others", "ours")
        if any(of == group for _, _, of in shown)
    ]
    if not series:
        return []
    where = f"measured on {record.gpu or record.environment.get('cpu')}"
    label = "milliseconds (less is better)"
    return [Chart("10,000 MNIST images", label, "", series, x_log=True, notes=(where,), horizontal=True)]


def _copies(row: Row) -> bool:
    return row.case.get("images") == HOST and row.extra.get("place") == "GPU"


def _group(row: Row) -> str:
    return "ours" if row.extra.get("ours") or row.backend.startswith(OURS) else "others"
