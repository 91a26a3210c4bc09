"""Find the commands that a Markdown page tells its reader to type."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def fenced(page: Path, language: str) -> list[str]:
    """The contents of the page's fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """The lines after a ``$`` prompt in the page's console blocks, without comments, in order."""
    lines = [line for block in fenced(page, "console") for line in block.splitlines() if line.startswith("$ ")]
    return [line.removeprefix("$ ").split("   #")[0].strip() for line in lines]
