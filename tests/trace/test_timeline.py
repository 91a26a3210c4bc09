"""Timelines are read as they were written, and nothing else is read as one."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lenet_trt.errors import LenetTrtError
from lenet_trt.trace.timeline import Activity, ApiCall, HostRange, Iteration, Timeline, load_timeline, save

TIMES = st.floats(min_value=-1e9, max_value=1e12)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COUNTS = st.none() | st.integers(0, 2**63 - 1)
SIZES = st.none() | st.tuples(*[st.integers(1, 2**31)] * 3)
ACTIVITIES = st.builds(
    Activity,
    kind=st.sampled_from(["kernel", "memcpy", "memset", "layer"]),
    name=TEXT,
    start_us=TIMES,
    end_us=TIMES,
    stream=st.integers(0, 1000),
    iteration=COUNTS,
    node=st.none() | TEXT,
    correlation=COUNTS,
    bytes=COUNTS,
    direction=st.none() | st.sampled_from(["HtoD", "DtoH", "DtoD", "HtoH", "PtoP"]),
    grid=SIZES,
    block=SIZES,
    registers=COUNTS,
    shared_bytes=COUNTS,
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
TIMELINES = st.builds(
    Timeline,
    source=TEXT,
    model=st.none() | TEXT,
    model_sha256=st.none() | TEXT,
    runtime=st.none() | TEXT,
    sizes=st.dictionaries(TEXT, st.integers(0, 2**31), max_size=3),
    environment=st.dictionaries(TEXT, JSON_VALUES, max_size=3),
    unprofiled_us=st.none() | TIMES,
    command=st.none() | TEXT,
    notes=st.lists(TEXT, max_size=3).map(tuple),
    iterations=st.lists(st.builds(Iteration, st.integers(0, 99), TIMES, TIMES), max_size=3).map(tuple),
    activities=st.lists(ACTIVITIES, max_size=5).map(tuple),
    api_calls=st.lists(st.builds(ApiCall, TEXT, TIMES, TIMES, st.integers(0, 99), COUNTS), max_size=3).map(tuple),
    ranges=st.lists(st.builds(HostRange, TEXT, TIMES, TIMES, st.integers(0, 99)), max_size=3).map(tuple),
)


@given(TIMELINES)
@settings(max_examples=60)
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, timeline: Timeline) -> None:
    path = tmp_path_factory.mktemp("timeline") / "timeline.json"
    save(timeline, path)
    assert load_timeline(path) == timeline
    assert [entry.name for entry in path.parent.iterdir()] == ["timeline.json"]


def example() -> dict[str, Any]:
    """A timeline as JSON."""
    timeline = Timeline(
        "nsys",
        iterations=(Iteration(0, 0.0, 4.0),),
        activities=(Activity("kernel", "k", 1.0, 2.5, grid=(1, 1, 1)),),
        api_calls=(ApiCall("cudaLaunchKernel", 0.0, 1.0),),
        ranges=(HostRange("iteration 0", 0.0, 4.0),),
    )
    return {"schema": 1, **json.loads(json.dumps(asdict(timeline)))}


def test_lengths_are_the_difference() -> None:
    assert Activity("kernel", "k", 1.0, 2.5).us == 1.5
    assert ApiCall("c", 1.0, 3.0).us == 2.0
    assert Iteration(0, 1.0, 5.0).us == 4.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 2}, r"no timeline of schema 1 \(its schema: 2\)"),
        ({"schema": None}, r"its schema: None"),
        ({"activities": [{"kind": "kernel"}]}, "is not a timeline"),
        ({"activities": [{"kind": "dance", "name": "k", "start_us": 1, "end_us": 2}]}, "kind is 'dance'"),
        ({"activities": [{"kind": "kernel", "name": "k", "start_us": "soon", "end_us": 2}]}, "start_us is 'soon'"),
        ({"activities": 7}, "is not a timeline"),
        ({"iterations": [3]}, "is not a timeline"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"source": 5}, "source is 5"),
        ({"unprofiled_us": "fast"}, "unprofiled_us is 'fast'"),
        ({"sizes": {"n": "32"}}, "sizes is"),
        ({"environment": []}, "environment is"),
        ({"notes": [1]}, r"notes\[0\] is 1"),
    ],
)
def test_what_is_no_timeline_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**example(), **change}))
    with pytest.raises(LenetTrtError, match=said):
        load_timeline(path)


def test_a_part_that_is_missing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for key in ("source", "activities", "iterations", "api_calls", "ranges", "notes"):
        data = example()
        del data[key]
        path.write_text(json.dumps(data))
        with pytest.raises(LenetTrtError, match="is not a timeline"):
            load_timeline(path)


@pytest.mark.parametrize("value", [math.nan, math.inf, True, None])
def test_times_are_finite_numbers(tmp_path: Path, value: Any) -> None:
    data = example()
    data["iterations"][0]["end_us"] = value
    path = tmp_path / "t.json"
    path.write_text(json.dumps(data))
    with pytest.raises(LenetTrtError, match=r"end_us is|is not JSON"):
        load_timeline(path)


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    text = json.dumps(example())
    for size in (0, 1, len(text) // 2, len(text) - 1):
        path.write_text(text[:size])
        with pytest.raises(LenetTrtError, match=r"t\.json is not JSON"):
            load_timeline(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LenetTrtError, match=r"is not JSON"):
        load_timeline(path)
    with pytest.raises(LenetTrtError, match="cannot be read: No such file"):
        load_timeline(tmp_path / "missing.json")
    path.write_text("[]")
    with pytest.raises(LenetTrtError, match="its schema: None"):
        load_timeline(path)
