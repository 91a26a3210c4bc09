"""Tensor maps in a kernel's data: who has to know them, what is refused, and for which sizes they are made."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_data import section, with_number
from lenet_trt.kernel import TensorMap, registry
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.dims import axes
from lenet_trt.tensorrt.library import encode
from library_probes import Core, data_of, text_of

n, inputs = axes("n in")
KERNEL = registry.kernel("linear_half")
GPU = (90, 132, 227 * 1024)


def data_with(declared: TensorMap | None) -> tuple[Bound, bytes]:
    """Return a call and the data of its kernel with that map in its one variant for Hopper."""
    variant = KERNEL.variant("wgmma")
    maps = () if declared is None else (declared,)
    mapped = replace(variant, launch=replace(variant.launch, maps=maps))
    kernel = replace(KERNEL, variants=(mapped, KERNEL.variant("direct")))
    bound = kernel.bind_axes({"n": 300, "in": 320, "out": 264}, kernel.types[0])
    return bound, data_of(bound, ["sm_90"])


DECLARED = TensorMap("x", (n, inputs), (128, 64))
BOUND, DATA = data_with(DECLARED)


def test_a_library_that_does_not_know_maps_has_to_refuse_them_and_reads_what_has_none() -> None:
    assert section(DATA, encode.MAPS).flags & encode.MUST_KNOW
    _, plain = data_with(None)
    with pytest.raises(AssertionError, match="there is no section"):
        section(plain, encode.MAPS)


def test_the_section_is_a_list_of_launches_with_their_maps() -> None:
    _, begin, size = section(DATA, encode.MAPS)
    runtime = struct.pack("<HBH", 3, 2, 1)  # the code of n, axis 1
    known = struct.pack("<HBq", 9, 1, 320)
    assert DATA[begin : begin + size] == b"".join(
        (struct.pack("<HHHHHBH", 1, 0, 0, 1, 0, 2, 2), runtime, struct.pack("<H", 128), known, struct.pack("<H", 64))
    )


@pytest.mark.parametrize(
    ("at", "number", "why"),
    [
        (2, 7, "names a launch that is not there"),
        (4, 1, "names a launch that is not there"),
        (6, 5, "the section of tensor maps has a list of 5 entries, more than 4"),
        (8, 3, "a tensor map is of an input that is not there"),
        (11, 6, "the section of tensor maps has a list of 6 entries, more than 5"),
        (11, 0, "the tensor map of x has no axes"),
        (18, 257, "the tensor map of x has a box of 257 along an axis; 1 to 256 are possible"),
        (18, 0, "the tensor map of x has a box of 0 along an axis"),
        (31, 20, "the tensor map of x has boxes with rows of 40 bytes"),
    ],
)
def test_damaged_maps_are_refused(core: Core, tmp_path: Path, at: int, number: int, why: str) -> None:
    (tmp_path / "data").write_bytes(with_number(DATA, section(DATA, encode.MAPS).begin + at, number))
    assert why in core.ask("load", tmp_path / "data")


@pytest.mark.parametrize(
    ("shape", "answer"),
    [
        ((n, inputs), "launch wgmma 9 1 1"),
        ((inputs, n), "error variant wgmma would need a tensor map with 600 bytes between neighbours of an axis"),
        ((n + 1, inputs), "error variant wgmma would need a tensor map that is larger than its input"),
        (
            (n - 300, inputs),
            "error variant wgmma would need 0 for an axis of a tensor map; 1 to 4294967296 are possible",
        ),
    ],
)
def test_a_map_is_planned_for_the_sizes_of_the_call(core: Core, tmp_path: Path, shape, answer: str) -> None:
    bound, data = data_with(replace(DECLARED, shape=shape))
    (tmp_path / "data").write_bytes(data)
    assert core.ask("load", tmp_path / "data").startswith("ok")
    found = core.ask("plan", *GPU, -1, text_of(bound.input_shapes), "/", text_of(bound.output_shapes))
    assert found.startswith(answer)
    assert found.endswith(" 300 map 300,320") or found.startswith("error")
