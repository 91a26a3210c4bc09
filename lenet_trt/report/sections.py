"""Make the sections of the page from the report's content."""

from __future__ import annotations

from collections.abc import Sequence

from lenet_trt.draw.elements import Markup, element, joined_markup, kernel_name, node_code
from lenet_trt.draw.text import bytes_text, flattened, ratio_text, share_text, time_text, us_text, visible
from lenet_trt.report.content import Content, TracedRun, change_verdict, report_headline, shown_terms, sizes_text
from lenet_trt.report.figures import COLOURS, meter, rate_text, roofline_svg, stacked_bar, swatch
from lenet_trt.report.grids import Cell, GridColumn, grid
from lenet_trt.trace.findings import none_found
from lenet_trt.trace.ledger import TERMS
from lenet_trt.trace.tables import TimeTable


def section(ident: str, title: str, *children: object, says: object = None) -> Markup:
    """Make a landmark with its heading and one sentence on what it shows."""
    return element(
        "section",
        element("h2", title, id=f"{ident}-title"),
        element("p", says, class_="says") if says else None,
        children,
        id=ident,
        aria_labelledby=f"{ident}-title",
    )


def missing(text: str) -> Markup:
    """Make the text that says why something is not shown."""
    return element("p", text, class_="missing")


def top_section(content: Content) -> Markup:
    """Make the headline: what was traced, in a sentence, and the most important numbers."""
    timeline = content.run.timeline
    facts = [content.gpu, timeline.runtime and f"runtime {timeline.runtime}", sizes_text(timeline.sizes)]
    return element(
        "header",
        element("p", "Where the time goes", class_="eyebrow"),
        element("h1", element("bdi", content.model), " on ", element("bdi", content.gpu)),
        element("p", report_headline(content), class_="lead"),
        element("p", change_verdict(content), class_="lead") if content.before else None,
        element("dl", _tiles(content), class_="tiles"),
        element("p", " \u00b7 ".join(str(fact) for fact in facts if fact), class_="visually-hidden"),
        class_="top wrap",
    )


def _tiles(content: Content) -> list[Markup]:
    ledger, floor = content.run.ledger, content.floor_us
    spread = f"mean of the middle {len(ledger.used)} of {ledger.iterations} inferences"
    tiles = [_tile("End to end", time_text(ledger.end_to_end_us), spread)]
    if floor:
        tiles.append(_tile("Floor of the hardware", time_text(floor), ledger.floor_from or ""))
        above = ledger.end_to_end_us - floor
        tiles.append(_tile("Distance", ratio_text(ledger.end_to_end_us / floor), f"{time_text(above)} above the floor"))
    else:
        tiles.append(_tile("Floor of the hardware", "unknown", "the section Roofline says why"))
    count = len(content.run.findings)
    won = f"{time_text(content.recoverable_us)} could be won back" if count else ""
    unjudged = "not everything could be judged" if content.run.not_judged else "" if count else "nothing worth a change"
    tiles.append(_tile("Findings", str(count), "; ".join(filter(None, (won, unjudged)))))
    if ledger.inflation:
        grown = ledger.inflation
        share = f"{100 * grown.share:+.1f}%".replace("-", "\u2212")
        tiles.append(_tile("Profiler inflation", share, f"without it {time_text(grown.unprofiled_us)}"))
    else:
        tiles.append(_tile("Profiler inflation", "unknown", "no inference was timed without the profiler"))
    return tiles


def _tile(label: str, value: str, more: str) -> Markup:
    return element(
        "div", element("dt", label), element("dd", value, class_="value"), element("dd", more, class_="more")
    )


def findings_section(content: Content) -> Markup:
    """List what could be won back, the largest first."""
    says = "What could be won back, the largest first. No two findings claim the same time."
    found, unjudged = content.run.findings, content.run.not_judged
    blind = [element("p", f"Not judged: {line}.", class_="note") for line in unjudged]
    if not found:
        return section("findings", "Findings", missing(none_found(unjudged)), blind)
    items = [
        element(
            "li",
            element(
                "h3",
                element("span", entry.title, class_="what"),
                element("span", time_text(entry.recoverable_us), class_="gain"),
            ),
            element(
                "dl",
                (element("dt", "Where"), element("dd", node_code(entry.node))) if entry.node else None,
                element("dt", "Evidence"),
                element("dd", [element("div", line) for line in entry.evidence]),
                element("dt", "Do"),
                element("dd", entry.advice),
            ),
        )
        for entry in found
    ]
    return section("findings", "Findings", element("ol", items, class_="findings"), blind, says=says)


