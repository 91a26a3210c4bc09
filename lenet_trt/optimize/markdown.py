"""Write the report of a run for people, from its record (optimize.json) alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lenet_trt.optimize.records import compared
from lenet_trt.optimize.words import plan_text, trial_text
from lenet_trt.text_table import markdown_table
from lenet_trt.trace.kernel_names import TABLE_WIDTH, short_name

_TERMS = ("floor_us", "inefficiency_us", "unjudged_us", "copies_us", "launch_gaps_us", "host_enqueue_us", "residual_us")


# The remark on a record that was made where no kernel runs.
REHEARSAL = (
    "a rehearsal on the host: ONNX Runtime computes each plugin as the nodes that it replaces, so nothing here says "
    "which model is faster on a GPU"
)


def optimize_report(record: Mapping[str, Any]) -> str:
    """Return the record as Markdown; text from models and traces is escaped."""
    return "\n".join(_lines(record)) + "\n"


def optimize_headline(record: Mapping[str, Any]) -> list[str]:
    """Return what was chosen, a line for each batch size; a rehearsal says so in its first line."""
    out = [REHEARSAL] if record.get("rehearsal") else []
    nothing = "" if out else ": nothing was faster beyond the noise"
    for entry in record["chosen"]:
        where = "" if entry["batch"] is None else f"batch {entry['batch']}: "
        plain, taken = _stats(entry, []), _stats(entry, entry["plan"])
        if not entry["plan"]:
            out.append(f"{where}the model stays as it is, {_interval(plain)}{nothing}")
        else:
            out.append(
                f"{where}{_interval(plain)} -> {_interval(taken)}, {entry['times_faster']:.2f} times faster, "
                f"with {plan_text(entry['plan'])}"
            )
    for crossing in record["crossings"]:
        low, high = crossing["between"]
        at = f"at about {crossing['at']:,.0f}" if crossing["at"] else "somewhere"
        out.append(
            f"{plan_text(crossing['small'])} and {plan_text(crossing['large'])} take the same time {at} between batch "
            f"{low} and {high}" + (" (interpolated)" if crossing["at"] else "")
        )
    return out


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {_safe(record['model'])}: what was replaced, and what it gave"
    yield ""
    yield from (f"- {_safe(line)}" for line in optimize_headline(record))
    yield ""
    yield from _facts(record)
    if record["models"]:
        yield ""
        yield from _table(
            ["file", "batch", "plugins"],
            [[m["path"], ", ".join(map(_batch, m["batches"])), plan_text(m["plan"])] for m in record["models"]],
        )
    for outcome in record["batches"]:
        yield ""
        yield f"## {'The model' if outcome['batch'] is None else 'Batch ' + str(outcome['batch'])}"
        yield from _outcome(outcome)
    if record.get("refusals"):
        yield ""
        yield "## Left as it is"
        yield ""
        yield from (
            f"- {_safe(r['kernel'])} at {_safe(', '.join(r['replaced']))}: {_safe(r['reason'])}"
            for r in record["refusals"]
        )


def _facts(record: Mapping[str, Any]) -> Iterator[str]:
    gpu, where = record["environment"].get("gpu"), record["where"]
    machine = where if gpu is None or str(where).startswith(str(gpu)) else f"{gpu}, {where}"
    if sizes := record.get("sizes"):
        given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        yield f"Sizes of open axes, in the model and in what was made of it: {_safe(given)}."
    yield f"Measured on {_safe(machine)}: {_safe(record['how'])}."
    yield f"Medians with their 95% bootstrap interval; command: {_code(record['command'])}, {_safe(_made(record))}."


def _made(record: Mapping[str, Any]) -> str:
    """Return when the record was made, and with which versions of what decides a timing."""
    environment, made = record["environment"], record.get("made") or {}
    packages = environment.get("packages", {})
    parts = [made["time"]] if made.get("time") else []
    parts.append(f"lenet-trt {environment.get('lenet_trt')}")
    parts += [f"commit {made['commit'][:12]}"] if made.get("commit") else []
    parts += [f"driver {environment['driver']}"] if environment.get("driver") else []
    shown = ("torch", "nvidia-cudnn-cu13", "nvidia-cublas", "onnxruntime", "tensorrt", "tensorrt-rtx")
    parts += [f"{name} {packages[name]}" for name in shown if name in packages]
    return ", ".join(parts)


def _outcome(outcome: Mapping[str, Any]) -> Iterator[str]:
    for number, seen in enumerate(outcome["observed"]):
        yield ""
        yield f"### {'Before' if number == 0 else 'After: ' + _safe(plan_text(seen['plan']))}"
        yield ""
        yield from _ledger(seen)
        yield from _findings(seen["findings"])
    if outcome["trials"]:
        yield ""
        yield "### Tried"
        yield ""
        rows = [
            [
                trial_text(trial),
                f"{trial['promise_us']:,.2f}",
                _interval(trial["old"]),
                _interval(trial["new"]),
                _accuracy(trial["accuracy"]),
                ("kept: " if trial["kept"] else "not kept: ") + trial["reason"] + _elsewhere(trial["elsewhere_us"]),
            ]
            for trial in outcome["trials"]
        ]
        yield from _table(["candidate", "promised us", "without, us", "with, us", "accuracy", "verdict"], rows)
    noise_us = outcome["noise_us"]
    for left, why in (
        ([e for e in outcome["passed_over"] if e["promise_us"] > noise_us], "the time of --minutes was over"),
        (
            [e for e in outcome["passed_over"] if e["promise_us"] <= noise_us],
            f"the ledger promises no more than the noise of {noise_us:,.2f} us",
        ),
    ):
        if left:
            yield ""
            names = "; ".join(f"{plan_text(e['candidate'])} ({e['promise_us']:,.2f} us)" for e in left)
            yield f"Not tried, since {why}: {_safe(names)}."


def _ledger(seen: Mapping[str, Any]) -> Iterator[str]:
    if seen["why"]:
        yield f"Not traced: {_safe(seen['why'])}. {seen['end_to_end_us']:,.2f} us an inference."
        return
    ledger = seen["ledger"]
    names = ledger["terms"]
    shown = [term for term in _TERMS if ledger["total"][term]]
    grown = ledger["inflation"]
    without = f"; {grown['unprofiled_us']:,.2f} us without it" if grown else ""
    said = f"End to end {ledger['end_to_end_us']:,.2f} us by the host's clock, traced by"
    yield f"{said} {_safe(seen['source'])}{without}."
    yield ""
    rows = [
        [
            row["node"] or "(no node)",
            *(f"{row['terms'][term]:,.2f}" for term in shown),
            short_name((row["kernels"] or [""])[0], TABLE_WIDTH),
        ]
        for row in ledger["rows"]
    ]
    rows.append(["sum", *(f"{ledger['total'][term]:,.2f}" for term in shown), ""])
    yield from _table(["node", *(names[term] + ", us" for term in shown), "kernel"], rows)
    if seen["timeline"]:
        yield ""
        yield f"The trace: {_code(seen['timeline'])} (lenet-trt report shows it)."
    for note in ledger["notes"]:
        yield ""
        yield f"Note: {_safe(note)}."


def _findings(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if found:
        yield ""
    for entry in found:
        evidence = _safe("; ".join(entry["evidence"]))
        yield f"- **{_safe(entry['title'])}**: {entry['recoverable_us']:,.1f} us. {evidence}."


def _accuracy(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    said = compared(found["error"], found["reference"])
    if found["labelled"]:
        said += f", {found['correct']} of {found['labelled']} right (before {found['plain_correct']})"
    return said


def _elsewhere(us: float | None) -> str:
    """Return what the untouched nodes cost more; the measured times contain it, and this text shows it alone."""
    return "" if us is None else f"; the nodes around it cost {us:+,.2f} us"


def _stats(entry: Mapping[str, Any], plan: object) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(times for times in entry["times"] if times["plan"] == plan)
    return found


def _interval(stats: Mapping[str, Any] | None) -> str:
    if stats is None:
        return ""
    return f"{stats['median_us']:,.2f} us [{stats['low_us']:,.2f}, {stats['high_us']:,.2f}]"


def _batch(batch: int | None) -> str:
    return "fixed" if batch is None else str(batch)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from markdown_table(heads, [[_safe(cell) for cell in row] for row in rows])


def _code(text: object) -> str:
    """Return text as code, where nothing is markup but the mark that ends it."""
    return "`" + " ".join(str(text).split()).replace("`", "'") + "`"


def _safe(text: object) -> str:
    """Return text of a model or trace without markup, line breaks and cell marks."""
    plain = " ".join(str(text).split())
    for mark in "\\`*_<>|[]":
        plain = plain.replace(mark, f"\\{mark}") if mark not in "<>" else plain
    return plain.replace("<", "&lt;").replace(">", "&gt;")
