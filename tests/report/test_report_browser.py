"""The report in a real browser: drawn, clicked, typed at, dark, printed and narrow; silent, and without the network."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from browser import Opened, chromium
from lenet_trt.report.page import page
from reported import HOSTILE, content, traced


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report with spaces & signs.html"
    file.write_text(page(content(before=traced(speed=2.2))), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[Opened]:
    found = Opened(browser, report)
    yield found
    found.quiet()
    found.context.close()


def colours(shot: bytes) -> set[tuple[int, ...]]:
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    return {colour for _, colour in image.getcolors(1 << 24) or []}  # type: ignore[misc]


def column(opened: Opened, table: str, place: int) -> list[str]:
    return opened.page.locator(f"#{table} tbody tr > :nth-child({place})").all_inner_texts()


def test_a_click_sorts_a_table_and_says_so(opened: Opened) -> None:
    head = opened.page.locator("#gpu-table thead th")
    assert head.nth(1).get_attribute("aria-sort") == "descending"
    before = column(opened, "gpu-table", 2)
    head.nth(3).get_by_role("button").click()
    assert head.nth(3).get_attribute("aria-sort") == "descending"
    assert head.nth(1).get_attribute("aria-sort") is None
    head.nth(1).get_by_role("button").click()
    head.nth(1).get_by_role("button").click()
    assert head.nth(1).get_attribute("aria-sort") == "ascending"
    assert column(opened, "gpu-table", 2) == before[::-1]
    assert opened.page.locator("#announce").inner_text() == "Sorted by Time (\u00b5s), ascending"
    head.nth(6).get_by_role("button").click()
    names = column(opened, "gpu-table", 7)
    assert names == sorted(names, key=str.lower)


def test_sums_stay_at_the_end_and_the_keyboard_sorts_too(opened: Opened) -> None:
    button = opened.page.locator("#nodes-table thead th").nth(2).get_by_role("button")
    button.focus()
    opened.page.keyboard.press("Enter")
    times = [float(text) for text in column(opened, "nodes-table", 3)]
    assert times[:-1] == sorted(times[:-1], reverse=True)
    assert times[-1] == max(times)
    opened.page.keyboard.press("Space")
    again = [float(text) for text in column(opened, "nodes-table", 3)]
    assert again == [*times[:-1][::-1], times[-1]]


def test_the_timeline_is_drawn_and_begins_with_one_inference(opened: Opened) -> None:
    low, high = opened.view()
    assert (low, high) == (pytest.approx(-6), pytest.approx(106))
    seen = colours(opened.page.locator("#timeline-view canvas").screenshot())
    for wanted in ((0xE5, 0x48, 0x4D), (0x3B, 0x82, 0xF6), (0xF5, 0xB5, 0x3D), (0xC9, 0xB8, 0xFF)):
        assert wanted in seen


def test_buttons_zoom_and_move(opened: Opened) -> None:
    low, high = opened.view()
    click = lambda name: opened.page.get_by_role("button", name=name, exact=True).click()  # noqa: E731
    click("Zoom in")
    inner = opened.view()
    assert low < inner[0] < inner[1] < high
    click("Later")
    later = opened.view()
    assert later[0] > inner[0]
    assert later[1] - later[0] == pytest.approx(inner[1] - inner[0])
    assert opened.page.locator("#announce").inner_text().startswith("Shown: ")
    click("Whole trace")
    assert opened.view()[1] > 110_000
    click("One inference")
    assert opened.view() == (low, high)


def test_keys_zoom_move_and_pick(opened: Opened) -> None:
    canvas = opened.page.locator("#timeline-view canvas")
    canvas.focus()
    picked = opened.page.locator("#timeline-picked")
    start = opened.view()
    for key in ("+", "ArrowRight"):
        before = opened.view()
        opened.page.keyboard.press(key)
        assert opened.view() != before
    opened.page.keyboard.press("1")
    assert opened.view() == start
    opened.page.keyboard.press("n")
    first = picked.inner_text()
    assert "HtoD" in first
    assert "100.4 kB" in first
    opened.page.keyboard.press("n")
    assert "/conv1/Conv" in picked.inner_text()
    opened.page.keyboard.press("p")
    assert picked.inner_text() == first
    opened.page.keyboard.press("n")
    opened.page.keyboard.press("ArrowUp")
    assert "cuda" in picked.inner_text()
    opened.page.keyboard.press("Enter")
    assert opened.view()[1] - opened.view()[0] < 10
    opened.page.keyboard.press("Escape")
    assert "Pick a bar" in picked.inner_text()
    opened.page.keyboard.press("0")
    assert opened.view()[1] > 110_000


def test_the_mouse_drags_zooms_hovers_and_picks(opened: Opened) -> None:
    canvas = opened.page.locator("#timeline-view canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    mouse = opened.page.mouse
    x, y = box["x"] + box["width"] * 0.5, box["y"] + box["height"] - 18
    low, high = opened.view()
    mouse.move(x, y)
    tip = opened.page.locator("#timeline-view .tip")
    assert "sm50_xmma_fprop" in tip.inner_text()
    assert "64x1x1" in tip.inner_text()
    mouse.down()
    mouse.up()
    assert "node /conv2/Conv" in opened.page.locator("#timeline-picked").inner_text()
    mouse.down()
    mouse.move(x - 100, y, steps=4)
    mouse.up()
    moved = opened.view()
    assert moved[0] > low
    assert moved[1] - moved[0] == pytest.approx(high - low)
    scrolled = opened.page.evaluate("scrollY")
    opened.page.keyboard.down("Control")
    mouse.wheel(0, -300)
    opened.page.keyboard.up("Control")
    opened.page.wait_for_function(
        "view => document.getElementById('timeline-view').dataset.view !== view", arg=" ".join(map(str, moved))
    )
    closer = opened.view()
    assert closer[1] - closer[0] < (moved[1] - moved[0]) * 0.8
    assert opened.page.evaluate("scrollY") == scrolled
    mouse.dblclick(x, y)
    assert opened.view()[1] - opened.view()[0] < closer[1] - closer[0]


def test_two_fingers_zoom_and_one_moves(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, has_touch=True, viewport={"width": 400, "height": 800}, is_mobile=True)
    canvas = opened.page.locator("#timeline-view canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    low, high = opened.view()
    touch = opened.context.new_cdp_session(opened.page)

    def points(kind: str, *xs: float) -> None:
        spots = [{"x": box["x"] + at, "y": box["y"] + 60, "id": number} for number, at in enumerate(xs)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": spots})

    points("touchStart", 150, 200)
    for spread in (10, 25, 45):
        points("touchMove", 150 - spread, 200 + spread)
    points("touchEnd")
    closer = opened.view()
    assert low < closer[0] < closer[1] < high
    points("touchStart", 200)
    for at in (180, 150, 120):
        points("touchMove", at)
    points("touchEnd")
    assert opened.view()[0] > closer[0]
    opened.quiet()
    opened.context.close()


def test_dark_and_light_and_the_button_between_them(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, color_scheme="dark")
    background = lambda: opened.page.evaluate("getComputedStyle(document.body).backgroundColor")  # noqa: E731
    canvas = opened.page.locator("#timeline-view canvas")
    assert background() == "rgb(18, 22, 27)"
    assert (0x1A, 0x20, 0x27) in colours(canvas.screenshot())
    button = opened.page.get_by_role("button", name="Colours")
    button.click()
    assert button.inner_text() == "Colours: light"
    assert background() == "rgb(246, 247, 249)"
    assert (0x1A, 0x20, 0x27) not in colours(canvas.screenshot())
    button.click()
    assert background() == "rgb(18, 22, 27)"
    opened.quiet()
    opened.context.close()


CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
  const behind = (element) => { for (let at = element; at; at = at.parentElement) { const colour = parse(getComputedStyle(at).backgroundColor); if (colour.length < 4 || colour[3] === 1) return colour; } return [255, 255, 255]; };
  const poor = [];
  for (const element of document.querySelectorAll("body *:not(script):not(svg *)")) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    if (!element.getClientRects().length) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""  # noqa: E501


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_that_wcag_aa_asks_for(browser: Any, report: Path, scheme: str) -> None:
    opened = Opened(browser, report, color_scheme=scheme)
    opened.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert opened.page.evaluate(CONTRAST) == []
    opened.context.close()


def test_everything_can_be_reached_with_the_keyboard_and_its_focus_is_seen(opened: Opened) -> None:
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.className") == "skip"
    assert opened.page.locator(".skip").bounding_box()["x"] >= 0
    opened.page.keyboard.press("Enter")
    assert opened.page.evaluate("document.activeElement.id") == "main"
    seen = set()
    for _ in range(90):
        opened.page.keyboard.press("Tab")
        seen.add(
            opened.page.evaluate(
                "(document.activeElement.textContent || '').trim().slice(0, 30) || document.activeElement.tagName"
            )
        )
        outline = opened.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        if opened.page.evaluate("document.activeElement === document.body"):
            break
        assert outline != "none"
    assert {"Zoom in", "Whole trace", "CANVAS", "Time (\u00b5s)"} <= seen


def test_names_and_roles_that_a_screen_reader_needs(opened: Opened) -> None:
    tree = opened.page.locator("body").aria_snapshot()
    for wanted in (
        'navigation "Sections"',
        'region "Findings"',
        'region "Timeline"',
        'application "Timeline of host and GPU"',
        'img "Ledger: floor',
        'img "Roofline',
    ):
        assert wanted in tree
    unnamed = opened.page.evaluate(
        "() => [...document.querySelectorAll('button, a, [role], canvas')].filter((one) => !one.hidden"
        " && !(one.getAttribute('aria-label') || one.textContent.trim() || one.getAttribute('role') === 'status'))"
        ".map((one) => one.outerHTML.slice(0, 80))"
    )
    assert unnamed == []


def test_a_narrow_page_scrolls_its_tables_and_not_itself(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, viewport={"width": 360, "height": 800})
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 360
    wide = opened.page.evaluate(
        "() => [...document.querySelectorAll('.scroll')].some((one) => one.scrollWidth > one.clientWidth)"
    )
    assert wide
    opened.quiet()
    opened.context.close()


def test_printed_it_is_light_and_without_what_paper_cannot_do(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, color_scheme="dark")
    opened.page.emulate_media(media="print")
    opened.page.wait_for_timeout(100)
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for hidden in ("nav", ".tools", "#timeline-picked"):
        assert not opened.page.locator(hidden).first.is_visible()
    assert (0xFF, 0xFF, 0xFF) in colours(opened.page.locator("#timeline-view canvas").screenshot())
    assert len(re.findall(rb"/Type /Page\b", opened.page.pdf())) in range(2, 9)
    opened.context.close()


def test_hostile_names_run_nothing_and_turn_nothing_round(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "hostile.html"
    for first in (0, 3, 6):
        names = HOSTILE[first : first + 3]
        file.write_text(page(content(traced(names=names, model=names[0]), names=names)), encoding="utf-8")
        opened = Opened(browser, file)
        opened.page.locator("#timeline-view canvas").focus()
        for _ in range(6):
            opened.page.keyboard.press("n")
        assert opened.page.locator("img").count() == 0
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 1280
        assert opened.page.evaluate("document.documentElement.scrollHeight") < 14_000
        opened.quiet()
        opened.context.close()


def test_tens_of_thousands_of_bars_are_drawn_while_they_are_moved(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "long.html"
    file.write_text(page(content(traced(1600))), encoding="utf-8")
    assert file.stat().st_size < 4_000_000
    opened = Opened(browser, file)
    opened.page.locator("#timeline-view[data-view]").wait_for()
    frames = opened.page.evaluate(
        """async () => {
          const canvas = document.querySelector("#timeline-view canvas");
          const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
          const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
          press("0");
          await frame();
          let drawn = 0;
          for (; drawn < 20; drawn++) { press(drawn % 2 ? "+" : "-"); await frame(); }
          return drawn;
        }"""
    )
    assert frames == 20
    opened.quiet()
    opened.context.close()


def test_without_javascript_all_numbers_are_there(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, java_script_enabled=False)
    assert opened.page.get_by_text("The picture needs JavaScript").is_visible()
    assert opened.page.locator("#gpu-table tbody tr").count() == 8
    assert opened.page.locator("button:visible").count() == 0
    opened.context.close()
