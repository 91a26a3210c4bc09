"""The suite sweep without a GPU, and where curves cross: found from timings, never from noise."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Mapping
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lenet_trt.bench import sweep
from lenet_trt.bench.__main__ import record_text
from lenet_trt.bench.backends import measure
from lenet_trt.bench.backends.listed import backend, backends
from lenet_trt.bench.backends.protocol import Backend
from lenet_trt.bench.backends.with_onnx import OrtCpuSession
from lenet_trt.bench.crossovers import crossovers, of_pair
from lenet_trt.bench.leads import leaders, sweep_summaries, where_faster
from lenet_trt.bench.record import Record, Row, as_json, parse
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.cuda import timing
from lenet_trt.cuda.gpus import Gpus
from lenet_trt.cuda.statistics import Stats
from lenet_trt.draw.charts import render
from own_clock import OwnClock, own_clock

BATCHES = [1 << power for power in range(15)]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers of a machine without one, wherever the tests run."""
    monkeypatch.setattr(measure, "gpus", lambda: Gpus((), None, "there is none for this test"))


def taken(us: float, noise: float = 0.0) -> Stats:
    """Timings around ``us``, their interval so wide to each side."""
    low, high = us * (1 - noise), us * (1 + noise)
    return Stats(us, low, high, low, high, low, high, 10, 0)


def straight(fixed: float, each: float, noise: float = 0.01) -> dict[int, Stats]:
    """A backend that needs ``fixed`` a call and ``each`` an image."""
    return {n: taken(fixed + each * n, noise) for n in BATCHES}


# Crossovers.

costs = st.floats(0.01, 1e5, allow_nan=False)
curves = st.dictionaries(
    st.sampled_from(BATCHES), st.builds(taken, costs, st.floats(0, 0.5)), min_size=0, max_size=len(BATCHES)
)


def test_a_cheap_start_loses_to_a_cheap_image() -> None:
    (found,) = of_pair("host", "device", straight(1, 10), straight(100, 0.1))
    assert (found.faster, found.slower) == ("device", "host")
    assert (found.before, found.after) == (8, 16)
    assert found.at == pytest.approx(10, rel=0.05)  # 1 + 10 n = 100 + 0.1 n


@given(costs, costs, costs, costs)
def test_straight_lines_cross_where_algebra_says(fixed: float, each: float, fixed2: float, each2: float) -> None:
    found = of_pair("a", "b", straight(fixed, each), straight(fixed2, each2))
    assert len(found) <= 1
    crossing = (fixed2 - fixed) / (each - each2) if each != each2 else -1
    for one in found:
        # Where noise hides the order, the interval is wider, and holds the true crossing all the same.
        assert one.before <= crossing <= one.after
        assert one.before <= one.at <= one.after
        assert one.faster == ("b" if each2 < each else "a")


@given(curves, curves)
def test_what_is_found_is_beyond_doubt(a: dict[int, Stats], b: dict[int, Stats]) -> None:
    found = of_pair("a", "b", a, b)
    times = {"a": a, "b": b}
    for one in found:
        fast, slow = times[one.faster], times[one.slower]
        assert one.before < one.after
        assert one.before <= one.at <= one.after
        assert slow[one.before].high_us < fast[one.before].low_us
        assert fast[one.after].high_us < slow[one.after].low_us
    # They take turns in overtaking, each from where the one before ended or later.
    for first, second in itertools.pairwise(found):
        assert (first.faster, first.slower) == (second.slower, second.faster)
        assert first.after <= second.before


@given(curves, curves)
def test_nothing_is_missed(a: dict[int, Stats], b: dict[int, Stats]) -> None:
    sure = [n for n in sorted(set(a) & set(b)) if a[n].high_us < b[n].low_us or b[n].high_us < a[n].low_us]
    faster = ["a" if a[n].high_us < b[n].low_us else "b" for n in sure]
    changes = sum(x != y for x, y in itertools.pairwise(faster))
    assert len(of_pair("a", "b", a, b)) == changes


@given(curves, curves)
def test_the_order_of_two_does_not_matter(a: dict[int, Stats], b: dict[int, Stats]) -> None:
    one, other = of_pair("a", "b", a, b), of_pair("b", "a", b, a)
    assert [each.as_json() for each in one] == [each.as_json() for each in other]


@given(curves, curves, st.floats(0.1, 10))
def test_the_unit_of_time_does_not_matter(a: dict[int, Stats], b: dict[int, Stats], unit: float) -> None:
    scaled = [
        {n: taken(s.median_us * unit, (s.high_us - s.median_us) / s.median_us) for n, s in curve.items()}
        for curve in (a, b)
    ]
    plain, other = of_pair("a", "b", a, b), of_pair("a", "b", *scaled)
    if len(plain) == len(other):  # rounding may decide where intervals just touch
        assert [each.at for each in plain] == pytest.approx([each.at for each in other], rel=1e-3)


