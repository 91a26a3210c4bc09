"""The page that a folder of records makes: nothing is in it that is not in the records.

python -m lenet_trt.bench.page docs/results/h200 -o docs/results.md --pictures docs/images
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lenet_trt.bench.gains import Measured, display_name, workloads
from lenet_trt.bench.goals import GPU_OF_GOALS, HOST_US, RUNTIME_US, Goal, Where, goals, quotations
from lenet_trt.bench.prose import METHOD, TEXTS
from lenet_trt.bench.record import Record, Row, load_record
from lenet_trt.bench.suites import SUITES, notes, suite
from lenet_trt.bench.tables import duration, markdown, quoted, standard_columns, warnings
from lenet_trt.draw.charts import MARK, render
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import write_atomic
from lenet_trt.overwrite import add_overwrite, guard, says

# As a page tells them: first what a reader came for.
ORDER = ("10k", "sweep", "kernels", "ladder", "cold", "occupancy")
# The README shows this one first.
PICTURES = {"sweep": "lenet5_sweep.svg"}
# Longer tables are folded up.
_LONG = 30

Records = Mapping[str, Record]


def read(folder: Path) -> dict[str, Record]:
    """The records of a folder by suite, in the page's order.

    Raises:
        LenetTrtError: there is none, one is damaged, or they are from different machines.
    """
    found = {name: load_record(folder / f"{name}.json") for name in ORDER if (folder / f"{name}.json").is_file()}
    if not found:
        raise LenetTrtError(f"{folder} has no record of {', '.join(ORDER)}: lenet-trt bench all -o {folder}")
    machines = {str(record.gpu or record.environment.get("cpu")) for record in found.values()}
    if len(machines) > 1:
        raise LenetTrtError(f"{folder} has records from {' and '.join(sorted(machines))}: a page is about one machine")
    return found


def pictures(records: Records) -> dict[str, bytes]:
    """The pictures by file name; suites without a point have none."""
    made = {}
    for name, record in records.items():
        charts = suite(name).charts(record)
        if charts:
            made[picture_of(name)] = render(charts, "svg")
    return made


# How the page says what made it.
PAGE_MARK = "The page, its pictures and every figure in it are made from the records; edit none by hand."


def picture_of(name: str) -> str:
    """The file that a suite's picture is in."""
    return PICTURES.get(name, f"bench_{name}.svg")


def page(records: Records, drawn: Sequence[str], folder: str, command: str, images: str) -> str:
    """The page in Markdown.

    ``folder`` has the records, ``command`` makes the page from them; ``drawn`` are the pictures that there are, and
    ``images`` is the folder that they are in, as seen from the page.
    """
    first = next(iter(records.values()))
    lines = [
        f"# Measured on one {first.gpu or first.environment.get('cpu')}",
        "",
        f"{_which(records)} of `lenet-trt bench`. {PAGE_MARK}",
        "",
        "```console gpu",
        *(f"$ {typed} -o {folder}" for typed in _commands(records)),
        f"$ {command}",
        "```",
        "",
        *_machine(records),
        "",
        *_goals(records),
        *_write_ups(records),
        "## How times are taken",
        "",
        *METHOD.format(**{"rounds": 0, "burst": 0, **first.plan}).splitlines(),
        "",
    ]
    for name, record in records.items():
        lines += _section(name, record, f"{images}/{picture_of(name)}" if picture_of(name) in drawn else None)
    return "\n".join(lines).rstrip() + "\n"


def _which(records: Records) -> str:
    missing = [name for name in ORDER if name not in records]
    return f"The suites {', '.join(records)} ({', '.join(missing)}: no record here)" if missing else "All suites"


def _commands(records: Records) -> Iterator[str]:
    """What was typed; suites that were measured with the same options in one command."""
    by_options: dict[str, list[str]] = {}
    for name, record in records.items():
        by_options.setdefault(record.command.replace(f" {name}", " {}", 1), []).append(name)
    for typed, names in by_options.items():
        yield typed.replace("{}", " ".join(names))


