"""What a variant takes of a multiprocessor: the compiler's figures, and the occupancy that follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lenet_trt.bench.resource_table import resources_figure
from lenet_trt.bench.sources import Sources
from lenet_trt.cli import main
from lenet_trt.cuda.resources import MULTIPROCESSORS_OF, Resources, resources_of
from lenet_trt.errors import LenetTrtError
from lenet_trt.floors.datasheet import ENTRIES
from lenet_trt.kernel.dims import as_dim
from lenet_trt.kernel.examples import bounds
from lenet_trt.kernel.registry import kernel, kernels
from lenet_trt.kernel.types import numpy_dtype


@pytest.mark.parametrize(
    ("taken", "sm", "blocks", "limit"),
    [
        (Resources(256, 32, 0, 0), 90, 8, "warps"),
        (Resources(32, 16, 0, 0), 86, 16, "blocks"),
        (Resources(256, 64, 0, 0), 90, 4, "registers"),
        (Resources(1024, 64, 0, 0), 90, 1, "registers"),
        (Resources(1024, 128, 0, 0), 90, 0, "registers"),
        (Resources(128, 32, 48 * 1024, 0), 86, 2, "shared memory"),  # a kibibyte of each block is the system's
        (Resources(128, 32, 32 * 1024, 0), 75, 2, "shared memory"),
        (Resources(128, 32, 100 * 1024, 0), 86, 0, "shared memory"),
    ],
)
def test_blocks_and_what_limits_them(taken: Resources, sm: int, blocks: int, limit: str) -> None:
    assert taken.blocks(sm) == (blocks, limit)
    assert taken.occupancy(sm) == blocks * taken.threads / 32 / MULTIPROCESSORS_OF[sm].warps


def test_the_compiler_tells_registers_and_shared_memory() -> None:
    declared = kernel("batched_matvec")
    bound = declared.bind_axes({"outer": 60, "broadcast": 200, "inner": 8, "rows": 1, "k": 64}, declared.types[1])
    found = resources_of(bound, declared.variant("bulk"), 90)
    assert 0 < found.registers <= 255
    assert found.shared_bytes >= 64 * 64 * 2, "64 rows of 64 numbers in half precision"
    assert found.local_bytes == 0
    assert found.threads == 128


def test_each_function_of_a_source_has_its_own_registers() -> None:
    declared = kernel("dense_bias_relu")
    bound = declared.bind_axes({"n": 1, "in": 256, "out": 120}, declared.types_named("fp16"))
    one, eight = (resources_of(bound, declared.variant(name), 90).registers for name in ("vector", "warp_by4"))
    assert one < eight, "sums of eight rows take more registers than those of one"


def test_an_unknown_architecture_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LenetTrtError, match="the limits of sm_61 are not known"):
        Resources(128, 32, 0, 0).blocks(61)
    assert main(["plugins", "maxpool2", "--resources", "6.1"]) == 2
    assert "--resources 6.1: wanted compute capabilities" in capsys.readouterr().err


def test_the_table_has_each_variant_in_each_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "maxpool2", "--resources", "8.6"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert sorted(line.split(" | ")[1:3] for line in lines) == sorted(
        [variant.name, types.name] for variant in kernel("maxpool2").variants for types in kernel("maxpool2").types
    )


@pytest.mark.slow
@pytest.mark.parametrize("sm", [75, 86])
def test_no_variant_that_cannot_run_is_chosen(sm: int) -> None:
    """On the two with the least shared memory, on the smallest and the largest GPU that has a data sheet.

    Shared memory is what keeps a variant from running, since bounds of a launch hold its registers, and only where a
    launch asks for it too, since the compiler refuses more than 48 KiB in a source: such a variant is compiled for the
    least, and of types of the same sizes once. docs/gpus.md has all architectures.
    """
    counts = [entry.multiprocessors for entry in ENTRIES if entry.sm == sm]
    assert counts
    least = min(MULTIPROCESSORS_OF.values(), key=lambda limits: limits.shared_bytes)
    for declared in kernels().values():
        chosen = {}
        for bound in bounds(declared):
            for multiprocessors in {min(counts), max(counts)}:
                variant = bound.variant(sm, {"multiprocessors": multiprocessors})
                assert variant.supports(sm, bound.types)
                assert bound.fits(variant)
                sizes = [numpy_dtype(each).itemsize for each in (*bound.input_dtypes, *bound.output_dtypes)]
                chosen[(variant.name, *sizes)] = bound, variant
        for bound, variant in chosen.values() if MULTIPROCESSORS_OF[sm] == least else ():
            for part in variant.parts:
                if not as_dim(part.launch.shared_bytes).evaluate(bound.sizes):
                    continue
                blocks, limit = resources_of(bound, part, sm).blocks(sm)
                assert blocks, f"{declared.name} {part.name} {bound.types.name} on sm_{sm}: no {limit}"


def test_a_document_has_the_table_of_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = Sources(tmp_path, tmp_path / "page.md")
    assert resources_figure(sources, "resources") == "not measured"
    assert main(["plugins", "maxpool2", "--resources", "7.5", "9.0", "--json"]) == 0
    (tmp_path / "resources.json").write_text(capsys.readouterr().out)
    assert main(["plugins", "maxpool2", "--resources", "7.5", "9.0"]) == 0
    assert resources_figure(sources, "resources") == capsys.readouterr().out.rstrip("\n")
