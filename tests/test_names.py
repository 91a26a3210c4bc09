"""A public name means one thing: no two modules define a function or a class of the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A kernel's folder in plugins/ is not read: its names are the kernel's own, and a new folder changes no test.
SOURCES = ("lenet_trt/**/*.py", "export/**/*.py", "plugins/*.py")
# Names that a protocol fixes: several modules define them on purpose.
VERBS = {"add_arguments", "command", "main"}  # of each __main__.py (lenet_trt.cli)
SUITES = {"measure", "charts", "columns", "summaries"}  # of each suite of bench (lenet_trt.bench.suites)
# ONNX's operator in NumPy, and the verb that puts it into models.
SAME_MEANING = {"quantize"}


def public_names(source: str) -> Iterator[str]:
    """Yield the public functions and classes that a module defines itself."""
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name


def shared_names(sources: dict[str, str]) -> dict[str, list[str]]:
    """Return the names that several modules define, with these modules."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path, source in sources.items():
        for name in public_names(source):
            modules[name].append(path)
    fixed = VERBS | SUITES | SAME_MEANING
    return {name: paths for name, paths in modules.items() if len(paths) > 1 and name not in fixed}


def test_a_public_name_is_defined_once() -> None:
    files = [path for pattern in SOURCES for path in sorted(ROOT.glob(pattern))]
    if not files:
        pytest.skip("the sources are not here: this test reads a checkout")
    found = shared_names({str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files})
    assert not found, "\n".join(
        f"{name} is defined in {' and '.join(paths)}: rename one" for name, paths in found.items()
    )


def test_a_name_that_is_defined_twice_is_found() -> None:
    sources = {
        "a.py": "def read(): ...\ndef main(): ...\n",
        "b.py": "class read: ...\ndef _read(): ...\ndef main(): ...\n",
    }
    assert shared_names(sources) == {"read": ["a.py", "b.py"]}
