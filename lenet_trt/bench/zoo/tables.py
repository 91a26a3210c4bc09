"""Make the tables of the suite ``zoo``: a row a measurement, and what all networks lose together, by kind and cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.tables import Column, Summary, duration
from lenet_trt.cuda.statistics import Stats
from lenet_trt.errors import LenetTrtError

TENSORRT, PLUGINS = "TensorRT", "TensorRT, our plugins"
_LARGEST = 20
_LONGEST_NAME = 60
_WRONG = "its results are wrong"


def notes(tool: str | None) -> list[str]:
    """Return what the figures are."""
    by = "" if tool is None else f", by {tool}"
    return [
        f"Times are the GPU's for one inference{by} with a CUDA graph and no copies; each batch and precision has an "
        "engine of its own. Layers were timed by the profiler in a second run; what it adds is shared out over them "
        "and left out. What a layer could recover is its time less its floor; of a reformat, all its time. The error "
        "is against ONNX Runtime in float. A time without an interval is the median of one trace."
    ]


def columns(record: Record) -> list[Column]:
    """Return the columns: network, batch, precision, backend, time, floor, reformats, regions, build."""
    return [
        Column("network", lambda row: str(row.case["network"]), left=True),
        Column("batch", lambda row: str(row.case.get("batch", "-"))),
        Column("precision", lambda row: str(row.case["precision"]), left=True),
        Column("backend", lambda row: row.backend, left=True),
        Column("median", lambda row: _us(_time_us(row))),
        Column(
            "95% interval",
            lambda row: f"{duration(row.stats.low_us)} to {duration(row.stats.high_us)}" if row.stats else "-",
        ),
        Column("layers", lambda row: str(row.extra.get("layers", "-"))),
        Column("sum of layers", lambda row: _us(row.extra.get("layers_us"))),
        Column("floor", lambda row: _us(row.extra.get("floor_us", row.extra.get("needed_us")))),
        Column("reformats", lambda row: _part(row.extra.get("reformats"))),
        Column("Myelin regions", lambda row: _part(row.extra.get("regions"))),
        Column("error", _error),
        Column("build", lambda row: f"{row.extra['build_seconds']:.0f} s" if "build_seconds" in row.extra else "-"),
    ]


def summaries(record: Record) -> Iterator[Summary]:
    """Yield what was lost over all networks, the largest losses, and what was built or calculated without a GPU."""
    record = _of_right_engines(record)
    accounts = [row for row in record.rows if "kinds" in row.extra]
    traced = [row for row in accounts if row.backend == TENSORRT]
    if fused := [row for row in accounts if row.backend == PLUGINS]:
        yield _gains(record, fused)
    if traced:
        yield _sums(traced, "kinds", "Kinds of layers over all networks, by recoverable time", "kind")
        yield _sums(traced, "causes", "Causes over all networks", "cause")
        yield _largest(traced)
    built = [row for row in record.rows if "floors" in row.extra]
    if built:
        yield _builds(built)
        for gpu in dict.fromkeys(gpu for row in built for gpu in row.extra["floors"]):
            yield _floors(built, gpu)


def _of_right_engines(record: Record) -> Record:
    """Return the record without the times of wrong engines: that of another computation says nothing of the network.

    An engine whose results were not compared is as right as the network's engine of another batch.
    """
    seen_wrong = {_engine(row) for row in record.rows if row.extra.get("right") is False}
    untimed: dict[str, Any] = {"stats": None, "extra": {}, "why": _WRONG}

    def is_wrong(row: Row) -> bool:
        return not row.extra["right"] if "right" in row.extra else _engine(row) in seen_wrong

    return replace(record, rows=tuple(replace(row, **untimed) if is_wrong(row) else row for row in record.rows))


def _engine(row: Row) -> tuple[str, int | str, int | str]:
    return row.backend, row.case["network"], row.case["precision"]


def _gains(record: Record, fused: Sequence[Row]) -> Summary:
    """Compare the engines with our plugins with those of TensorRT's own layers, the largest gain first."""
    pairs = [(record.find(TENSORRT, **row.case), row) for row in fused]
    timed = [
        (plain_us / ours_us, plain, ours, plain_us, ours_us)
        for plain, ours in pairs
        if plain and (plain_us := _time_us(plain)) and (ours_us := _time_us(ours))
    ]
    lines = [
        [
            ours.where,
            duration(plain_us),
            duration(ours_us),
            f"{times:.2f}",
            _verdict(plain.stats, ours.stats),
            ", ".join(f"{count} {kernel}" for kernel, count in ours.extra["plugins"].items()),
        ]
        for times, plain, ours, plain_us, ours_us in sorted(timed, key=lambda one: -one[0])
    ]
    headings = ("engine", TENSORRT, "our plugins", "times", "faster", "plugins")
    return Summary("With the plugins of --plugins auto", headings, lines, headings[1:4])


def by_network(
    record: Record, chosen: Sequence[str] = (), *, backend: str = TENSORRT, precision: str | None = None
) -> tuple[list[str], list[list[str]]]:
    """Return headings and a line a network, with the time of each case: by TensorRT's own layers and with our plugins.

    ``chosen`` names networks; none means all that have a time. A cell with one time has no plugin in its engine;
    "wrong" stands for the time of an engine of TensorRT's own layers whose results are wrong.
    ``backend``: another one; its times stand alone. ``precision``: the one to show; None means all.

    Raises:
        LenetTrtError: a name is no network of the record; lists those that are.
    """
    right = _of_right_engines(record)
    timed = {
        tuple(row.case.values()): cell
        for row in right.rows
        if row.backend == backend and precision in (None, row.case["precision"]) and (cell := _cell(row, right))
    }
    networks = list(dict.fromkeys(str(network) for network, *_ in timed))
    if unknown := [name for name in chosen if name not in networks]:
        raise LenetTrtError(f"{backend} has no times of {unknown[0]!r}; it has those of {', '.join(networks)}")
    cases = sorted({(batch, precision) for _, batch, precision in timed}, key=lambda case: int(case[0]))
    cases.sort(key=lambda case: str(case[1]), reverse=True)  # fp32 first, as everywhere
    keys = {name: [(name, *case) for case in cases] for name in chosen or networks}
    lines = [[name, *(timed.get(key, "-") for key in mine)] for name, mine in keys.items()]
    return ["network", *(f"{precision}, batch {batch}" for batch, precision in cases)], lines


