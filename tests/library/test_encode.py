"""What the data of a kernel has room for, and its images: each once, with what holds for the entry that is launched."""

from __future__ import annotations

import re

import pytest

from lenet_trt.cuda.compile import Module
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.dims import axes
from lenet_trt.tensorrt.library import encode
from lenet_trt.tensorrt.library.compile import SOURCES


def test_of_two_entries_with_the_same_bytes_the_one_that_waits_may_overlap() -> None:
    images = encode._Images(13000)
    found = [images.index(Module(b"both", "sm_90", entry, (), entry == "waits"), False) for entry in ("waits", "not")]
    assert found == [0, 1]
    assert images.overlapping == [0]
    assert images.bytes().rstrip(b"\0") == b"both"


def test_the_library_has_room_for_what_python_writes() -> None:
    sources = "".join(path.read_text() for path in SOURCES.iterdir() if path.suffix in (".h", ".cpp"))
    room = {name.lower(): int(number) for name, number in re.findall(r"constexpr size_t kMax(\w+) = (\d+);", sources)}
    names = [name for name in vars(encode) if name.startswith("MAX_")]
    assert len(names) > 8
    assert {name: vars(encode)[name] for name in names} == {
        name: room[name.removeprefix("MAX_").replace("_", "").lower()] for name in names
    }


def test_an_expression_that_is_nested_too_deep_is_refused() -> None:
    (n,) = axes("n")
    assert encode.depth_of(encode.code_of(n * 2 + 1, ["n"])) == 2
    nested = n
    for _ in range(encode.MAX_DEPTH):
        nested = n - (n * 2 - nested)
    code = encode.code_of(nested, ["n"])
    assert encode.depth_of(code) > encode.MAX_DEPTH
    with pytest.raises(LenetTrtError, match="deep; the plugin library has room for 64"):
        encode._code(code)


def test_what_16_bits_cannot_count_is_refused() -> None:
    with pytest.raises(LenetTrtError, match="70000 bytes of a text; the plugin library has room for 65535"):
        encode._string("x" * 70000)