def _machine(records: Records) -> Iterator[str]:
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
        yield f"- The GPU's clock, read between the timings and set by nobody: {span} MHz."
    for commit in dict.fromkeys(record.commit for record in records.values()):
        told = f"At commit `{commit}`" if commit else "Not in a git checkout"
        same = [f"{name} {r.date} ({r.seconds:.0f} s)" for name, r in records.items() if r.commit == commit]
        yield f"- {told}: {', '.join(same)}."


def _goals(records: Records) -> Iterator[str]:
    """What was to be reached, and what was."""
    if "kernels" not in records:
        return
    measured = {workload.name: workload for workload in workloads(records["kernels"])}
    wanted = goals()
    rows = [(wanted[name], workload) for name, workload in measured.items() if name in wanted]
    if not rows:
        return
    yield "## In short"
    yield ""
    yield f"The goals are those set for an {GPU_OF_GOALS} before the kernels were written; the floor is the least time"
    yield "that bytes, arithmetic and launch allow; error is relative to float64. Bold: the goal is reached."
    yield ""
    yield "| workload | floor | ours | goal | best of torch | faster | goal | error |"
    yield "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |"
    for goal, workload in rows:
        yield _goal_line(goal, workload)
    yield ""
    yield from _runtime(records, measured)


def _goal_line(goal: Goal, workload: Measured) -> str:
    ours = workload.product
    peer = workload.best_peer
    asked = peer if goal.peer is None else next((row for row in workload.main if row.backend == goal.peer), None)
    if ours is None or ours.stats is None:
        return f"| {workload.title} | {duration(workload.floor_us)} | - | {duration(goal.us)} | - | - | - | - |"
    us = ours.stats.median_us
    named = f"{peer.backend}: {duration(peer.stats.median_us)}" if peer and peer.stats else "-"
    times, wanted = "-", f"{goal.times:g}x"
    if asked is not None and asked.stats is not None:
        factor = asked.stats.median_us / us
        times = _reached(f"{factor:.2f}x", factor >= goal.times)
    if goal.peer is not None:
        wanted += f" {goal.peer}"
    error = ours.extra.get("error")
    return (
        f"| {workload.title} | {duration(workload.floor_us)} | {_reached(duration(us), us <= goal.us)} "
        f"| {duration(goal.us)} | {named} | {times} | {wanted} | {'-' if error is None else f'{error:.1e}'} |"
    )


def _reached(text: str, reached: bool) -> str:
    return f"**{text}**" if reached else f"{text} (missed)"


def _runtime(records: Records, measured: Mapping[str, Measured]) -> Iterator[str]:
    """The goal for a network inside the runtime."""
    kernel = measured["lenet5 fp32 n=1"].product if "lenet5 fp32 n=1" in measured else None
    row = records["sweep"].find("lenet5 kernel", batch=1) if "sweep" in records else None
    alone = row.extra.get("gpu_alone") if row else None
    if kernel is None or kernel.stats is None or row is None or row.stats is None or not alone:
        return
    gpu_us = float(alone["median_us"])
    more_us, host_us = gpu_us - kernel.stats.median_us, row.stats.median_us - gpu_us
    yield (
        f"One image inside the `graph` runtime takes the GPU {duration(gpu_us)} (the sweep), the bare kernel's replay "
        f"{duration(kernel.stats.median_us)} (the kernels): {_within(more_us, RUNTIME_US)} that the runtime may add. "
        f"Whoever waits for the answer waits {duration(row.stats.median_us)}: {_within(host_us, HOST_US)} that the "
        "host may add."
    )
    yield ""


def _within(us: float, goal_us: float) -> str:
    more = f"{us:.2f} us more" if us > 0 else "no longer"
    return f"{more}, {'within' if us <= goal_us else 'beyond'} the {goal_us:g} us"


