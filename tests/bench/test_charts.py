"""Pictures: valid SVG and PNG, the same bytes each time, legible in the light and in the dark, faithful to the data."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lenet_trt.draw import charts, panels
from lenet_trt.draw.chart import Chart, Series
from lenet_trt.draw.charts import render
from lenet_trt.errors import LenetTrtError, UsageError

SVG = "{http://www.w3.org/2000/svg}"
N = [1, 16, 256, 4096]
LINES = Chart(
    "LeNet-5 <fp32> & more",
    "batch size",
    "us an image",
    [
        Series("ours", N, [5.0, 0.4, 0.05, 0.01], emphasis=True, low=[4, 0.3, 0.04, 0.009], high=[6, 0.5, 0.06, 0.02]),
        Series("torch", N, [30.0, None, 0.3, 0.12]),
        Series("floor", N, [2.7, 0.2, 0.01, 0.003], "dashed"),
    ],
    x_log=True,
    y_log=True,
    notes=("one note",),
)
BARS = Chart(
    "First inference",
    "ms",
    "",
    [
        Series("import", ["lazy", "eager"], [40.0, 41.0], "bars", group="all"),
        Series("load", ["lazy", "eager"], [10.0, 90.0], "bars", group="all", texts=("50 ms", "131 ms")),
    ],
    horizontal=True,
)


def test_an_svg_is_valid_and_says_what_it_shows() -> None:
    root = ET.fromstring(render([LINES, BARS], "svg"))
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert "LeNet-5 <fp32> & more" in root.get("aria-label", "")
    texts = {text for node in root.iter() if node.tag == f"{SVG}text" for text in node.itertext()}
    for wanted in (
        "LeNet-5 <fp32> & more",
        "ours",
        "torch",
        "floor",
        "batch size",
        "one note",
        "lazy",
        "eager",
        "load",
    ):
        assert any(wanted in text for text in texts), f"{wanted} is not in the picture"


def test_the_same_charts_give_the_same_bytes() -> None:
    for form in charts.FORMATS:
        assert render([LINES, BARS], form) == render([LINES, BARS], form)


def test_every_colour_has_a_dark_look_and_both_can_be_read() -> None:
    svg = render([LINES, BARS], "svg").decode()
    body = re.sub(r"<style>.*?</style>", "", svg, flags=re.DOTALL)
    used = set(re.findall(r"(fill|stroke): (#[0-9a-f]{6})", body))
    rules = dict(re.findall(r'\[style\*="((?:fill|stroke): #[0-9a-f]{6})"\] \{ (?:fill|stroke): (#[0-9a-f]{6})', svg))
    for kind, colour in used:
        assert f"{kind}: {colour}" in rules, f"{kind} {colour} stays light in the dark"
    backs = {"light": panels.BACK[0], "dark": panels.BACK[1]}
    for light, dark in (*panels.EMPHASIS, *panels.COLOURS, panels.FLOOR, panels.INK):
        assert _contrast(light, backs["light"]) >= 3, light
        assert _contrast(dark, backs["dark"]) >= 3, dark
    assert _contrast(*(pair[0] for pair in (panels.INK, panels.BACK))) >= 7


def test_lower_is_faster_and_gaps_stay_gaps() -> None:
    root = ET.fromstring(render([LINES], "svg"))
    lines = [(node.get("style", ""), node.get("d", "")) for node in root.iter(f"{SVG}path")]

    def line_of(colour: str) -> str:
        return max((d for style, d in lines if f"stroke: {colour}" in style and "fill: none" in style), key=len)

    ours, torch = line_of(panels.EMPHASIS[0][0]), line_of(panels.COLOURS[0][0])
    heights = [float(y) for _, y in re.findall(r"[ML] ([\d.]+) ([\d.]+)", ours)]
    assert all(a < b for a, b in pairwise(heights)), "SVG counts downwards"
    assert torch.count("M") == 2, "a point that is missing interrupts the line"


def test_bars_of_a_group_are_stacked() -> None:
    root = ET.fromstring(render([BARS], "svg"))
    colours = [f"fill: {light}" for light, _ in panels.COLOURS[:2]]
    filled = [
        node
        for node in root.iter(f"{SVG}path")
        if node.get("clip-path") and any(colour in node.get("style", "") for colour in colours)
    ]
    boxes = [[float(x) for x in re.findall(r"[ML] ([\d.]+) [\d.]+", node.get("d", ""))] for node in filled]
    assert len(boxes) == 4
    lazy_import, eager_import, lazy_load, eager_load = ((min(xs), max(xs)) for xs in boxes)
    assert lazy_load[0] == pytest.approx(lazy_import[1])
    assert eager_load[0] == pytest.approx(eager_import[1])
    assert (eager_load[1] - eager_load[0]) == pytest.approx(9 * (lazy_load[1] - lazy_load[0]), rel=1e-3)


def test_a_png_can_be_opened_and_has_the_colours_of_its_series() -> None:
    picture = Image.open(io.BytesIO(render([LINES], "png")))
    pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    assert picture.width > picture.height > 300
    for colour in (panels.EMPHASIS[0][0], panels.COLOURS[0][0], panels.BACK[0]):
        wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        assert (np.abs(pixels.astype(int) - wanted).max(axis=1) <= 2).sum() > 50, f"no {colour} in the picture"


def test_a_label_looks_the_same_in_every_panel() -> None:
    fewer = replace(LINES, series=[LINES.series[2], LINES.series[1]])
    looks = panels.looks([*LINES.series, *fewer.series])
    assert len(looks) == 3
    root = ET.fromstring(render([LINES, fewer], "svg"))
    said = ["".join(node.itertext()).strip() for node in root.iter(f"{SVG}text")]
    assert said.count("torch") == 1, "one legend for both panels"


def test_a_long_title_is_broken_into_lines() -> None:
    long = replace(
        BARS, title="Conv 10000x1x28x28, 50 filters 5x5, bias, ReLU, 2x2 max-pool, 3xfp16 for fp32, 10x as fast"
    )
    root = ET.fromstring(render([long, BARS], "svg"))
    lines = ["".join(node.itertext()).strip() for node in root.iter(f"{SVG}text")]
    parts = [line for line in lines if line and line in long.title and "x" in line]
    assert len(parts) > 1
    assert max(map(len, parts)) < 80
    assert set(" ".join(parts).split()) == set(long.title.split())


def test_many_series_are_all_told_apart() -> None:
    many = Chart("t", "x", "y", [Series(f"s{i}", N, [float(i + j) for j in range(4)]) for i in range(12)])
    looks = panels.looks(many.series)
    assert len(set(looks.values())) == len(looks) == 12
    assert render([many], "svg")


def test_a_legend_is_as_wide_as_its_columns() -> None:
    # Two columns of three and one of two, as matplotlib fills them: 2 x 10 letters and 5.
    labels = [*["ten letter"] * 6, *["fives"] * 2]
    handle, letter = panels._HANDLE_INCHES, panels._LETTER_INCHES
    wide = 3 * handle + (2 * 10 + 5) * letter
    assert panels.legend_columns(labels, wide + 0.01) == 3
    assert panels.legend_columns(labels, wide - 0.01) == 2


NAMED = replace(LINES, named_at_ends=True, series=[
    Series("ours", N, [5.0, 0.4, 0.05, 0.01], emphasis=True),
    *(Series(f"peer {index}", N, [30.0, 2.0, 0.3, 0.1 + index / 1000]) for index in range(4)),
    Series("ends early", N, [90.0, 90.0, 90.0, None]),
])  # fmt: skip


def names_at_ends(svg: bytes) -> dict[str, tuple[float, float, float]]:
    """Where each series' name stands: left, height, size of the letters."""
    labels = {series.label for series in NAMED.series}
    found = {}
    for node in ET.fromstring(svg).iter(f"{SVG}text"):
        if (label := "".join(node.itertext())) in labels:
            place = re.search(r"translate\(([\d.]+) ([\d.]+)\)", node.get("transform", ""))
            x, y = place.groups() if place else (node.get("x"), node.get("y"))
            size = re.search(r"font(?:-size)?: [^;]*?([\d.]+)px", node.get("style", ""))
            assert size
            assert label not in found, "named once, and in no legend"
            found[label] = float(str(x)), float(str(y)), float(size[1])
    return found


