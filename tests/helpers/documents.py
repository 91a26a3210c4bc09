"""Find what a Markdown page tells its reader to type and to write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "write-a-plugin.md"
# A file is a code block after a line that names it; commands are the lines after a prompt in a console block.
STEP = re.compile(
    r"^`(?P<path>[\w./-]+)`:\n\n```\w+\n(?P<text>.*?)^```|^```console(?P<gpu> gpu)?\n(?P<commands>.*?)^```",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class TutorialStep:
    """A file to write (``path``), or a command to type."""

    text: str
    path: str = ""
    gpu: bool = False


def fenced(page: Path, language: str) -> list[str]:
    """The contents of the page's fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """The lines after a ``$`` prompt in the page's console blocks, without comments, in order."""
    lines = [line for block in fenced(page, "console") for line in block.splitlines() if line.startswith("$ ")]
    return [line.removeprefix("$ ").split("   #")[0].strip() for line in lines]


def tutorial() -> Iterator[TutorialStep]:
    """What the tutorial tells its reader to write and to type, in order."""
    for match in STEP.finditer(TUTORIAL.read_text(encoding="utf-8")):
        if match["path"]:
            yield TutorialStep(match["text"], path=match["path"])
        else:
            lines = [line for line in match["commands"].splitlines() if line.startswith("$ ")]
            yield from (TutorialStep(line.removeprefix("$ "), gpu=bool(match["gpu"])) for line in lines)
