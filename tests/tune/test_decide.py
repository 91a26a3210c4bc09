"""From times to choices: which variant replaces the declared one, and for which sizes."""

from __future__ import annotations

import itertools
from functools import cache
from math import isqrt

import numpy as np
import pytest

from lenet_trt.cuda.statistics import Stats, summarize
from lenet_trt.kernel import registry
from lenet_trt.kernel.choice import TunedChoice
from lenet_trt.tune.decide import beats, challenger, choices
from lenet_trt.tune.ladders import MOST_BYTES, Ladder, ladders, ladders_in_turns

H200 = {"multiprocessors": 132}
KERNELS = tuple(registry.kernels())


def times(median: float, spread: float = 0.002, count: int = 40) -> Stats:
    rng = np.random.default_rng(int(1000 * median))
    return summarize(median * np.exp(spread * rng.standard_normal(count)))


@pytest.mark.parametrize(
    ("other", "spread", "tried", "wins"),
    [
        (8.0, 0.002, True, True),
        (9.9, 0.002, False, False),
        (8.0, 0.2, True, False),
        (9.5, 0.5, False, False),
        (12.0, 0.002, False, False),
    ],
    ids=["faster", "hardly faster", "in the spread", "in the noise", "slower"],
)
def test_a_variant_wins_only_beyond_the_noise(other: float, spread: float, tried: bool, wins: bool) -> None:
    found = {"declared": times(10.0, spread), "other": times(other, spread)}
    assert challenger(found, "declared") == ("other" if tried else None)
    assert beats(found["other"], found["declared"]) is wins


def test_the_fastest_of_several_wins() -> None:
    found = challenger({"a": times(10.0), "b": times(8.0), "c": times(6.0), "d": times(20.0)}, "a")
    assert found == "c"
    assert challenger({"b": times(8.0)}, "a") is None, "the declared one was not timed"


def lenet5_ladder(sm: int = 90) -> Ladder:
    return next(each for each in ladders(registry.kernel("lenet5"), sm) if each.types.name == "fp32")


def declared_at(ladder: Ladder, size: int, sm: int = 90) -> str:
    return ladder.call(size).variant(sm, H200).name


def found_choices(tuned: dict[int, str]) -> list[TunedChoice]:
    ladder = lenet5_ladder()
    timed = [bound.axes["n"] for bound in ladder.rungs]
    return choices(ladder, tuned, timed, lambda size: declared_at(ladder, size))


def test_a_choice_reaches_half_way_and_not_past_a_change_of_what_is_declared() -> None:
    # The declaration has cluster2 from 29 to 66 images; half-way from 64 would be 32 and 128.
    (choice,) = found_choices({64: "portable"})
    assert (choice.least, choice.most, choice.variant) == (33, 66, "portable")
    (choice,) = found_choices({1024: "portable2"})
    assert (choice.least, choice.most) == (513, 2048)
    (choice,) = found_choices({1: "portable"})
    assert (choice.least, choice.most) == (1, 2)


def test_the_last_size_that_was_timed_is_the_last_that_is_known() -> None:
    ladder = lenet5_ladder()
    last = ladder.rungs[-1].axes["n"]
    (choice,) = found_choices({last: "portable2"})
    assert choice.most == last
    assert choice.least == isqrt(ladder.rungs[-2].axes["n"] * last) + 1


def test_neighbours_with_one_variant_are_one_choice() -> None:
    (choice,) = found_choices({1024: "portable2", 4096: "portable2"})
    assert (choice.least, choice.most) == (513, 8192)
    assert [c.variant for c in found_choices({1024: "portable2", 4096: "portable"})] == ["portable2", "portable"]
    assert found_choices({}) == []


@cache
def ladders_of(name: str) -> list[Ladder]:
    return ladders(registry.kernel(name), 90)


@pytest.mark.parametrize("name", KERNELS)
def test_a_tuned_choice_never_gives_what_cannot_run(name: str) -> None:
    """Even where it names any variant at all, for any size: of another architecture, other types or sizes."""
    kernel = registry.kernel(name)
    free = next(axis.name for axis in kernel.axes if not axis.static)
    for ladder, sm in itertools.product(ladders_of(name)[:6], (75, 87, 89, 90, 120)):
        for bound in (ladder.rungs[0], ladder.rungs[-1]):
            can, declared = bound.runnable(sm), bound.variant(sm, H200)
            for variant in kernel.variants:
                choice = TunedChoice(
                    bound.types.name, ladder.attributes, ladder.fixed, free, 0, 2**31 - 1, variant.name
                )
                taken = bound.variant(sm, H200, (choice,))
                assert taken.supports(sm, bound.types)
                assert bound.fits(taken)
                assert taken is (variant if variant in can else declared)


@pytest.mark.parametrize("name", KERNELS)
def test_the_ladders_are_calls_with_a_choice(name: str) -> None:
    for ladder in ladders_of(name):
        sizes = [bound.axes[ladder.free] for bound in ladder.rungs]
        assert sizes == sorted(set(sizes))
        for bound in ladder.rungs:
            assert len(bound.runnable(90)) > 1
            assert bound.dram_bytes <= MOST_BYTES
            assert {**ladder.fixed, ladder.free: bound.axes[ladder.free]} == dict(bound.axes)
        assert ladder.call(sizes[-1]).axes == ladder.rungs[-1].axes


def test_kernels_and_types_take_turns() -> None:
    every = [ladders(registry.kernel(name), 90) for name in ("softmax", "lenet5")]
    order = list(ladders_in_turns(every))
    assert [ladder.kernel.name for ladder in order[:4]] == ["softmax", "lenet5"] * 2
    assert [ladder.types.name for ladder in every[0][:3]] == ["fp32", "fp16", "bf16"]
    assert len(order) == sum(map(len, every))


def test_an_attribute_that_is_a_real_number_does_not_bind_a_choice() -> None:
    ladder = ladders(registry.kernel("layer_norm"), 90)[0]
    assert ladder.attributes == {}
    kernel = ladder.kernel
    choice = TunedChoice(ladder.types.name, {}, ladder.fixed, "rows", 1, 9, "block")
    bound = kernel.bind_axes({**ladder.fixed, "rows": 4}, ladder.types, {"epsilon": 0.25})
    assert bound.variant(90, H200, (choice,)).name == "block"
    other = kernel.bind_axes({**ladder.fixed, "rows": 10}, ladder.types, {"epsilon": 0.25})
    assert other.variant(90, H200, (choice,)).name == other.variant(90, H200).name != "block"