def _write_ups(records: Records) -> Iterator[str]:
    """The write-ups' figures beside those of today."""
    rows = [(entry, _row(records, entry.same), _row(records, entry.ours)) for entry in quotations()]
    if not any(same or ours for _, same, ours in rows):
        return
    yield "## Beside the write-ups"
    yield ""
    yield "The figures of the write-ups that this project began with are quoted, not measured here, and come from"
    yield "other machines: they say where the story starts."
    yield ""
    yield "| write-up | what | its time | its GPU | the same here | ours |"
    yield "| ---: | --- | ---: | --- | --- | --- |"
    for entry, same, ours in rows:
        yield (
            f"| {entry.write_up} | {entry.what} | {quoted(entry.us)} | {entry.gpu} "
            f"| {_cell(same)}{f'; {entry.note}' if entry.note else ''} | {_cell(ours)} |"
        )
    yield ""


def _row(records: Records, where: Where) -> Row | None:
    return records[where.suite].find(where.backend, **dict(where.case)) if where.suite in records else None


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    return f"{row.backend.partition(': ')[2] or row.backend}: " + (
        duration(row.stats.median_us) if row.stats else "no time"
    )


def _section(name: str, record: Record, picture: str | None) -> Iterator[str]:
    title, text = TEXTS[name]
    yield f"## {title}"
    yield ""
    yield from text.strip().splitlines()
    yield ""
    if picture:
        summary = SUITES[name][1]
        yield f"![{summary[:1].upper()}{summary[1:]}]({picture})"
        yield ""
    said = [*notes(name, record), *(f"Take care: {warning}." for warning in warnings(record))]
    if said:
        yield from (f"- {sentence}" for sentence in said)
        yield ""
    module = suite(name)
    columns = module.columns(record) if hasattr(module, "columns") else standard_columns(record)
    rows = [row for row in record.rows if row.stats is not None]
    lines = markdown(rows, columns) if rows else []
    if len(rows) > _LONG:
        yield from ("<details>", f"<summary>All {len(rows)} rows</summary>", "", *lines, "", "</details>")
    else:
        yield from lines
    yield ""
    missing: dict[str, list[str]] = {}
    for row in record.rows:
        if row.stats is None and "source" not in row.extra:  # what a write-up says is shown beside today's figures
            named = f"{display_name(row)} ({row.where})" if row.case else display_name(row)
            missing.setdefault(row.why or "", []).append(named)
    if missing:
        yield "Without a time:"
        yield ""
        yield from (f"- {'; '.join(named)}: {why}" for why, named in missing.items())
        yield ""


def files(folder: Path, output: Path, image_folder: Path, command: str) -> dict[Path, bytes]:
    """Everything that is made from a folder of records, and what is in it."""
    records = read(folder)
    drawn = pictures(records)
    images = os.path.relpath(image_folder, output.parent)
    text = page(records, list(drawn), folder.as_posix(), command, images)
    return {output: text.encode(), **{image_folder / name: content for name, content in drawn.items()}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page and its pictures, and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR", help="where lenet-trt bench -o put its records")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.md", help="the page (default: DIR/README.md)")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="the pictures' folder (default: the page's)")
    add_overwrite(parser)
    chosen = parser.parse_args(arguments)
    output = chosen.output or chosen.folder / "README.md"
    given = sys.argv[1:] if arguments is None else arguments
    words = [word for word in given if word != "--overwrite"]  # it says nothing of what the page is
    command = shlex.join(["python", "-m", "lenet_trt.bench.page", *words])
    try:
        made = files(chosen.folder, output, chosen.pictures or output.parent, command)
        guard({path: says(PAGE_MARK if path == output else MARK) for path in made}, [], chosen.overwrite)
        for path, content in made.items():
            write_atomic(path, content)
            print(path)
    except LenetTrtError as error:
        print(f"lenet_trt.bench.page: error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
