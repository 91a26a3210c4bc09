"""The site of the documentation: it is built without a warning, and what it links to in the repository is there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from documents import ROOT, fenced

pytest.importorskip("mkdocs", reason="the site is built by MkDocs: pip install 'lenet-trt[docs]'")
pytest.importorskip("mkdocstrings")
REPOSITORY = "https://github.com/lenet-trt/lenet-trt/blob/main/"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_first_page_is_the_readme_and_functions_have_their_texts(site: Path) -> None:
    first = (site / "index.html").read_text(encoding="utf-8")
    assert "TensorRT builds an engine in one command" in first
    functions = (site / "api/index.html").read_text(encoding="utf-8")
    for name in ("load", "classify_files", "classify_dataset", "fuse", "deploy", "LenetTrtError"):
        assert f">{name}<" in functions
    assert "Raises:" in functions


def test_each_name_that_a_program_of_the_pages_imports_has_its_text(site: Path) -> None:
    functions = (site / "api/index.html").read_text(encoding="utf-8")
    programs = [text for page in ROOT.glob("docs/**/*.md") for text in fenced(page, "python")]
    imports = [node for text in programs for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    names = {f"{node.module}.{entry.name}" for node in imports for entry in node.names}
    ours = {name for name in names if name.startswith("lenet_trt.")}
    assert {"lenet_trt.run.load", "lenet_trt.pattern.Pattern"} <= ours
    # Of these modules the page has the functions that a program calls.
    modules = {"lenet_trt.kernel.registry", "lenet_trt.tensorrt.flavors", "lenet_trt.tensorrt.routes.python"}
    assert not [name for name in sorted(ours - modules) if f'id="{name}"' not in functions]
    assert "queue_delay_us" in functions, "the fields of a dataclass"


def test_every_page_is_in_the_navigation_or_left_out_by_name(site: Path) -> None:
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in ROOT.glob("docs/**/*.md"):
        name = page.relative_to(ROOT / "docs")
        assert f": {name}\n" in listed or name.parts[:2] == ("results", "optimize"), f"{name} is not in mkdocs.yml"


def test_no_page_shows_the_fence_of_a_block(site: Path) -> None:
    assert not [page.parent.name for page in site.rglob("*.html") if "```" in page.read_text(encoding="utf-8")]


def test_links_into_the_repository_lead_somewhere(site: Path) -> None:
    links = {link for page in site.rglob("*.html") for link in re.findall(r'href="([^"#]+)', page.read_text())}
    inside = {link.removeprefix(REPOSITORY) for link in links if link.startswith(REPOSITORY)}
    assert len(inside) > 10
    assert not [path for path in inside if not (ROOT / path).exists()]
    pages = [link for link in links if link.endswith(".md") and not link.startswith("http")]
    assert not pages, "a link to a page is one to its source"
