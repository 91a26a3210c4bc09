"""Images in a kernel's data: each once, and with what holds for the entry that is launched."""

from __future__ import annotations

from lenet_trt.cuda.compile import Module
from lenet_trt.tensorrt.library.encode import _Images


def test_of_two_entries_with_the_same_bytes_the_one_that_waits_may_overlap() -> None:
    images = _Images(13000)
    found = [images.index(Module(b"both", "sm_90", entry, (), entry == "waits"), False) for entry in ("waits", "not")]
    assert found == [0, 1]
    assert images.overlapping == [0]
    assert images.bytes().rstrip(b"\0") == b"both"
