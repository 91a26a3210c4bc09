"""Write the report as Markdown, for a pull request, an issue or a mail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lenet_trt.draw.text import (
    bytes_text,
    escape_markdown,
    flattened,
    markdown_code,
    ratio_text,
    share_text,
    time_text,
    us_text,
)
from lenet_trt.report.content import Content, change_verdict, report_headline, shown_terms, sizes_text
from lenet_trt.report.optimized import summary
from lenet_trt.text_table import markdown_table
from lenet_trt.trace import tables as table_parts
from lenet_trt.trace.findings import none_found
from lenet_trt.trace.ledger import TERMS

# This comment says which program made the document; rendered Markdown does not show it.
MARK = "<!-- made by lenet-trt report -->"
# The most rows of a table that people read in a pull request.
_MOST_ROWS = 30


def document(content: Content) -> str:
    """Return the whole report."""
    parts = [
        f"# {escape_markdown(content.model)} on {escape_markdown(content.gpu)}: where the time goes",
        escape_markdown(report_headline(content)),
        *_inflation(content),
        "## Findings",
        *_findings(content),
        "## Ledger",
        *_ledger(content),
        *_comparison(content),
        *_optimized(content),
        "## Roofline",
        *_roofline(content),
        "## Kernels and calls",
        table_parts.tables_markdown(content.run.tables, _MOST_ROWS).rstrip(),
        "## Environment and commands",
        *_environment(content),
    ]
    parts[0] += f"\n\n{MARK}"
    return "\n\n".join(parts) + "\n"


def _inflation(content: Content) -> list[str]:
    grown = content.run.ledger.inflation
    if grown is None:
        return ["What the profiler added is not known: no inference was timed without it."]
    return [f"Without the profiler it takes {time_text(grown.unprofiled_us)}: the trace is {100 * grown.share:+.1f}%."]


def _findings(content: Content) -> list[str]:
    unjudged = content.run.not_judged
    parts = [] if content.run.findings else [none_found(unjudged)]
    for number, entry in enumerate(content.run.findings, 1):
        where = f" at {markdown_code(entry.node)}" if entry.node else ""
        lines = [f"{number}. **{escape_markdown(entry.title)}**{where}: {time_text(entry.recoverable_us)}"]
        lines += [f"   - {escape_markdown(line)}" for line in entry.evidence]
        lines.append(f"   - Do: {escape_markdown(entry.advice)}")
        parts.append("\n".join(lines))
    return [*parts, *(["\n".join(f"- Not judged: {escape_markdown(line)}" for line in unjudged)] if unjudged else [])]


def _ledger(content: Content) -> list[str]:
    found = content.run.ledger
    whole = found.end_to_end_us
    rows = [(TERMS[term], getattr(found.total, term)) for term in shown_terms([content.run])]
    terms = _table(
        ("Term", "us", "Share"),
        [(name, us_text(us), share_text(us / whole if whole else 0.0)) for name, us in (*rows, ("end to end", whole))],
    )
    shown = shown_terms([content.run])
    nodes = _table(
        ("Node", "Operator", "us", *(TERMS[term] for term in shown), "Launches"),
        [
            (
                markdown_code(row.node) if row.node is not None else "no node",
                escape_markdown(row.op),
                us_text(row.terms.total_us),
                *(us_text(getattr(row.terms, term)) for term in shown),
                f"{row.launches:.3g}",
            )
            for row in found.rows
        ],
    )
    return [terms, nodes, *(f"Note: {escape_markdown(note)}" for note in found.notes)]


def _comparison(content: Content) -> list[str]:
    if content.before is None:
        return []
    tables = [
        _table(
            (first, "Before (us)", "Now (us)", "Difference (us)"),
            [
                (name(one.name), us_text(one.before_us), us_text(one.now_us), f"{one.difference_us:+,.2f}")
                for one in changes
            ],
        )
        for first, name, changes in (
            ("Term", escape_markdown, content.term_changes()),
            ("Node", markdown_code, content.node_changes()),
        )
    ]
    return ["## Before and after", escape_markdown(change_verdict(content)), *tables]


def _optimized(content: Content) -> list[str]:
    if content.optimized is None:
        return []
    lines, said = summary(content.optimized)
    return ["## Optimisation", "\n".join(f"- {escape_markdown(line)}" for line in lines), escape_markdown(said)]


def _roofline(content: Content) -> list[str]:
    points = content.roofline()
    if not points:
        why = content.missing.get("roofline", "no node of the trace has work that is known")
        return [f"Not known: {escape_markdown(why)}."]
    rows = [
        (
            markdown_code(one.node),
            one.arithmetic,
            bytes_text(one.bytes),
            f"{one.flops:,}",
            us_text(one.needed_us),
            us_text(one.taken_us),
            ratio_text(one.taken_us / one.needed_us) if one.needed_us else "",
            one.bound,
        )
        for one in points
    ]
    heads = ("Node", "Arithmetic", "Bytes", "Operations", "Needs (us)", "Took (us)", "Times the floor", "Bound by")
    return [_table(heads, rows), f"Ceilings: {escape_markdown(content.run.ledger.floor_from or '')}."]


def _environment(content: Content) -> list[str]:
    timeline = content.run.timeline
    facts = {
        "model": timeline.model,
        "model SHA-256": timeline.model_sha256,
        "sizes": sizes_text(timeline.sizes),
        "runtime": timeline.runtime,
        "traced by": timeline.source,
        **flattened(timeline.environment),
    }
    lines = [f"- {escape_markdown(name)}: {escape_markdown(value)}" for name, value in facts.items() if value]
    lines += [f"- command: {markdown_code(command)}" for command in content.commands]
    return ["\n".join(lines), *(f"Note: {escape_markdown(note)}" for note in timeline.notes)]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(markdown_table(heads, rows))
