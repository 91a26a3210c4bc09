"""What the declared conditions choose, beside the times of all variants in the records of an H200 and an H100."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean

import pytest

from lenet_trt.cuda.tuning_file import TimedCall, Times, Tuning
from lenet_trt.cuda.tuning_record import TuneRecord, read_tuning_record
from lenet_trt.kernel import registry

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "tune.md"
RECORDS = {gpu: read_tuning_record(DOCS / f"results/tune/{gpu}.json") for gpu in ("h200", "h100")}
# Of a record, the sentence of the page with the mean of its calls.
SENTENCES = {
    "h200": "and now takes {mean:.3f} times (geometric means)",
    "h100": "from 1.016 to {mean:.3f} times the time of the fastest one (geometric means)",
}


def chosen_and_fastest(record: TuneRecord, tuning: Tuning) -> Iterator[tuple[TimedCall, Times, Times]]:
    """Yield each call with the times of the variant that is declared for the record's GPU, and of the fastest one.

    A record knows nothing of a variant that was written after it.
    """
    kernel, gpu = registry.kernel(tuning.kernel), record.environment
    examples = {attribute.name: attribute.examples[0] for attribute in kernel.attributes}
    for call in tuning.calls:
        bound = kernel.bind_axes(call.axes, kernel.types_named(call.types), examples | dict(call.attributes))
        declared = bound.variant(gpu["sm"], {"multiprocessors": gpu["multiprocessors"]}).name
        if declared not in call.variants:
            continue
        yield call, call.variants[declared], min(call.variants.values(), key=lambda times: times.median_us)


@pytest.mark.parametrize(
    ("gpu", "tuning"),
    [
        pytest.param(gpu, tuning, id=f"{gpu}-{tuning.kernel}")
        for gpu, record in RECORDS.items()
        for tuning in record.tunings
    ],
)
def test_no_call_takes_a_variant_that_is_much_slower_than_another(gpu: str, tuning: Tuning) -> None:
    slow = [
        (call.types, dict(call.axes), dict(call.attributes), chosen, fastest)
        for call, chosen, fastest in chosen_and_fastest(RECORDS[gpu], tuning)
        if chosen.low_us > 1.3 * fastest.high_us
    ]
    assert not slow


@pytest.mark.parametrize("gpu", RECORDS)
def test_the_page_says_how_near_the_declared_variants_are_to_the_fastest(gpu: str) -> None:
    ratios = [
        chosen.median_us / fastest.median_us
        for tuning in RECORDS[gpu].tunings
        for _, chosen, fastest in chosen_and_fastest(RECORDS[gpu], tuning)
    ]
    assert SENTENCES[gpu].format(mean=geometric_mean(ratios)) in " ".join(PAGE.read_text().split())
