"""Records: what is written is what is read; what is damaged or from elsewhere is refused; tables and CSV show all."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_data import record, stats
from lenet_trt.bench import suite
from lenet_trt.bench.compare import compare
from lenet_trt.bench.record import KEPT_SAMPLES, SCHEMA, Record, Row, as_json, load_record, parse
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.bench.tables import duration, record_warnings, rows_markdown, standard_columns, table, to_csv
from lenet_trt.cuda.statistics import summarize
from lenet_trt.errors import LenetTrtError, UsageError

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
CASES = st.dictionaries(st.text("abc_", max_size=6), st.integers(-(2**40), 2**40) | NAMES, max_size=3)
PLAIN = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6) | NAMES
ROWS = st.builds(
    lambda name, case, times, why, extra: Row(name, case, summarize(times) if times else None, why, extra),
    NAMES,
    CASES,
    st.lists(st.floats(0, 1e7), max_size=8),
    NAMES.filter(bool),
    st.dictionaries(st.text("defg_", max_size=6), PLAIN, max_size=3),
)
SMALL = record(Row("ours", {"batch": 1}, stats(5)), Row("peer", {"batch": 1}, None, "not installed"))


@given(st.lists(ROWS, max_size=5), st.lists(NAMES, max_size=2), st.booleans())
def test_a_record_survives_json(rows: list[Row], notes: list[str], interrupted: bool) -> None:
    before = record(*rows, notes=tuple(notes), interrupted=interrupted, seconds=1.5)
    text = as_json(before)
    after = parse(text, "it")
    assert as_json(after) == text
    assert [(r.backend, r.case, r.why, r.extra) for r in after.rows] == [
        (r.backend, r.case, r.why, r.extra) for r in before.rows
    ]
    assert (after.notes, after.interrupted, after.environment) == (tuple(notes), interrupted, before.environment)


def test_a_row_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(as_json(SMALL))
    assert len([line for line in path.read_text().splitlines() if '"backend"' in line]) == len(SMALL.rows)
    assert load_record(path).find("ours", batch=1) is not None
    assert load_record(path).find("ours", batch=2) is None


def test_single_timings_are_kept_while_they_are_few() -> None:
    few = parse(as_json(SMALL), "it").rows[0].stats
    assert few is not None
    assert len(few.samples_us) == few.count == 40
    many = record(*(Row(f"r{i}", {}, stats(5, count=1000)) for i in range(KEPT_SAMPLES // 1000 + 1)))
    text = as_json(many)
    assert "samples_us" not in text
    assert len(text) < 10_000


def test_a_row_has_timings_or_a_reason() -> None:
    with pytest.raises(LenetTrtError, match="neither timings nor a reason"):
        Row("ours", {"batch": 1})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "is not a record"),
        ('{"schema": 1, "workloads": []}', "is not a record"),
        (as_json(SMALL).replace(f'"schema": {SCHEMA}', '"schema": 99'), "schema 99; this version reads"),
        (as_json(SMALL).replace('"suite": "sweep"', '"suite": 5'), "is not a record"),
        (as_json(SMALL).replace('"rows"', '"lines"'), "it has no rows"),
        (as_json(SMALL).replace('"count": 40', '"count": "many"'), "is not a record"),
        (as_json(SMALL).replace('"why": "not installed"', '"reason": 1'), "neither timings"),
        (as_json(SMALL).replace('"case": {"batch": 1}', '"case": 7'), "is not a record"),
    ],
)
def test_what_is_no_record_is_refused(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(content)
    with pytest.raises(LenetTrtError, match=said) as error:
        load_record(path)
    assert str(path) in str(error.value)


@given(st.data())
def test_no_damage_ends_in_anything_but_an_error_that_says_so(data: st.DataObject) -> None:
    text = as_json(SMALL)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    changed = text[:start] + data.draw(st.text(max_size=5)) + text[end:]
    try:
        back = parse(changed, "it")
    except LenetTrtError:
        return
    assert as_json(back), "what is taken can be written again"


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LenetTrtError, match="cannot be read"):
        load_record(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LenetTrtError, match="cannot be read"):
        load_record(tmp_path / "b.json")


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), {1, 2}])
def test_what_json_does_not_have_is_refused_when_writing(value: Any) -> None:
    with pytest.raises(LenetTrtError, match="cannot be kept"):
        as_json(record(Row("ours", {}, stats(5), None, {"x": value})))


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0.00 us"),
        (5.024, "5.02 us"),
        (83.58, "83.58 us"),
        (99.996, "100.0 us"),
        (876.7, "876.7 us"),
        (999.6, "1.00 ms"),
        (299_900, "299.9 ms"),
        (1.24e6, "1.24 s"),
        (11.7e6, "11.70 s"),
    ],
)
def test_a_duration_has_its_unit(us: float, text: str) -> None:
    assert duration(us) == text


def test_a_table_is_aligned_and_a_reason_stands_where_figures_would() -> None:
    rows = [Row("ours", {"batch": 1}, stats(5), extra={"error": 1e-7}), *SMALL.rows[1:]]
    made = record(*rows, Row("a far longer name", {"batch": 1024}, stats(5000)))
    heading, ours, cannot, longer = table(made.rows, standard_columns(made)).splitlines()
    assert len(heading) == len(ours) == len(longer)
    assert "1.0e-07" in ours
    assert cannot.endswith("peer               not installed")
    shown = rows_markdown(made.rows, standard_columns(made))
    assert len({line.count("|") for line in shown}) == 1
    assert "not installed" in shown[3]


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_csv_has_a_line_for_each_row_and_all_that_is_plain(rows: list[Row]) -> None:
    made = list(csv.reader(io.StringIO(to_csv(record(*rows)), newline="")))
    assert len(made) == len(rows) + 1
    assert {len(line) for line in made} == {len(made[0])}
    for line, row in zip(made[1:], rows, strict=True):
        assert line[0] == "sweep"
        assert line[1] == " ".join(row.backend.replace("\0", " ").split())
        if row.stats:
            assert str(row.stats.median_us) in line


def test_a_reader_is_warned_of_what_makes_figures_unsure() -> None:
    assert record_warnings(SMALL) == []
    noisy = record(Row("ours", {"batch": 8}, summarize([1.0, 2.0, 3.0, 4.0] * 4, 3, settled=False)), interrupted=True)
    said = " ".join(record_warnings(noisy))
    for part in ("interrupted", "ours (batch 8", "a comparison means little", "still changing"):
        assert part in said
    slowing = record(Row("ours", {}, stats(5)), clocks=[{"sm_mhz": mhz} for mhz in (300, 1980, 1700)])
    assert "1700 to 1980 MHz" in " ".join(record_warnings(slowing))
    shared = record(Row("ours", {}, stats(5)), details={"shared": "the GPU was 80% busy before"})
    assert record_warnings(shared) == ["the GPU was 80% busy before: another process used it"]
    idle_first = record(Row("ours", {}, stats(5)), clocks=[{"sm_mhz": mhz} for mhz in (300, 1980, 1975)])
    assert record_warnings(idle_first) == []


def _two(us: float, **changes: Any) -> Record:
    return record(Row("ours", {"batch": 1}, stats(us)), Row("peer", {"batch": 1}, stats(50)), **changes)


def test_only_what_exceeds_the_noise_has_changed() -> None:
    faster = compare(_two(5), _two(4))
    assert [change.key for change in faster.changed] == ["ours batch=1"]
    assert faster.unchanged == 1
    assert "1.25x faster" in faster.lines()[0]
    assert faster.lines()[-1] == "1 changed by more than the noise, 1 did not"
    assert "1.25x the time" in compare(_two(4), _two(5)).lines()[0]
    assert compare(_two(5), _two(5.04)).changed == ()


@given(st.floats(1, 1e6), st.floats(0.5, 2))
def test_comparing_is_symmetric(us: float, factor: float) -> None:
    there, back = compare(_two(us), _two(us * factor)), compare(_two(us * factor), _two(us))
    changed = [change.key for change in there.changed]
    assert changed == [change.key for change in back.changed] or 0.97 < factor < 1.03
    assert compare(_two(us), _two(us)).changed == ()


def test_rows_that_come_and_go_are_named() -> None:
    old = record(Row("gone", {}, stats(5)), Row("same", {}, stats(5)), Row("mended", {}, None, "no"))
    new = record(Row("same", {}, stats(5)), Row("mended", {}, stats(3)), Row("gone", {}, None, "broke"))
    compared = compare(old, new)
    assert (compared.gone, compared.added, compared.unchanged) == (("gone",), ("mended",), 1)


def test_records_of_other_suites_and_machines_are_not_compared() -> None:
    with pytest.raises(UsageError, match="a record of sweep, and cold was measured"):
        compare(_two(5), _two(5, suite="cold"))
    elsewhere = _two(5, environment={"gpu": "GPU Z", "driver": "1.2"})
    with pytest.raises(UsageError, match="from GPU X, the new one from GPU Z"):
        compare(_two(5), elsewhere)
    newer = _two(5, environment={**SMALL.environment, "driver": "2.0", "packages": {"torch": "10"}}, interrupted=True)
    said = compare(_two(5), newer).warnings
    assert said == ("driver was 1.2 and is 2.0", "torch was 9.9 and is 10", "the new run was interrupted")


def test_json_says_what_format_it_is() -> None:
    data = json.loads(as_json(SMALL))
    assert (data["format"], data["schema"]) == ("lenet-trt bench", SCHEMA)


def test_a_suite_that_is_killed_leaves_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "KEPT_EVERY_S", 0.0)
    path = tmp_path / "sorting.json"
    earlier = [Row("max", {"n": n}, stats(1.0)) for n in (1, 2)]
    options = SuiteOptions(resume=record(*earlier, suite="sorting"), record=path)
    again = Row("max", {"n": 1}, stats(3.0))
    with suite.recording("sorting", options) as found:
        found.add(again)
        kept = load_record(path)
        assert kept.interrupted
        assert [row.key for row in kept.rows] == ["max n=1", "max n=2"], "what the resumed record has is kept too"
        assert kept.rows[0].stats
        assert kept.rows[0].stats.median_us > 2
    assert not found.finish().interrupted


def test_the_record_is_not_written_after_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "KEPT_EVERY_S", 1e9)
    path = tmp_path / "sorting.json"
    with suite.recording("sorting", SuiteOptions(record=path)) as found:
        found.add(Row("max", {"n": 1}, stats(1.0)))
    assert not path.exists()
