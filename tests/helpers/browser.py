"""A browser for tests: headless Chromium through Playwright, or the reason why there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the browser that is installed; skip, and say why, where there is none."""
    wanted = "playwright is not installed: pip install 'lenet-trt[browser]'"
    sync = pytest.importorskip("playwright.sync_api", reason=wanted)
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(_ARGUMENTS))
        yield browser
        browser.close()


class Opened:
    """A page with what it said and asked for."""

    def __init__(self, browser: Any, file: Path, **context: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())
        self.file = file

    def view(self) -> tuple[float, float]:
        """The span of time that the timeline shows, in microseconds."""
        low, high = self.page.locator("#timeline-view").get_attribute("data-view").split()
        return float(low), float(high)

    def quiet(self) -> None:
        """Nothing was said on the console, and nothing asked of anybody but the file itself."""
        assert self.said == []
        assert set(self.asked) <= {self.file.as_uri(), "data:,"}