def test_intervals_that_overlap_decide_nothing() -> None:
    noisy = {n: taken(100 * n**0.5, 0.4) for n in BATCHES}
    assert of_pair("a", "b", noisy, {n: taken(100 * n**0.5 * (1.1 if n < 100 else 0.9), 0.4) for n in BATCHES}) == []


def test_batches_of_one_alone_are_left_out() -> None:
    a, b = straight(1, 10), straight(100, 0.1)
    del b[16], a[8]
    (found,) = of_pair("a", "b", a, b)
    assert (found.before, found.after) == (4, 32)


def test_rows_of_every_kind() -> None:
    rows = [Row("a", {"batch": n}, s) for n, s in straight(1, 10).items()]
    rows += [Row("b", {"batch": n}, s) for n, s in straight(100, 0.1).items()]
    rows += [Row("c", {"batch": "any"}, None, "no GPU"), Row("c", {"batch": 4}, None, "left out")]
    (found,) = crossovers(rows)
    assert found.faster == "b"


# The suite.


@pytest.fixture(scope="module")
def record() -> Record:
    patch = pytest.MonkeyPatch()
    patch.setattr(measure, "gpus", lambda: Gpus((), None, "there is none for this test"))
    found = sweep.measure(SuiteOptions(quick=True, batches=(1, 2, 64)))
    patch.undo()
    return found


def test_every_backend_has_a_row(record: Record) -> None:
    cpu = [each.name for each in backends() if each.place == "CPU"]
    assert [row.case["batch"] for row in record.rows if row.backend == "ONNX Runtime CPU"] == [1, 2, 64]
    without = [row for row in record.rows if row.stats is None and row.backend not in cpu]
    assert [row.backend for row in without] == [each.name for each in backends() if each.place == "GPU"]
    assert {row.why for row in without} == {"needs a CUDA GPU: there is none for this test"}
    for row in record.timed:
        assert row.extra["error"] < (2e-2 if row.extra["precision"] == "int8" else 1e-6)
        assert row.extra["us_per_image"] == pytest.approx(row.stats.median_us / row.case["batch"], rel=1e-3)


def test_table_and_picture(record: Record) -> None:
    shown = record_text("sweep", record)
    assert "Fastest backend:" in shown
    assert "needs a CUDA GPU" in shown
    assert as_json(parse(as_json(record), "a test")) == as_json(record)
    (chart,) = sweep.charts(record)
    assert chart.x_log
    assert chart.y_log
    assert "ONNX Runtime CPU" in render([chart], "svg").decode()


# Who is fastest.


def row(backend: str, batch: int, stats: Stats, place: str, precision: str = "fp32") -> Row:
    return Row(backend, {"batch": batch}, stats, None, {"place": place, "precision": precision})


def rows_of(curves: Mapping[str, Mapping[int, Stats]]) -> list[Row]:
    """Backends with CPU in their name are on it, those with fp16 in theirs have that precision."""
    return [
        row(name, n, s, "CPU" if "CPU" in name else "GPU", "fp16" if "fp16" in name else "fp32")
        for name, curve in curves.items()
        for n, s in curve.items()
    ]


def test_a_user_sees_who_is_fastest_and_who_beats_the_cpu() -> None:
    spiked = {**straight(5, 0.1), 8: taken(500.0)}
    fastest, beyond_cpu = sweep_summaries(
        rows_of(
            {
                "torch CPU": straight(1, 10),
                "ONNX Runtime CPU": straight(2, 5),
                "naive": straight(0, 100),
                "eager": straight(50, 0.1),
                "graph, tuned": straight(1, 0.1),
                "spiked": spiked,
                "half, fp16": straight(1, 0.05),
            }
        )
    )
    assert fastest.lines == [
        ["fp32", "1 to 16384", "graph, tuned", "1.10 us to 1.64 ms"],
        ["fp16", "1 to 16384", "half, fp16", "1.05 us to 820.2 us"],
        ["fp32 on the CPU", "1 to 16384", "ONNX Runtime CPU", "7.00 us to 81.92 ms"],
    ]
    assert beyond_cpu.lines == [
        ["graph, tuned", "at every batch measured"],
        ["spiked", "at every batch measured but 8"],
        ["eager", "from a batch of about 10 on"],
        ["naive", "at no batch measured"],
    ]


def test_without_a_gpu_nothing_is_compared_with_one() -> None:
    (found,) = sweep_summaries(rows_of({"torch CPU": straight(1, 10)}))
    assert found.lines == [["fp32", "1 to 16384", "torch CPU", "11.00 us to 163.8 ms"]]


def test_noise_changes_no_lead() -> None:
    even = {n: taken(100.0 + (1 if n in (2, 8, 64) else 0), 0.05) for n in BATCHES}
    odd = {n: taken(100.5, 0.05) for n in BATCHES}
    assert set(leaders({"even": even, "odd": odd}).values()) == {"even"}
    sure = {**odd, 16: taken(50.0, 0.05), 32: taken(50.0, 0.05)}
    # It keeps the lead until it loses it as surely.
    assert leaders({"even": even, "sure": sure}) == {n: "sure" if n >= 16 else "even" for n in BATCHES}


