"""Fit the pages of the repository into the site: README.md is the first, and what is no page is linked to."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^(```\w+) \w+$", re.MULTILINE)
_LINK = re.compile(r"(\]\()(?!\w+:|#|/)([^)#\s]+)")


def on_files(files: Any, config: Any) -> Any:
    """Add README.md as the first page."""
    from mkdocs.structure.files import File

    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    inside = _LINK.sub(lambda found: found[1] + posixpath.relpath(found[2], "docs"), text)
    files.append(File.generated(config, "index.md", content=inside))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Link what lies outside the pages (code, the change log, folders) to the repository; name a block by one word."""

    def linked(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), found[2]))
        if path == "README.md":
            return found[1] + posixpath.relpath("index.md", posixpath.dirname(page.file.src_uri) or ".")
        outside = not path.startswith("docs/") or (_ROOT / path).is_dir()
        return f"{found[1]}{config.repo_url}/blob/main/{path}" if outside else found[0]

    # The second word, such as gpu, is for the tests of the pages. The site shows no block that has two.
    return _LINK.sub(linked, _BLOCK.sub(r"\1", markdown))