def _cell(before: Row, record: Record) -> str | None:
    """Return the time of an engine, and that with our plugins; None where there is none, or our engine failed."""
    after = record.find(PLUGINS, **before.case) if before.backend == TENSORRT else None
    was, now = _time_us(before), None if after is None else _time_us(after)
    if after is None:
        return None if was is None else duration(was)
    if now is None:
        return None
    if was is None:
        return f"wrong to {duration(now)}" if before.why == _WRONG else None
    return f"{duration(was)} to {duration(now)} ({was / now:.2f}x)"


def _time_us(row: Row) -> float | None:
    """Return the median of all runs; where they were not kept, that of the traced one."""
    return row.stats.median_us if row.stats else row.extra.get("traced_us")


def _verdict(before: Stats | None, after: Stats | None) -> str:
    if before is None or after is None:
        return "no interval"
    if after.high_us < before.low_us:
        return "yes"
    return "no: slower" if after.low_us > before.high_us else "no: within the noise"


def _sums(rows: Sequence[Row], key: str, title: str, heading: str) -> Summary:
    """Add up a value of all rows; networks with long times must not hide the others, so shares are shown too."""
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    shares: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, part in row.extra[key].items():
            for figure, value in part.items():
                sums[name][figure] += value
            shares[name].append(part["recoverable_us"] / row.extra["layers_us"])
    lines = [
        [
            name,
            f"{one['layers']:.0f}",
            str(len(shares[name])),
            duration(one["us"]),
            duration(one["floor_us"]),
            duration(one["recoverable_us"]),
            f"{sum(shares[name]) / len(rows):.1%}",
        ]
        for name, one in sorted(sums.items(), key=lambda entry: -entry[1]["recoverable_us"])
    ]
    headings = (heading, "layers", "engines", "time", "floor", "recoverable", "mean share of an engine")
    return Summary(title, headings, lines, headings[1:])


def _largest(rows: Sequence[Row]) -> Summary:
    layers = [(row, layer) for row in rows for layer in row.extra["top"]]
    layers.sort(key=lambda pair: -pair[1]["recoverable_us"])
    lines = [
        [
            row.where,
            _short(layer["layer"]),
            layer["kind"],
            layer["shapes"],
            duration(layer["us"]),
            _us(layer["floor_us"]),
            duration(layer["recoverable_us"]),
            layer["cause"],
        ]
        for row, layer in layers[:_LARGEST]
    ]
    headings = ("engine", "layer", "kind", "shapes", "time", "floor", "recoverable", "cause")
    return Summary(f"The {len(lines)} layers with the most to recover", headings, lines, headings[4:7])


def _builds(rows: Sequence[Row]) -> Summary:
    """Tell of each network what was exported, and how it builds in each precision."""
    networks = {str(row.case["network"]): row.extra for row in rows}
    precisions = list(dict.fromkeys(str(row.case["precision"]) for row in rows))
    built = {(row.case["network"], row.case["precision"]): _built(row) for row in rows}
    lines = [
        [
            name,
            str(facts["about"]),
            str(facts["onnx_nodes"]),
            str(facts["operators"]),
            f"{facts['error']:.1e}" if facts.get("error") is not None else "-",
            ", ".join(f"{count} {kernel}" for kernel, count in facts["plugins"].items()) or "none",
            *(built.get((name, precision), "-") for precision in precisions),
        ]
        for name, facts in networks.items()
    ]
    headings = ("network", "what is in it", "ONNX nodes", "operators", "error", "plugins that fit", *precisions)
    return Summary(f"Built by {rows[0].backend} without a GPU", headings, lines, headings[2:5])


def _built(row: Row) -> str:
    if "build_seconds" not in row.extra:
        return f"refused: {row.why}"
    return f"{row.extra['network_layers']} layers, {row.extra['build_seconds']:.1f} s"


def _floors(rows: Sequence[Row], gpu: str) -> Summary:
    batches = list(dict.fromkeys(batch for row in rows for batch in row.extra["floors"][gpu]))
    lines = [
        [str(row.case["network"]), str(row.case["precision"]), *_floor_cells(row.extra["floors"][gpu], batches)]
        for row in rows
    ]
    figures = [f"{what}, batch {batch}" for batch in batches for what in ("floor", "as one kernel", "bound by memory")]
    return Summary(f"Floors by the data sheet of {gpu}", ("network", "precision", *figures), lines, figures)


def _floor_cells(floors: Mapping[str, Mapping[str, float]], batches: Sequence[str]) -> Iterator[str]:
    for batch in batches:
        floor = floors[batch]
        yield from (duration(floor["needed_us"]), duration(floor["as_one_us"]), f"{floor['memory_share']:.0%}")


def _error(row: Row) -> str:
    if "engine_error" not in row.extra:
        return "-"
    return f"{row.extra['engine_error']:.1e}{'' if row.extra['right'] else ', wrong'}"


def _part(part: Mapping[str, Any] | None) -> str:
    return "-" if part is None else f"{part['layers']}: {duration(part['us'])}"


def _us(us: float | None) -> str:
    return "-" if us is None else duration(us)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
