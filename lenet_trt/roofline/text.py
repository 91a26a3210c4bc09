"""Show a roofline to people: as a table, and as a picture on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lenet_trt.floors.floor import Ceilings
from lenet_trt.text_table import aligned

if TYPE_CHECKING:
    from lenet_trt.draw.chart import Chart
    from lenet_trt.roofline.stage import NodePoint, Roofline

_NAME_WIDTH = 36
_SHAPES_WIDTH = 56
_LABEL_WIDTH = 32
# More names beside points would hide each other: only the slowest nodes have names.
_MOST_NAMES = 12
# Labels of points closer than this factor would overlap.
_CLOSE = 1.4
ARITHMETICS = {
    "fp32": "fp32 multiply-adds",
    "split": "fp32 by split fp16 products",
    "tf32": "tf32 tensor cores",
    "fp16": "fp16 tensor cores",
    "bf16": "bf16 tensor cores",
    "int8": "int8 tensor cores",
    "fp8": "fp8 tensor cores",
}


def roofline_lines(found: Roofline) -> list[str]:
    """Return the ceilings, a row for each node, and the sums."""
    traced = found.taken_us is not None
    heads = ["node", "op", "shapes", "MFLOP", "MB", "FLOP/B", "bound by", "needs us"]
    rows = [_cells(point, traced) for point in found.points]
    rows.append(_sum_cells(found, traced))
    if traced:
        heads += ["took us", "ratio"]
    out = [*_ceilings_lines(found.ceilings), "", *aligned([heads, *rows], left=range(3)), ""]
    out += _summary(found)
    return [*out, *(f"note: {note}" for note in found.notes)]


def _ceilings_lines(ceilings: Ceilings) -> list[str]:
    rates = ", ".join(f"{name} {rate / 1e12:.4g}" for name, rate in ceilings.flop_per_s.items())
    if ceilings.source == "datasheet":
        bandwidth = f"{ceilings.read_bytes_per_s / 1e9:,.4g} GB/s"
        return [f"{ceilings.gpu}, as stated in {ceilings.details['document']}:", f"  {bandwidth}; TFLOP/s: {rates}"]
    tera = [ceilings.read_bytes_per_s / 1e12, ceilings.write_bytes_per_s / 1e12, ceilings.copy_bytes_per_s / 1e12]
    out = [
        f"{ceilings.gpu}, as measured here:",
        f"  TB/s: read {tera[0]:.3g}, write {tera[1]:.3g}, copy {tera[2]:.3g}; TFLOP/s: {rates}",
        f"  a launch {ceilings.launch_us:.2f} us",
    ]
    if ceilings.h2d_bytes_per_s and ceilings.d2h_bytes_per_s:
        host = f"{ceilings.h2d_bytes_per_s / 1e9:.3g} GB/s, from it {ceilings.d2h_bytes_per_s / 1e9:.3g} GB/s"
        out[-1] += f"; to the GPU {host}"
    return out


def _cells(point: NodePoint, traced: bool) -> list[str]:
    work = point.work.work
    about = "~" if point.work.estimated else ""
    cells = [
        _cut(point.work.node, _NAME_WIDTH),
        _cut(point.work.op, _NAME_WIDTH),
        _cut(point.work.shapes, _SHAPES_WIDTH),
        f"{about}{work.flops / 1e6:,.4g}",
        megabytes(work.total_bytes),
        f"{work.intensity:.3g}",
        point.bound if point.bound != "arithmetic" else point.work.arithmetic,
        f"{point.needed_us:,.2f}",
    ]
    if traced:
        taken = "" if point.taken_us is None else f"{point.taken_us:,.2f}"
        cells += [taken, "" if point.ratio is None else f"{point.ratio:,.1f}"]
    return cells


def _sum_cells(found: Roofline, traced: bool) -> list[str]:
    flops = sum(point.work.work.flops for point in found.points)
    moved = sum(point.work.work.total_bytes for point in found.points)
    intensity = f"{flops / moved:.3g}" if moved else ""
    cells = ["sum", "", "", f"{flops / 1e6:,.4g}", megabytes(moved), intensity, "", f"{found.needed_us:,.2f}"]
    if traced:
        assert found.taken_us is not None
        judged = sum(point.needed_us for point in found.points if point.taken_us is not None)
        cells += [f"{found.taken_us:,.2f}", f"{found.taken_us / judged:,.1f}" if judged else ""]
    return cells


def _summary(found: Roofline) -> list[str]:
    ceilings, count = found.ceilings, sum(point.work.work.total_bytes > 0 for point in found.points)
    moved = sum(point.work.work.total_bytes for point in found.points)
    alone = ", each node alone" if count > 1 else ""
    out = [f"the {ceilings.gpu} needs {milliseconds(found.needed_us)} for {megabytes(moved)} MB{alone}"]
    if count > 1:
        one = found.as_one
        out.append(
            f"as one kernel: {megabytes(one.work.work.total_bytes)} MB, {milliseconds(one.needed_us)}: "
            "inputs and weights are read once, outputs are written, tensors between stay in the kernel"
        )
    if ceilings.launch_us:
        out.append(f"in addition, {count} x {ceilings.launch_us:.2f} us for launches, where nothing hides them")
        small = sum(0 < point.needed_us < ceilings.launch_us for point in found.points)
        if small > 1:
            out.append(
                f"{small} of {count} need less time than their launch: fewer kernels (fusion, a larger batch) help "
                "them, faster kernels do not"
            )
    if found.taken_us is not None and found.end_to_end_us is not None:
        if cached := [point.work.node for point in found.points if point.ratio is not None and point.ratio < 1]:
            out.append(f"faster than device memory allows, so the data was in the L2 cache: {', '.join(cached)}")
        out.append(f"taken: {found.taken_us:,.2f} us in kernels, {found.end_to_end_us:,.2f} us end to end")
    return out


def megabytes(count: int) -> str:
    """Format bytes in megabytes: to a tenth where there are many, else to three digits."""
    value = count / 1e6
    return f"{value:,.1f}" if value >= 10 else f"{value:.3g}"


def milliseconds(us: float) -> str:
    """Format a time in the unit that suits it."""
    return f"{us:,.2f} us" if us < 100 else f"{us / 1e3:,.2f} ms ({us:,.1f} us)"


def chart(found: Roofline) -> Chart:
    """Draw the roofs, their ridges, and the nodes: where the hardware would let them be, and where they were."""
    from lenet_trt.draw.chart import Chart, Series

    ceilings = found.ceilings
    shown = [point for point in found.points if point.work.work.flops and point.work.work.total_bytes]
    hidden = [point.work.node for point in found.points if not point.work.work.flops and point.work.work.total_bytes]
    roofs = {name: ceilings.rate(name) for name in _roofs(ceilings, shown)}
    slope = max(ceilings.read_bytes_per_s, ceilings.write_bytes_per_s, ceilings.copy_bytes_per_s)
    intensities = [point.work.work.intensity for point in shown] or [1.0]
    ridges = [rate / slope for rate in roofs.values()]
    left = 10 ** math.floor(math.log10(min(*intensities, *ridges) / 3))
    right = 10 ** math.ceil(math.log10(max(*intensities, *ridges) * 10))
    series = [Series("", [left, max(ridges)], [_tera(slope * left), _tera(max(roofs.values()))], "dashed")]
    for name, rate in roofs.items():
        text = f"{ARITHMETICS.get(name, name)} {_tera(rate):,.4g} (ridge at {rate / slope:.3g})"
        series.append(Series("", [rate / slope, right], [_tera(rate)] * 2, "dashed", texts=["", text]))
    traced = [point for point in shown if point.taken_us]
    if shown:
        allowed = [_rate(point, point.needed_us) for point in shown]
        texts = () if traced else _names(shown, intensities, allowed)
        label = f"what the {ceilings.gpu} allows"
        series.append(Series(label, intensities, allowed, "points", emphasis=not traced, texts=texts))
    if traced:
        taken = [_rate(point, point.taken_us or 0.0) for point in traced]
        places = [point.work.work.intensity for point in traced]
        texts = _names(traced, places, taken)
        series.append(Series("measured", places, taken, "points", emphasis=True, texts=texts))
    source = "from a data sheet" if ceilings.source == "datasheet" else "measured"
    notes = [f"slope: {slope / 1e12:.4g} TB/s; roofs {source}"]
    if hidden:
        more = f" and {len(hidden) - 6} more" if len(hidden) > 6 else ""
        notes.append(f"without operations, so not shown: {', '.join(hidden[:6])}{more}")
    return Chart(
        f"Roofline of {found.model.rpartition('/')[2] or 'the model'} on {ceilings.gpu}",
        "operations per byte of memory traffic (FLOP/B)",
        "TFLOP/s",
        series,
        x_log=True,
        y_log=True,
        notes=notes,
        x_base=10,
    )


def _names(points: Sequence[NodePoint], xs: Sequence[float], ys: Sequence[float]) -> tuple[str, ...]:
    """Return the names of the slowest nodes, each beside its point; points at one place share a label."""
    longest = sorted(range(len(points)), key=lambda index: -points[index].needed_us)[:_MOST_NAMES]
    texts = [""] * len(points)
    placed: list[int] = []
    for index in longest:
        near = [at for at in placed if _close(xs[at], xs[index]) and _close(ys[at], ys[index])]
        if not near:
            placed.append(index)
        at = near[0] if near else index
        texts[at] = ", ".join(filter(None, [texts[at], points[index].work.node]))
    return tuple(_cut(text, _LABEL_WIDTH) for text in texts)


def _close(a: float, b: float) -> bool:
    return max(a, b) <= _CLOSE * min(a, b)


def _roofs(ceilings: Ceilings, shown: Sequence[NodePoint]) -> list[str]:
    """Return the arithmetics whose roofs are drawn: plain multiply-adds, the fastest, and those that nodes use."""
    known = ceilings.flop_per_s
    used = {point.work.arithmetic for point in shown} & {*known, "split"}
    wanted = {"fp32", max(known, key=known.__getitem__), *used}
    roofs: dict[float, str] = {}
    for name in sorted(wanted, key=lambda name: (name == "split", name)):
        roofs.setdefault(ceilings.rate(name), name)  # two rates of equal height are one roof
    return list(roofs.values())


def _rate(point: NodePoint, us: float) -> float:
    return _tera(point.work.work.flops / (us * 1e-6))


def _tera(value: float) -> float:
    return value / 1e12


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
