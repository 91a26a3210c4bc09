"""Tuned choices in a kernel's data: the C++ library takes the variant that Python takes."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from declared_kernels import declared
from kernel_data import section, with_number
from lenet_trt.kernel import registry
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.choice import TunedChoice
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.examples import bounds
from lenet_trt.tensorrt.library.encode import MUST_KNOW, TUNED, TunedGpu
from lenet_trt.tensorrt.library.tuned_data import tuned_names
from library_probes import Core, data_of, text_of

H200 = "NVIDIA H200"
SIZES = {"multiprocessors": 132}
TURING = "GeForce RTX 2080"
KERNELS = (
    "lenet5",
    "batched_matvec",
    "lenet5_int8",
    "dense_bias_relu",
    "softmax",
    "topk",
    "layer_norm",
    "depthwise_conv",
    "max_pool",
)


def drawn_choices(kernel: Kernel, calls: list[Bound], rng: np.random.Generator) -> tuple[TunedChoice, ...]:
    """Choices around calls, of variants that can run them and of others."""
    found = []
    free = next(axis.name for axis in kernel.axes if not axis.static)
    for bound in calls:
        size = bound.axes[free]
        attributes = {a.name: bound.attributes[a.name] for a in kernel.attributes if a.type_name != "float"}
        found.append(
            TunedChoice(
                types=bound.types.name,
                attributes=attributes,
                axes={name: value for name, value in bound.axes.items() if name != free},
                free=free,
                least=max(size - int(rng.integers(0, 3)), 0),
                most=size + int(rng.integers(-1, 3)),
                variant=str(rng.choice([variant.name for variant in kernel.variants])),
            )
        )
    return tuple(found)


@pytest.mark.parametrize("known", [False, True], ids=["open sizes", "known sizes"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_choice_is_pythons_on_the_gpu_that_was_measured_and_declared_elsewhere(
    core: Core, tmp_path: Path, name: str, known: bool
) -> None:
    kernel = registry.kernel(name)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    calls = list(bounds(kernel))[:60]
    choices = drawn_choices(kernel, [*calls, *calls], rng)
    tuned = [
        TunedGpu("another GPU", 90, 132, choices[::-1]),
        TunedGpu(H200, 90, 132, choices),
        TunedGpu(TURING, 75, 46, choices),
    ]
    taken = 0
    for bound in calls:
        data = tmp_path / "data"
        every = [axis.name for axis in kernel.axes] if known else []
        data.write_bytes(data_of(bound, ["sm_90", "sm_75"], every, tuned=tuned))
        assert core.ask("load", data).startswith("ok")
        shapes = (text_of(bound.input_shapes), "/", text_of(bound.output_shapes))

        def planned(sm: int, multiprocessors: int, shared_kib: int, shapes: tuple[str, ...] = shapes) -> str:
            return core.ask("plan", sm, multiprocessors, 1024 * shared_kib, -1, *shapes).split()[1]

        core.ask("gpu", H200)
        wanted = bound.variant(90, SIZES, choices)
        declared_one = bound.variant(90, SIZES)
        assert bound.fits(wanted)
        assert wanted.supports(90, bound.types)
        assert planned(90, 132, 227) == wanted.name
        assert planned(90, 130, 227) == bound.variant(90, {"multiprocessors": 130}).name, "a part of that GPU"
        assert planned(75, 132, 64) == bound.variant(75, SIZES).name, "what was measured on sm_90"
        core.ask("gpu", "NVIDIA H200 NVL")
        assert planned(90, 132, 227) == declared_one.name
        core.ask("gpu", TURING)
        assert planned(75, 46, 64) == bound.variant(75, {"multiprocessors": 46}, choices).name
        core.ask("gpu", "another GPU")
        assert planned(90, 132, 227) == bound.variant(90, SIZES, choices[::-1]).name
        core.ask("gpu", H200)
        taken += wanted is not declared_one
    assert taken, "nothing was seen of the tuned choices"


def lenet5_with(variant: str, least: int = 1, most: int = 8) -> bytes:
    kernel = registry.kernel("lenet5")
    bound = kernel.bind_axes({"n": 3}, kernel.types_named("fp32"))
    choice = TunedChoice("fp32", {}, {}, "n", least, most, variant)
    return data_of(bound, ["sm_90", "sm_86"], tuned=[TunedGpu(H200, 90, 132, (choice,))])


def test_the_data_says_for_which_gpus_it_has_choices() -> None:
    assert tuned_names(lenet5_with("portable")) == [H200]
    kernel = registry.kernel("lenet5")
    bound = kernel.bind_axes({"n": 3}, kernel.types_named("fp32"))
    choices = [TunedChoice("fp32", {}, {}, "n", least, 9, "portable") for least in range(5)]
    tuned = [TunedGpu(name, 90, 132, tuple(choices[:count])) for name, count in (("a", 1), ("b", 5), ("c", 2))]
    assert tuned_names(data_of(bound, ["sm_90"], tuned=tuned)) == ["a", "b", "c"]
    assert tuned_names(data_of(bound, ["sm_90"])) == []


def test_a_library_that_does_not_know_the_section_passes_over_it() -> None:
    assert not section(lenet5_with("portable"), TUNED).flags & MUST_KNOW


def test_what_cannot_count_is_left_out() -> None:
    plain = lenet5_with("no_such_variant")
    with pytest.raises(AssertionError, match="there is no section"):
        section(plain, TUNED)
    kernel = declared("leaky_relu")
    bound = kernel.bind_axes(kernel.examples[0], kernel.types[0])
    free = next(axis.name for axis in kernel.axes if not axis.static)
    other = TunedChoice("another type", {}, {}, free, 0, 9, kernel.variants[0].name)
    assert data_of(bound, ["sm_90"], tuned=[TunedGpu(H200, 90, 132, (other,))]) == data_of(bound, ["sm_90"])


def test_a_choice_of_a_variant_that_is_not_there_is_refused(core: Core, tmp_path: Path) -> None:
    data = lenet5_with("portable")
    _, begin, size = section(data, TUNED)
    (tmp_path / "data").write_bytes(with_number(data, begin + size - 2, 63))
    assert "a tuned choice names a variant that is not there" in core.ask("load", tmp_path / "data")
