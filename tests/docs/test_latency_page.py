"""The page on what a caller waits for: its commands are valid, and its Python uses what there is."""

from __future__ import annotations

import ast
from inspect import signature
from pathlib import Path

from documents import ROOT, commands, fenced
from lenet_trt.bench.latency.loads import LOADS
from lenet_trt.cli import parser_for
from lenet_trt.kernel.registry import kernel
from lenet_trt.runtimes.latency.exchange import LOOKS
from lenet_trt.runtimes.latency.resident import ResidentPath
from lenet_trt.runtimes.latency.ring import SLOTS
from lenet_trt.runtimes.network import Network

PAGE = ROOT / "docs" / "latency.md"
TEXT = PAGE.read_text(encoding="utf-8")
NUMBERS = {4: "four", 8: "eight"}


def test_the_commands_are_valid() -> None:
    ours = [line.split() for line in commands(PAGE) if line.startswith("lenet-trt ")]
    assert ours
    for words in ours:
        parser_for(words[1]).parse_args(words[2:])


def test_the_program_uses_what_there_is() -> None:
    (program,) = fenced(PAGE, "python")
    used = {node.attr for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Attribute)}
    assert {"latency_path", "resident"} <= used
    for name in used & {"latency_path", "resident"}:
        assert hasattr(Network, name)
    for name in ("beat", "end", "stays"):
        assert f"`path.{name}" in TEXT
        assert hasattr(ResidentPath, name)


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    chosen = signature(Network.resident).parameters
    assert f"`silent_ms` (default {chosen['silent_ms'].default})" in TEXT
    assert f"`life_ms` in any case (default {chosen['life_ms'].default})" in TEXT
    assert f"every {LOOKS} looks" in TEXT
    assert f"a ring of {NUMBERS[SLOTS]} requests" in TEXT
    assert f"timed {NUMBERS[len(LOADS)]} times" in TEXT
    resident = kernel("lenet5").resident
    assert resident is not None
    blocks, threads = resident.launch.grid[0], resident.launch.block[0]
    assert isinstance(blocks, int)
    assert f"{NUMBERS[blocks]} blocks of {threads} threads" in TEXT
    source = (Path(kernel("lenet5").source_dir) / "ring.cuh").read_text()
    assert "kHot = 1024, kRestNs = 1000" in source, "the page says a thousand looks, and a microsecond"
