"""Fill the figures of Markdown documents from the committed records.

A document names each figure between two comments, which the reader of the page does not see:

    LeNet-5 takes <!-- figure: time h200/sweep "lenet5 kernel" batch=1 -->10.5 us<!-- end -->.

This command writes the text between them, and the pictures that the document shows; --check writes nothing and fails
where a text or a picture is not current. Text in backticks and in code blocks is left alone.

    python -m lenet_trt.bench.page            in the repository: README.md and docs/, from docs/results
    python -m lenet_trt.bench.page --check
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path

from lenet_trt.bench import figures, resource_table, traced_figures, tuned_figures
from lenet_trt.bench.sources import Sources
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import write_atomic

# Kind -> the function that makes it. Texts of the kinds in _INLINE stand within a line, others on lines of their own.
KINDS: dict[str, Callable[..., str]] = {
    "compare": figures.compare_figure,
    "contest": figures.contest_figure,
    "engine": traced_figures.engine_figure,
    "exported": traced_figures.exported_figure,
    "findings": figures.findings_figure,
    "layers": traced_figures.layers_figure,
    "ledger": traced_figures.ledger_figure,
    "machine": figures.machine_figure,
    "networks": figures.networks_figure,
    "optimized": traced_figures.optimized_figure,
    "picture": figures.picture_figure,
    "plan": figures.plan_figure,
    "quoted": figures.quoted_figure,
    "resources": resource_table.resources_figure,
    "rows": figures.rows_figure,
    "steps": figures.steps_figure,
    "time": figures.time_figure,
    "traced": traced_figures.traced_figure,
    "tuned": tuned_figures.tuned_figure,
    "tuned_apart": tuned_figures.tuned_apart_figure,
}
_INLINE = {"exported", "plan", "time"}
_DOCUMENTS = ("README.md", "docs/**/*.md")
_RECORDS = Path("docs/results")
_PLACEHOLDER = re.compile(
    r"^```.*?^```|`[^`\n]+`|<!-- figure: (?P<words>[^\n]*?) -->(?P<text>.*?)(?P<end><!-- end -->|\Z)",
    re.MULTILINE | re.DOTALL,
)


def filled(text: str, sources: Sources) -> str:
    """Return the document with all its figures made again.

    Raises:
        LenetTrtError: a placeholder has no end, an unknown kind or wrong words, or a record is damaged.
    """

    def figure(match: re.Match[str]) -> str:
        words = match["words"]
        if words is None:
            return match[0]
        where = f"{sources.document}, <!-- figure: {words} -->"
        if not match["end"] or "<!-- figure: " in match["text"]:
            raise LenetTrtError(f"{where} has no end: write <!-- end --> behind its text")
        return f"<!-- figure: {words} -->{_made(words, where, sources)}<!-- end -->"

    return _PLACEHOLDER.sub(figure, text)


def _made(words: str, where: str, sources: Sources) -> str:
    kind, *arguments = shlex.split(words)
    if kind not in KINDS:
        raise LenetTrtError(f"{where}: {kind!r} is no kind of figure; the kinds are {', '.join(KINDS)}")
    try:
        signature(KINDS[kind]).bind(sources, *arguments)
    except TypeError as error:
        raise LenetTrtError(f"{where}: {kind} cannot take these words ({error})") from error
    try:
        made = KINDS[kind](sources, *arguments)
    except LenetTrtError as error:
        raise LenetTrtError(f"{where}: {error}") from error
    return made if kind in _INLINE else f"\n{made}\n"


def files(documents: Sequence[Path], records: Path) -> dict[Path, bytes]:
    """Return what every document and picture has to contain.

    Raises:
        LenetTrtError: a document cannot be read, or a placeholder in it cannot be filled.
    """
    made: dict[Path, bytes] = {}
    for document in documents:
        try:
            text = document.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LenetTrtError(f"{document} cannot be read: {error}") from error
        sources = Sources(records, document)
        made[document] = filled(text, sources).encode()
        made.update(sources.pictures)
    return made


def current(path: Path, wanted: bytes) -> bool:
    """Say whether a file contains what it has to; of a picture its texts count, without whole numbers.

    matplotlib draws the same picture a little differently in each release, and marks other numbers on an axis.
    """
    if not path.is_file():
        return False
    found = path.read_bytes()
    return found == wanted or (path.suffix == ".svg" and _texts(found) == _texts(wanted))


def _texts(svg: bytes) -> list[str]:
    try:
        root = ET.fromstring(svg)
    except ET.ParseError:
        return []
    texts = sorted("".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text"))
    return [root.get("aria-label", ""), *(text for text in texts if not text.replace(",", "").isdigit())]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what is not current and print its path; with --check only print it and return 1."""
    parser = argparse.ArgumentParser(
        prog="python -m lenet_trt.bench.page", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "documents", nargs="*", type=Path, metavar="FILE.md", help="documents (default: README.md and docs/**/*.md)"
    )
    parser.add_argument(
        "--records", type=Path, default=_RECORDS, metavar="DIR", help=f"folder of the records (default: {_RECORDS})"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something is not current")
    chosen = parser.parse_args(arguments)
    try:
        documents = chosen.documents or sorted(path for name in _DOCUMENTS for path in Path().glob(name))
        if not documents:
            raise UsageError("there is no README.md and no docs folder here: name documents, or go to the repository")
        stale = {path: made for path, made in files(documents, chosen.records).items() if not current(path, made)}
        for path, made in stale.items():
            print(f"{path} is not current: run python -m lenet_trt.bench.page" if chosen.check else path)
            if not chosen.check:
                write_atomic(path, made)
    except LenetTrtError as error:
        print(f"lenet_trt.bench.page: error: {error}", file=sys.stderr)
        return error.exit_code
    return 1 if chosen.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
