"""What the declared conditions choose, beside the times of all variants in the record of an H200."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean

import pytest

from lenet_trt.cuda.tuning_file import TimedCall, Times, Tuning
from lenet_trt.cuda.tuning_record import read_tuning_record
from lenet_trt.kernel import registry
from lenet_trt.kernel.declaration import Kernel

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "tune.md"
RECORD = read_tuning_record(DOCS / "results/tune/h200.json")


def declared(kernel: Kernel, call: TimedCall) -> str:
    """Return the variant that the declaration chooses for a call, on the GPU of the record."""
    attributes = {attribute.name: attribute.examples[0] for attribute in kernel.attributes} | dict(call.attributes)
    bound = kernel.bind_axes(call.axes, kernel.types_named(call.types), attributes)
    gpu = RECORD.environment
    return bound.variant(gpu["sm"], {"multiprocessors": gpu["multiprocessors"]}).name


def chosen_and_fastest(tuning: Tuning) -> Iterator[tuple[TimedCall, Times, Times]]:
    """Yield each call with the times of the declared and of the fastest variant."""
    kernel = registry.kernel(tuning.kernel)
    for call in tuning.calls:
        chosen = call.variants[declared(kernel, call)]
        yield call, chosen, min(call.variants.values(), key=lambda times: times.median_us)


@pytest.mark.parametrize("tuning", RECORD.tunings, ids=lambda tuning: tuning.kernel)
def test_no_call_takes_a_variant_that_is_much_slower_than_another(tuning: Tuning) -> None:
    slow = [
        (call.types, dict(call.axes), dict(call.attributes), chosen, fastest)
        for call, chosen, fastest in chosen_and_fastest(tuning)
        if chosen.low_us > 1.3 * fastest.high_us
    ]
    assert not slow


def test_the_page_says_how_near_the_declared_variants_are_to_the_fastest() -> None:
    ratios = [
        chosen.median_us / fastest.median_us
        for tuning in RECORD.tunings
        for _, chosen, fastest in chosen_and_fastest(tuning)
    ]
    assert f"now takes {geometric_mean(ratios):.3f} times (geometric means)" in PAGE.read_text()