def ledger_section(content: Content) -> Markup:
    """Show the ledger as a bar, its terms as a table, and the same for each node."""
    run = content.run
    found = run.ledger
    notes = [element("p", note, class_="note") for note in found.notes]
    return section(
        "ledger",
        "Ledger",
        stacked_bar(found, "Ledger"),
        _terms_table(content),
        _reasons(run),
        element("h3", "By node"),
        _nodes_table(run),
        notes,
        says="Every moment of an inference belongs to one term and one node; the terms add up to the whole.",
    )


def _terms_table(content: Content) -> Markup:
    found = content.run.ledger
    columns = [
        GridColumn("Term", head=True),
        GridColumn("Time (\u00b5s)", True),
        GridColumn("Share", True),
        GridColumn("What it is"),
    ]
    rows = []
    for term in shown_terms([content.run]):
        value = getattr(found.total, term)
        share = value / found.end_to_end_us if found.end_to_end_us else 0.0
        label = joined_markup([swatch(COLOURS[term]), TERMS[term]])
        rows.append([Cell(label), Cell(us_text(value), value), Cell(share_text(share), share), Cell(_MEANING[term])])
    whole = found.end_to_end_us
    total = [Cell("end to end"), Cell(us_text(whole), whole), Cell(share_text(1.0), 1.0), Cell("")]
    return grid("Terms of one inference", columns, rows, total=total, sortable=False)


_HEADS = {
    "floor_us": "Floor",
    "inefficiency_us": "Inefficiency",
    "unjudged_us": "No floor",
    "copies_us": "Copies",
    "launch_gaps_us": "Gaps",
    "host_enqueue_us": "Host",
    "residual_us": "Residual",
}
_MEANING = {
    "floor_us": "what the hardware needs for the kernels' work",
    "inefficiency_us": "what the kernels took beyond the floor",
    "unjudged_us": "time in kernels whose floor is not known",
    "copies_us": "moving and converting data, without computing",
    "launch_gaps_us": "the GPU waits between pieces of submitted work",
    "host_enqueue_us": "the GPU waits for the host to submit work",
    "residual_us": "what no other term explains",
}


def _reasons(run: TracedRun) -> Markup | None:
    if not run.ledger.residual:
        return None
    parts = ", ".join(f"{why} {time_text(us)}" for why, us in run.ledger.residual.items())
    return element("p", f"In the residual: {parts}.", class_="says")


def _nodes_table(run: TracedRun) -> Markup:
    terms = shown_terms([run])
    columns = [GridColumn("Node", head=True, name=True), GridColumn("Operator"), GridColumn("Time (\u00b5s)", True)]
    columns += [GridColumn(_HEADS[term], True) for term in terms]
    columns += [GridColumn("Launches", True), GridColumn("Kernels", name=True)]
    rows = []
    for row in run.ledger.rows:
        node = node_code(row.node) if row.node is not None else "no node"
        cells = [Cell(node), Cell(row.op), Cell(us_text(row.terms.total_us), row.terms.total_us)]
        cells += [
            Cell(us_text(value) if value else "", value) for term in terms for value in [getattr(row.terms, term)]
        ]
        cells += [Cell(f"{row.launches:.3g}" if row.launches else "", row.launches)]
        rows.append([*cells, Cell(joined_markup(_kernels(row.kernels)))])
    total = [Cell("sum"), Cell(""), Cell(us_text(run.ledger.end_to_end_us), run.ledger.end_to_end_us)]
    total += [Cell(us_text(value), value) for term in terms for value in [getattr(run.ledger.total, term)]]
    return grid(
        "Terms by node, in microseconds", columns, rows, total=[*total, Cell(""), Cell("")], ident="nodes-table"
    )


def _kernels(names: Sequence[str]) -> list[Markup]:
    from lenet_trt.trace.kernel_names import short_name

    shown = [element("span", short_name(name), class_="kernel-name", title=visible(name)) for name in names[:2]]
    return [*shown, element("span", f"and {len(names) - 2} more", class_="soft")] if len(names) > 2 else shown