@given(st.dictionaries(st.sampled_from("abc"), curves, min_size=1))
def test_a_leader_is_never_surely_beaten(found: dict[str, dict[int, Stats]]) -> None:
    for batch, name in leaders(found).items():
        best = min((curve[batch] for curve in found.values() if batch in curve), key=lambda s: s.median_us)
        assert not best.high_us < found[name][batch].low_us


@given(curves, curves)
def test_where_it_is_faster_is_true(a: dict[int, Stats], b: dict[int, Stats]) -> None:
    common = sorted(set(a) & set(b))
    below = [n for n in common if a[n].high_us < b[n].low_us]
    above = [n for n in common if b[n].high_us < a[n].low_us]
    said = where_faster(a, b)
    if said == "at every batch measured":
        assert below == common != []
    elif said == "at no batch measured":
        assert not below
    elif match := re.fullmatch(r"from a batch of about (\d+) on", said):
        assert max(above) <= int(match[1]) <= min(below)
    elif match := re.fullmatch(r"up to a batch of about (\d+)", said):
        assert max(below) <= int(match[1]) <= min(above)
    else:
        names = [f"{n}" for n in common]
        spans = re.findall(r"(\d+)(?: to (\d+))?", said)
        told = {n for first, last in spans for n in common if int(first) <= n <= int(last or first)}
        assert {f for span in spans for f in span if f} <= set(names)
        assert told == (set(common) - set(below) if "but" in said else set(below))


class Sleeping(OrtCpuSession):
    """So many seconds for a call and for each image; the first call of each batch takes ``first`` more."""

    def __init__(self, clock: OwnClock, fixed: float, each: float, first: float = 0) -> None:
        super().__init__()
        self.clock, self.fixed, self.each, self.first = clock, fixed, each, first

    def prepare(self, images):
        ready, session = super().prepare(images), self
        inner, left = type(ready).__call__, [self.first]

        class Waiting(type(ready)):
            def __call__(self) -> None:
                session.clock.sleep(session.fixed + session.each * len(images) + (left.pop() if left else 0))
                inner(self)

        ready.__class__ = Waiting
        return ready


def swept(monkeypatch: pytest.MonkeyPatch, batches: tuple[int, ...], *waits: float) -> Record:
    monkeypatch.setattr(sweep, "QUICK_BATCHES", batches)
    slow = partial(Sleeping, own_clock(monkeypatch, timing, measure), *waits)
    return sweep.measure_sweep(
        SuiteOptions(quick=True), [Backend("slow", "", "CPU", slow), backend("ONNX Runtime CPU")]
    )


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        ((1, 8, 32), "left out: a batch of 8 takes 8.* ms, so this would take 3.* ms; --batch 32 measures it"),
        # Eight times as many cannot be foretold, but that four times as many take too long can.
        ((1, 8, 64), "left out: a batch of 8 takes 8.* ms, so one of 32 would take 3.* ms; --batch 64 measures it"),
        ((1, 4, 64), "left out: a call takes 6.* ms; --batch 64 measures it"),
    ],
)
def test_what_would_take_too_long_is_left_out(
    monkeypatch: pytest.MonkeyPatch, batches: tuple[int, ...], why: str
) -> None:
    found = swept(monkeypatch, batches, 0, 0.01)
    assert [row.case["batch"] for row in found.timed if row.backend == "slow"] == [*batches[:-1]]
    left = found.find("slow", batch=batches[-1])
    assert re.fullmatch(why, str(left.why))
    assert found.find("ONNX Runtime CPU", batch=batches[-1]).stats is not None


def test_a_small_batch_does_not_condemn_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # 0.02 s for one image would be 1.3 s for 64 if each took as long, and is 0.02 s.
    found = swept(monkeypatch, (1, 64), 0.02, 0)
    assert [row.case["batch"] for row in found.timed if row.backend == "slow"] == [1, 64]


def test_what_is_made_ready_for_few_batches_says_for_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "QUICK_BATCHES", (1, 2, 4))
    found = sweep.measure_sweep(
        SuiteOptions(quick=True), [Backend("few", "", "CPU", OrtCpuSession, batches=(1, 4, 10_000))]
    )
    assert [row.case["batch"] for row in found.timed] == [1, 4]
    assert str(found.find("few", batch="other").why).startswith("measured at 1, 4 alone")


def test_a_slow_first_call_does_not_condemn_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = swept(monkeypatch, (1,), 0, 0, 0.5)
    assert found.find("slow", batch=1).stats is not None


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = sweep.measure_sweep(
        SuiteOptions(quick=True, batches=(1,)), [backend("torch CPU"), backend("ONNX Runtime CPU")]
    )
    assert "torch is not installed" in str(found.find("torch CPU").why)
    assert found.find("ONNX Runtime CPU", batch=1).stats is not None
