"""Prepare text for people: names from models and traces made harmless and visible, and numbers with units."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Mapping

# Longer names are cut: nobody reads them, and they would hide the rest of the page.
LONGEST_NAME = 2000
# Letters of right-to-left scripts are shown; characters that only change the direction of their neighbours are not.
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_JSON_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&'\u2028\u2029"}
_MARKDOWN_SIGNS = re.compile(r"([\\`*_\[\]|~#>!<&])")


def visible(name: object, longest: int = LONGEST_NAME) -> str:
    r"""Return the text on one line; invisible characters become escapes such as ``\n`` or ``\u202e``.

    Text with more than ``longest`` characters is cut, and its end says how long it was.
    """
    text = str(name)
    cut = f"... ({len(text):,} characters)" if len(text) > longest else ""
    begin = text[:longest]
    # Nearly all text is printable, which _shown leaves as it is.
    return (begin if begin.isprintable() else "".join(map(_shown, begin))) + cut


def short(name: object, longest: int = 60) -> str:
    """Shorten a name to its beginning and its end, which say most."""
    text = visible(name)
    if len(text) <= longest:
        return text
    tail = longest // 3
    return f"{text[: longest - tail - 1]}\u2026{text[-tail:]}"


def embedded_json(text: str) -> str:
    """Return JSON for a script element: no character in it can end that element or begin a comment."""
    return text.translate(_JSON_ESCAPES)


def escape_markdown(text: object) -> str:
    """Escape text so that Markdown shows it as it is."""
    return _MARKDOWN_SIGNS.sub(r"\\\1", visible(text))


def markdown_code(text: object) -> str:
    """Write a name as code in a table's cell, which neither back-ticks nor bars can end."""
    shown = visible(text)
    if "|" in shown or "`" in shown:  # a code span cannot hold them in every dialect
        return f"<code>{html.escape(shown).replace('|', '&#124;').replace('`', '&#96;')}</code>"
    return f"`{shown}`" if shown else ""


def time_text(us: float | None, signed: bool = False) -> str:
    """Format a time with its unit, to three or four digits: microseconds up to 100 000, then ms or s."""
    if us is None or not math.isfinite(us):
        return "unknown"
    size = abs(us)
    if size >= 1e7:
        return f"{_number(us / 1e6, signed)} s"
    return f"{_number(us / 1e3, signed)} ms" if size >= 1e5 else f"{_number(us, signed)} \u00b5s"


def us_text(us: float | None) -> str:
    """Format a time in microseconds without its unit, for columns that name the unit."""
    return "" if us is None or not math.isfinite(us) else _number(us)


def share_text(share: float | None) -> str:
    """Format a share as a percentage."""
    return "" if share is None or not math.isfinite(share) else f"{100 * share:.1f}%"


def ratio_text(ratio: float) -> str:
    """Format how many times as long or as fast something is."""
    return f"{ratio:.2f}\u00d7" if ratio < 9.995 else f"{ratio:,.1f}\u00d7" if ratio < 99.95 else f"{ratio:,.0f}\u00d7"


def bytes_text(count: float) -> str:
    """Format a number of bytes in decimal units, as bandwidths are given."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count:.0f} B"


def flattened(values: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Flatten nested values into rows of label and text."""
    rows: dict[str, str] = {}
    for key, value in values.items():
        label = f"{prefix}{key}"
        if isinstance(value, Mapping):
            rows.update(flattened(value, f"{label} "))
        elif isinstance(value, (list, tuple)):
            rows[label] = ", ".join(map(str, value))
        elif value is not None:
            rows[label] = str(value)
    return rows


def _number(value: float, signed: bool = False) -> str:
    size = abs(value)
    digits = 0 if size >= 999.5 else 1 if size >= 9.95 else 2 if size >= 0.095 or size == 0 else 3
    text = f"{value:{'+' if signed else ''},.{digits}f}"
    return text.replace("-", "\u2212")


def _shown(sign: str) -> str:
    if sign == " " or unicodedata.category(sign) not in _HIDDEN_CATEGORIES:
        return sign
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")