def roofline_section(content: Content) -> Markup:
    """Show how much of the GPU's ability each node reached."""
    title, ceilings = "Roofline", content.ceilings
    points = content.roofline()
    if ceilings is None or not points:
        why = content.missing.get("roofline", "no node of the trace has work that is known")
        return section("roofline", title, missing(f"Not known: {why}."))
    columns = [
        GridColumn("Node", head=True, name=True),
        GridColumn("Operator"),
        GridColumn("Arithmetic"),
        GridColumn("Bytes", True),
    ]
    columns += [GridColumn("Operations", True), GridColumn("Op/B", True), GridColumn("Needs (\u00b5s)", True)]
    columns += [GridColumn("Took (\u00b5s)", True), GridColumn("Times the floor", True), GridColumn("Bound by")]
    rows = [
        [
            Cell(node_code(point.node)),
            Cell(point.op),
            Cell(point.arithmetic),
            Cell(bytes_text(point.bytes), point.bytes),
            Cell(f"{point.flops:,}", point.flops),
            Cell(f"{point.intensity:.3g}", point.intensity),
            Cell(us_text(point.needed_us), point.needed_us),
            Cell(us_text(point.taken_us), point.taken_us),
            Cell(ratio_text(1 / point.reached) if point.reached else "", 1 / point.reached if point.reached else None),
            Cell(point.bound),
        ]
        for point in points
    ]
    source = "measured on it" if ceilings.source == "measured" else "from its data sheet, not measured"
    says = f"The roofs are of {ceilings.gpu}, {source}. A dashed line shows how far a node is from its roof."
    picture = roofline_svg(points, ceilings)
    return section(
        "roofline",
        title,
        picture or missing("No node of the trace does arithmetic, so there is no picture."),
        grid("Nodes and their floors", columns, rows, ident="roofline-table"),
        element("p", _ceilings_text(content), class_="says"),
        says=says,
    )


def _ceilings_text(content: Content) -> str:
    found = content.ceilings
    assert found is not None
    rates = ", ".join(f"{name} {rate_text(rate)}" for name, rate in found.flop_per_s.items())
    return (
        f"Ceilings: read {found.read_bytes_per_s / 1e12:.3g} TB/s, write {found.write_bytes_per_s / 1e12:.3g} TB/s, "
        f"copy {found.copy_bytes_per_s / 1e12:.3g} TB/s; {rates}; "
        f"launch {time_text(found.launch_us) if found.launch_us else 'not known'}. "
        "The arithmetic split reaches float accuracy with fp16 tensor cores, by three products for each product."
    )


def activity_section(content: Content) -> Markup:
    """Show GPU activities and API calls, as profilers do."""
    found = content.run.tables
    says = f"Everything that belongs to the {found.iterations} traced inferences."
    if found.left_out:
        says += f" {found.left_out:,} events outside of inferences are left out."
    parts = [_activity_table(found.gpu, "gpu-table"), _activity_table(found.api, "api-table")]
    return section("tables", "Kernels and calls", *parts, says=says)


def _activity_table(table: TimeTable, ident: str) -> Markup:
    if not table.rows:
        return joined_markup([element("h3", table.title), missing("The trace has none.")])
    columns = [
        GridColumn("Time %", True),
        GridColumn("Time (\u00b5s)", True),
        GridColumn("Calls", True),
        GridColumn("Average", True),
    ]
    columns += [GridColumn("Minimum", True), GridColumn("Maximum", True), GridColumn("Name", head=True, name=True)]
    rows = [
        [
            Cell(joined_markup([f"{row.percent:.1f}%", meter(row.percent / 100)]), row.percent),
            Cell(us_text(row.total_us), row.total_us),
            Cell(f"{row.calls:,}", row.calls),
            *(Cell(us_text(us), us) for us in (row.average_us, row.minimum_us, row.maximum_us)),
            Cell(kernel_name(row.name, row.full_name)),
        ]
        for row in table.rows
    ]
    long = any(row.name != row.full_name or len(row.name) > 60 for row in table.rows)
    button = element("button", "Whole names", type="button", data_whole=ident, aria_pressed="false", hidden=True)
    caption = f"{len(table.rows):,} names, {us_text(table.total_us)} \u00b5s in all"
    shown = grid(caption, columns, rows, sorted_by=1, ident=ident, wide=True)
    return joined_markup([element("h3", table.title), element("div", button, class_="tools") if long else None, shown])


def environment_section(content: Content) -> Markup:
    """Show on what the run was measured, and how to repeat it."""
    timeline = content.run.timeline
    facts = {
        "model": timeline.model or content.model_file or "not said",
        "model SHA-256": timeline.model_sha256 or "not said",
        "sizes": sizes_text(timeline.sizes),
        "runtime": timeline.runtime or "not said",
        "traced by": timeline.source,
        **_written_out(flattened(timeline.environment)),
    }
    return section(
        "environment",
        "Environment and commands",
        element("dl", _facts(facts), class_="facts"),
        element("h3", "Commands"),
        [element("pre", element("code", command)) for command in content.commands]
        or missing("The trace does not say which command made it."),
        [element("p", note, class_="note") for note in timeline.notes],
    )


def _written_out(facts: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", " "): value for name, value in facts.items()}


def _facts(facts: dict[str, str]) -> Sequence[Markup]:
    return [part for name, value in facts.items() if value for part in (element("dt", name), element("dd", value))]
