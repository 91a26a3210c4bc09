"""The ledger: known timelines give exactly the terms worked out by hand, and terms always add up."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lenet_trt.errors import LenetTrtError
from lenet_trt.trace.accounting.slices import AFTER_LAST, NO_SUBMISSION, NO_WORK, OTHER_INFERENCE
from lenet_trt.trace.ledger import TERMS, Ledger, Terms, ledger_of
from lenet_trt.trace.timeline import Activity, ApiCall, Iteration, Timeline
from random_timelines import happenings, random_timeline, spans
from traced import CEILINGS, PERIOD_US, call, copy, kernel, node, repeated, timeline


def adds_up(found: Ledger) -> None:
    """Exactly: not nearly."""
    assert found.total.total_us == found.end_to_end_us
    assert sum(row.terms.total_us for row in found.rows) == found.end_to_end_us
    for entry in fields(Terms):
        assert sum(getattr(row.terms, entry.name) for row in found.rows) == getattr(found.total, entry.name)
        assert all(getattr(row.terms, entry.name) >= 0 for row in found.rows), entry.name


PLAIN = [
    call(1, 4),  # the host is late until 4
    kernel(6, 26, "conv"),  # 2 us of launch gap; 20 us, of which 5 are the floor
    call(10, 12),
    kernel(27, 31, "pool", call=1),  # a gap of 1
    copy(33, 40, "DtoH", call=1),  # a gap of 2, and a copy
]
NODES = [("conv", 5_000_000), ("pool", 3_000_000)]


def nodes() -> list[Any]:
    return [node(name, read=size) for name, size in NODES]


def test_a_plain_inference_in_terms_worked_out_by_hand() -> None:
    found = ledger_of(repeated(50, PLAIN), nodes(), CEILINGS)
    assert found.total == Terms(
        floor_us=8, inefficiency_us=16, copies_us=7, launch_gaps_us=5, host_enqueue_us=4, residual_us=10
    )
    assert found.end_to_end_us == 50
    assert [row.node for row in found.rows] == ["conv", "pool", None]
    conv, pool, rest = found.rows
    assert conv.terms == Terms(floor_us=5, inefficiency_us=15, launch_gaps_us=2, host_enqueue_us=4)
    assert pool.terms == Terms(floor_us=3, inefficiency_us=1, launch_gaps_us=1)
    assert rest.terms == Terms(copies_us=7, launch_gaps_us=2, residual_us=10)
    assert found.residual == {AFTER_LAST: 10}
    assert (conv.op, conv.kernels, conv.launches, conv.roof_us) == ("Conv", ("k",), 1, 5)
    assert found.floor_from == "a GPU of round figures, measured"
    adds_up(found)


def test_without_ceilings_or_model_kernel_time_is_one_term_and_it_is_said() -> None:
    for given_nodes, ceilings, missing in ((None, CEILINGS, "the model"), (nodes(), None, "ceilings")):
        found = ledger_of(repeated(50, PLAIN), given_nodes, ceilings)
        assert found.total.unjudged_us == 24
        assert found.total.floor_us == found.total.inefficiency_us == 0
        assert not found.floor_known
        assert any(missing in note for note in found.notes)
        assert found.floor_from is None
        adds_up(found)


def test_a_kernel_quicker_than_its_roof_has_no_negative_inefficiency() -> None:
    found = ledger_of(repeated(50, PLAIN), [node("conv", read=30_000_000)], CEILINGS)
    conv = found.row("conv")
    assert conv is not None
    assert (conv.terms.floor_us, conv.terms.inefficiency_us, conv.roof_us) == (20, 0, 30)
    assert any("L2" in note and "conv" in note for note in found.notes)
    pool = found.row("pool")
    assert pool is not None
    assert pool.terms.unjudged_us == 4, "a node that the model does not tell of has no floor"
    adds_up(found)


def test_what_overlaps_is_counted_once_and_a_copy_behind_a_kernel_is_free() -> None:
    happens = [
        call(0, 0),
        kernel(0, 10, "a", stream=1),
        kernel(5, 15, "b", stream=2),
        copy(8, 20, "HtoD", stream=3),
    ]
    found = ledger_of(repeated(20, happens), [node("a", read=1), node("b", read=1)], CEILINGS)
    assert [row.terms.kernel_us for row in found.rows] == [10, 5, 0]
    assert found.total.copies_us == 5
    assert found.end_to_end_us == 20
    adds_up(found)


def test_reformats_count_as_copies_by_name_and_by_operator() -> None:
    happens = [
        call(0, 0),
        kernel(0, 3, "conv", name="void cudnn::ops::nchwToNhwcKernel<float>"),
        kernel(3, 10, "conv", name="sm90_xmma_fprop"),
        kernel(10, 14, "turn", name="elementwise_kernel"),
        Activity("layer", "Reformatting CopyNode for Input Tensor 0 to conv", 14, 16, correlation=0),
        kernel(16, 18, "other", name="fill", call=0),
        Activity("memset", "memset", 18, 19, correlation=0),
    ]
    found = ledger_of(repeated(19, happens), [node("conv", read=1_000_000), node("turn", "Transpose")], CEILINGS)
    assert found.total == Terms(floor_us=1, inefficiency_us=6, unjudged_us=2, copies_us=10)
    adds_up(found)


def test_a_graph_launch_submits_all_its_kernels_at_once() -> None:
    happens = [call(2, 7, "cudaGraphLaunch"), kernel(9, 12, "a"), kernel(13, 15, "b"), call(7.5, 20, "cudaEventSync")]
    found = ledger_of(repeated(21, happens), None, None)
    assert found.total == Terms(unjudged_us=5, launch_gaps_us=3, host_enqueue_us=7, residual_us=6)
    adds_up(found)


def test_a_call_that_returns_after_its_kernel_began_makes_no_gap() -> None:
    found = ledger_of(repeated(12, [call(0, 11), kernel(4, 12)]), None, None)
    assert found.total == Terms(unjudged_us=8, host_enqueue_us=4)


def test_of_a_runtime_call_and_the_driver_call_within_it_the_outer_one_counts() -> None:
    trace = repeated(12, [call(0, 5), kernel(8, 12)], count=1)
    inner = replace(trace.api_calls[0], name="cuLaunchKernel", start_us=2.0, end_us=3.0)
    for calls in ((inner, *trace.api_calls), (*trace.api_calls, inner)):
        assert ledger_of(replace(trace, api_calls=calls)).total.host_enqueue_us == 5


def test_idle_time_without_a_known_submission_is_residual() -> None:
    found = ledger_of(repeated(10, [kernel(4, 10, call=None)]), None, None)
    assert found.total == Terms(unjudged_us=6, residual_us=4)
    assert found.residual == {NO_SUBMISSION: 4}


def test_an_inference_without_gpu_work_is_residual() -> None:
    found = ledger_of(timeline([(30, [])]), None, None)
    assert found.total == Terms(residual_us=30)
    assert found.residual == {NO_WORK: 30}
    assert found.row(None) is not None


def test_time_that_the_gpu_gives_another_inference_is_told() -> None:
    trace = Timeline(
        "hand",
        iterations=(Iteration(0, 0, 20), Iteration(1, 5, 30)),
        activities=(
            Activity("kernel", "k", 2, 18, iteration=0, correlation=1),
            Activity("kernel", "k", 18, 30, iteration=1, correlation=2),
        ),
        api_calls=(ApiCall("launch", 0, 1, correlation=1), ApiCall("launch", 5, 6, correlation=2)),
    )
    found = ledger_of(trace)
    assert found.used == (0, 1)
    assert found.residual == {OTHER_INFERENCE: 7.5}
    assert found.end_to_end_us == 22.5
    adds_up(found)


def test_work_outside_of_any_inference_is_not_in_it() -> None:
    trace = repeated(50, PLAIN)
    stray = (Activity("kernel", "warmup", 60, 900), Activity("kernel", "later", PERIOD_US + 51, PERIOD_US + 80))
    assert ledger_of(replace(trace, activities=(*trace.activities, *stray))).total == ledger_of(trace).total
    late = replace(trace.activities[-1], start_us=7 * PERIOD_US + 45, end_us=7 * PERIOD_US + 65)
    found = ledger_of(replace(trace, activities=(*trace.activities[:-1], late), iterations=trace.iterations[7:]))
    assert any("15.0 us of GPU work" in note for note in found.notes)
    adds_up(found)


def test_activities_that_name_no_inference_belong_to_the_one_they_run_in() -> None:
    trace = repeated(50, PLAIN)
    unnamed = replace(trace, activities=tuple(replace(entry, iteration=None) for entry in trace.activities))
    assert ledger_of(unnamed, nodes(), CEILINGS).rows == ledger_of(trace, nodes(), CEILINGS).rows


def test_a_trace_without_inferences_is_taken_as_one() -> None:
    trace = replace(repeated(50, PLAIN, count=1), iterations=())
    found = ledger_of(trace)
    assert found.end_to_end_us == 39, "from the first call to the end of the copy"
    assert found.iterations == 1
    assert any("marks no inferences" in note for note in found.notes)
    with pytest.raises(LenetTrtError, match="holds no inference"):
        ledger_of(Timeline("hand"))


def test_inferences_that_end_before_they_begin_are_left_out() -> None:
    trace = repeated(50, PLAIN, count=4)
    broken = replace(trace, iterations=(*trace.iterations, Iteration(9, 5, 1)))
    found = ledger_of(broken)
    assert found.iterations == 4
    assert any("end before they begin" in note for note in found.notes)


@pytest.mark.parametrize(("count", "used"), [(1, 1), (2, 2), (3, 1), (4, 2), (5, 3), (8, 4), (11, 7)])
def test_the_slowest_and_quickest_quarter_are_left_out(count: int, used: int) -> None:
    lengths = [50.0 + (1000 if at == 0 else at) for at in range(count)]
    found = ledger_of(timeline([(length, PLAIN) for length in lengths]))
    assert len(found.used) == used
    if count > 2:
        assert 0 not in found.used, "the cold one"
    assert found.end_to_end_us == pytest.approx(sum(lengths[at] for at in found.used) / used, abs=1e-4)
    adds_up(found)


def test_the_profilers_inflation_is_stated() -> None:
    found = ledger_of(repeated(50, PLAIN, unprofiled_us=40.0))
    assert found.inflation is not None
    assert (found.inflation.added_us, found.inflation.share) == (10, 0.25)
    assert ledger_of(repeated(50, PLAIN)).inflation is None


def test_kernels_that_name_no_node_are_held_against_the_whole_network() -> None:
    happens = [call(0, 1), kernel(2, 22), kernel(22, 32)]
    found = ledger_of(repeated(32, happens), nodes(), CEILINGS)
    (row,) = found.rows
    assert row.terms.floor_us == 8, "5 + 3 MB: nothing is handed on, since none of it is written"
    assert any("the whole network" in note for note in found.notes)
    adds_up(found)


def test_layers_of_an_engine_are_held_against_the_nodes_in_them() -> None:
    model = [
        node("/conv1/Conv", "Conv", read=4_000_000, written=2_000_000),
        node("/relu1/Relu", "Relu", read=2_000_000, written=2_000_000),
        node("fc1", "Gemm", read=3_000_000, written=1_000_000),
        node("fc2", "Gemm", read=1_000_000, written=1_000_000),
    ]
    happens = [
        call(0, 0),
        kernel(0, 20, "/conv1/Conv + PWN(/relu1/Relu)"),
        kernel(20, 40, "{ForeignNode[fc1...fc2]}"),
        kernel(40, 41, "somebody else's"),
    ]
    found = ledger_of(repeated(41, happens), model, CEILINGS)
    assert [row.nodes for row in found.rows] == [("/conv1/Conv", "/relu1/Relu"), ("fc1", "fc2"), ()]
    assert [row.roof_us for row in found.rows] == [6, 4, None], "what is handed on does not go through memory"
    assert found.rows[0].op == "Conv + Relu"
    adds_up(found)


def test_rows_stand_in_the_models_order_whatever_the_traces() -> None:
    happens = [call(0, 0), kernel(0, 1, "pool"), kernel(1, 2, "conv"), kernel(2, 3, "unknown"), kernel(3, 4)]
    found = ledger_of(repeated(4, happens), nodes(), CEILINGS)
    assert [row.node for row in found.rows] == ["conv", "unknown", "pool", None]


def test_the_ledger_as_json_says_the_same() -> None:
    found = ledger_of(repeated(50, PLAIN, unprofiled_us=45.0), nodes(), CEILINGS)
    data = json.loads(json.dumps(found.as_dict()))
    assert sum(data["total"].values()) == data["end_to_end_us"] == 50
    assert list(data["terms"]) == list(TERMS) == list(data["total"])
    assert [row["node"] for row in data["rows"]] == ["conv", "pool", None]


@given(happenings, spans, spans, st.booleans())
def test_whatever_happened_terms_add_up_and_none_is_negative(
    happens: list[Any], inferences: list[Any], calls: list[Any], floors: bool
) -> None:
    trace = random_timeline(happens, inferences, calls)
    try:
        found = ledger_of(trace, nodes() if floors else None, CEILINGS if floors else None)
    except LenetTrtError:
        assert not any(entry.us > 0 for entry in trace.iterations)
        return
    adds_up(found)
    durations = [entry.us for entry in trace.iterations if entry.us > 0 and entry.index in found.used]
    if durations:
        assert found.end_to_end_us == pytest.approx(sum(durations) / len(durations), abs=1e-3)


@given(happenings, spans, spans, st.integers(1, 2**30))
def test_when_it_happened_does_not_matter(
    happens: list[Any], inferences: list[Any], calls: list[Any], later: int
) -> None:
    on_the_grid = random_timeline(happens, inferences, calls)

    def moved(entries: Any, by: float) -> Any:
        whole = 2.0**-10  # so coarse that adding loses nothing
        return tuple(
            replace(
                entry,
                start_us=round(entry.start_us / whole) * whole + by,
                end_us=round(entry.end_us / whole) * whole + by,
            )
            for entry in entries
        )

    def at(by: float) -> Timeline:
        return replace(
            on_the_grid,
            iterations=moved(on_the_grid.iterations, by),
            activities=moved(on_the_grid.activities, by),
            api_calls=moved(on_the_grid.api_calls, by),
        )

    if not any(entry.us > 0 for entry in at(0).iterations):
        return
    assert ledger_of(at(0.0), nodes(), CEILINGS) == ledger_of(at(later / 16), nodes(), CEILINGS)