def test_names_at_the_lines_ends_do_not_touch_and_keep_their_order() -> None:
    svg = render([NAMED], "svg")
    found = names_at_ends(svg)
    assert set(found) == {series.label for series in NAMED.series}
    assert len({left for left, _, _ in found.values()}) == 1
    down = sorted(found, key=lambda label: found[label][1])
    assert down == ["ends early", "peer 3", "peer 2", "peer 1", "peer 0", "ours"]
    size = found["ours"][2]
    assert all(found[low][1] - found[high][1] >= size for high, low in pairwise(down))
    # On a phone, 360 pixels wide, letters stay above 8.
    width = float(str(ET.fromstring(svg).get("width")).removesuffix("pt"))
    assert size * 360 / width > 8


@given(st.lists(st.floats(0, 1), max_size=12).map(sorted), st.floats(0.01, 0.2))
def test_names_are_spread_no_more_than_needed(places: list[float], step: float) -> None:
    found = panels.spread_apart(places, step)
    assert len(found) == len(places)
    assert all(b - a >= step - 1e-9 for a, b in pairwise(found))
    assert sum(found) == pytest.approx(sum(places), abs=1e-6)  # a crowd stays around its middle
    if all(b - a > step for a, b in pairwise(places)):
        assert found == pytest.approx(places)
    below = panels.spread_apart(places, step, 1.0)
    assert max(below, default=0.0) <= 1.0 + 1e-9
    assert all(b - a >= step - 1e-9 for a, b in pairwise(below))


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(UsageError, match="wanted svg or png"):
        render([LINES], "gif")
    with pytest.raises(LenetTrtError, match="nothing to draw"):
        render([Chart("t", "x", "y", [Series("s", [], [])])], "svg")


def _contrast(a: str, b: str) -> float:
    """The contrast ratio, 1 to 21. Source: WCAG 2.2, relative luminance."""
    luminances = []
    for colour in (a, b):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        luminances.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)
