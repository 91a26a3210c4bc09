"""A kernel's header says what the file is, and no more: what was tried and measured stands in docs/kernels."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pytest

from lenet_trt.kernel.registry import plugins_dir

MOST_LINES = 15
SOURCES = [path for suffix in ("cu", "cuh", "c") for path in sorted(plugins_dir().rglob(f"*.{suffix}"))]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(plugins_dir()).as_posix())
def test_a_header_is_there_and_short(path: Path) -> None:
    header = list(takewhile(lambda line: line.startswith("//"), path.read_text(encoding="utf-8").splitlines()))
    assert 1 <= len(header) <= MOST_LINES, f"{path} begins with {len(header)} lines of comment"
