"""What decides in ``optimize``: ranking, verdicts and crossings as pure rules, and the loop on a clock of our own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from lenet_trt.cuda.statistics import Stats, summarize
from lenet_trt.errors import LenetTrtError
from lenet_trt.floors.work import network_of
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.optimize.bench import observation
from lenet_trt.optimize.decide import LEAST_GAIN, best, crossings, elsewhere_us, noise_us, promise_us, ranked, verdict
from lenet_trt.optimize.journal import Journal, Remembered
from lenet_trt.optimize.loop import optimize_at
from lenet_trt.optimize.records import Accuracy, Observation, ObservedRow
from lenet_trt.optimize.result import Optimized, optimize
from lenet_trt.optimize.space import PlanChange, PluginPiece, PluginPlan, Space, plan_of
from lenet_trt.optimize.words import trial_text
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor
from lenet_trt.trace.engine import with_layers
from optimize_clock import SLOW, Clock, lenet5_space, stats
from traced import call, kernel, repeated

PLAIN = PluginPlan()
A = PluginPiece("a", ("n1", "n2"))
B = PluginPiece("b", ("n3",))
WHOLE = PluginPiece("whole", ("n1", "n2", "n3"))


def seen(costs: Mapping[str, float]) -> Observation:
    return Observation(sum(costs.values()), tuple(ObservedRow(name, (name,), us, 0.0) for name, us in costs.items()))


def no_floor(nodes: tuple[str, ...]) -> float:
    return 0.0


def test_plans_exchange_what_is_in_the_way() -> None:
    both = plan_of([B, A])
    assert both.pieces == (A, B), "in one order whoever gives them"
    whole, a = plan_of([WHOLE]), plan_of([A])
    for before, new, after in ((both, [WHOLE], whole), (whole, [A], a), (a, [B], both)):
        assert before.change_to(plan_of(new)).applied(before) == after
    assert PlanChange(PLAIN, (A,)).applied(both) == plan_of([B])
    assert len({PLAIN.key, plan_of([A]).key, plan_of([B]).key, both.key}) == 4


def test_a_candidate_promises_what_its_nodes_cost_less_its_floor() -> None:
    now = seen({"n1": 5, "n2": 3, "n3": 10})
    assert promise_us(PLAIN.change_to(plan_of([A])), now, now, {}, no_floor) == 8
    assert promise_us(PLAIN.change_to(plan_of([A])), now, now, {}, lambda nodes: 2.0 * len(nodes)) == 4
    assert promise_us(PLAIN.change_to(plan_of([WHOLE])), now, now, {}, no_floor) == 18


def test_a_candidate_that_pushes_a_plugin_out_pays_for_the_nodes_that_come_back() -> None:
    plain = seen({"n1": 5, "n2": 3, "n3": 10})
    now = seen({"whole": 6})
    names = {WHOLE: "whole"}
    assert promise_us(plan_of([WHOLE]).change_to(plan_of([A])), now, plain, names, no_floor) == 6 - 10
    assert promise_us(plan_of([WHOLE]).change_to(plan_of([B])), now, plain, names, no_floor) == 6 - 8


def test_layers_of_an_engine_count_for_the_nodes_in_them() -> None:
    now = Observation(20, (ObservedRow("n1 + n2", ("n1", "n2"), 12, 1), ObservedRow("n3", ("n3",), 8, 1)))
    assert promise_us(PLAIN.change_to(plan_of([PluginPiece("c", ("n2",))])), now, now, {}, no_floor) == 12


def test_a_trace_without_nodes_promises_all_there_is() -> None:
    blind = Observation(50, (ObservedRow(None, (), 40, 0),))
    assert promise_us(PLAIN.change_to(plan_of([B])), blind, blind, {}, no_floor) == 50
    assert promise_us(PLAIN.change_to(plan_of([B])), Observation(50, ()), blind, {}, no_floor) == 50


def test_what_a_candidate_costs_elsewhere_is_told() -> None:
    """The whole of a broken fusion: n3 was part of its neighbour, and now has a reformat before it."""
    before = Observation(20, (ObservedRow("n1", ("n1",), 5, 0), ObservedRow("n2 + n3", ("n2", "n3"), 12, 0)))
    piece = PluginPiece("c", ("n1",))
    taken, after = PLAIN.change_to(plan_of([piece])), seen({"c": 1, "reformat": 3, "n2 + n3": 13})
    assert elsewhere_us(taken, before, after, {}, {piece: "c"}) == 4
    assert elsewhere_us(taken, Observation(20, ()), after, {}, {piece: "c"}) is None
    assert elsewhere_us(PlanChange(PLAIN, (piece,)), after, before, {piece: "c"}, {}) is None
    instead, part = seen({"whole": 6, "n4": 2}), plan_of([WHOLE]).change_to(plan_of([A]))
    assert elsewhere_us(part, instead, seen({"a": 3, "n3": 1, "n4": 2}), {WHOLE: "whole"}, {A: "a"}) == 1


def test_candidates_are_tried_most_promising_first_and_not_below_the_noise() -> None:
    a, b, whole = (PLAIN.change_to(plan_of([piece])) for piece in (A, B, WHOLE))
    order = ranked({a: 5.0, b: 0.5, whole: 5.0}, noise=0.5)
    assert order.worth == ((whole, 5.0), (a, 5.0)), "of two alike the larger"
    assert order.below == ((b, 0.5),)
    order = ranked({a: 100.0, whole: 98.0, b: 80.0}, noise=5.0)
    assert [change for change, _ in order.worth] == [a, whole, b], "in another step of the noise"
    order = ranked({a: 99.0, whole: 96.0, b: 80.0}, noise=5.0)
    assert [change for change, _ in order.worth] == [whole, a, b], "what replaces more of a region"


def test_leaving_a_piece_out_promises_its_time_less_that_of_its_nodes() -> None:
    plain, now = seen({"n1": 5, "n2": 3, "n3": 10}), seen({"a": 9, "b": 4})
    names = {A: "a", B: "b"}
    assert promise_us(PlanChange(PLAIN, (A,)), now, plain, names, no_floor) == 9 - 8
    assert promise_us(PlanChange(PLAIN, (B,)), now, plain, names, no_floor) == 4 - 10


def test_noise_is_the_spread_of_the_timings_and_never_nothing() -> None:
    assert noise_us(stats(100, 0.5)) == pytest.approx(40, abs=0.5), "eight tenths of 50"
    assert noise_us(stats(100, 0)) == 100 * LEAST_GAIN


@pytest.mark.parametrize(
    ("old", "new", "kept", "why"),
    [
        (stats(100), stats(50), True, "2.00 times"),
        (stats(100), stats(100), False, "not faster"),
        (stats(100), stats(120), False, "not faster"),
        (stats(100, 0.3), stats(90, 0.3), False, "within the noise"),
        (stats(100, 0.001), stats(99, 0.001), False, "by less than 2%"),
        (stats(100, 0.001), stats(97, 0.001), True, "1.03 times"),
    ],
)
def test_the_verdict(old: Stats, new: Stats, kept: bool, why: str) -> None:
    decided = verdict(old, new)
    assert decided.kept is kept
    assert why in decided.reason
    assert f"{old.median_us:,.2f} -> {new.median_us:,.2f}" in decided.reason


def test_a_time_that_jumps_is_still_longer_than_one_below_all_its_timings() -> None:
    """An LSTM's loop took 580 or 1,300 us; its kernel took 66. The timings of the loop spread by more than its gain."""
    jumps = summarize([580.0] * 100 + [1300.0] * 60)
    assert noise_us(jumps) > jumps.median_us - 66
    assert verdict(jumps, stats(66, 0.02)).kept
    assert not verdict(jumps, stats(560, 0.2)).kept


def test_the_preferred_plan_stays_unless_another_is_faster_beyond_the_noise() -> None:
    a, b = plan_of([A]), plan_of([B])
    assert best({PLAIN: stats(100), a: stats(50), b: stats(50.2)}, b) == b
    assert best({PLAIN: stats(100), a: stats(40), b: stats(50)}, b) == a
    assert best({PLAIN: stats(10), a: stats(40)}, a) == PLAIN


def test_where_plans_cross_is_said_and_interpolated() -> None:
    a = plan_of([A])
    times = {n: {PLAIN: stats(n), a: stats(10.0)} for n in (1, 100)}  # they meet at 10
    (crossing,) = crossings({1: PLAIN, 100: a}, times)
    assert (crossing.small, crossing.large, crossing.between) == (PLAIN, a, (1, 100))
    assert crossing.at == pytest.approx(10)
    assert crossings({1: a, 100: a}, times) == []
    (unknown,) = crossings({1: PLAIN, 100: a}, {})
    assert unknown.at is None


def kernels_of(plan: PluginPlan) -> list[str]:
    return [piece.kernel for piece in plan.pieces]


def test_the_space_of_lenet5_has_the_network_and_its_layers() -> None:
    found = {piece.kernel for plan in lenet5_space().candidates for piece in plan.pieces}
    assert found == set(SLOW)
    assert plan_of([]) not in lenet5_space().candidates


def test_layers_of_one_size_are_one_candidate() -> None:
    nodes = "".join(
        f"[dense{i}] d{i} = Gemm<transB = 1>({x}, w{i % 3 == 2:d}, b{i % 3 == 2:d}) [relu{i}] r{i} = Relu(d{i}) "
        for i, x in enumerate(("x", "r0", "r1", "r2", "r3", "r4"))
    )
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> blocks (float[n, 8] x) => (float[n, 8] y) {{
        {nodes} [last] y = Softmax<axis = -1>(r5) }}"""
    )
    for index in (0, 1):
        for name, shape in ((f"w{index}", (8, 8)), (f"b{index}", (8,))):
            model.graph.initializer.append(numpy_helper.from_array(np.full(shape, index, np.float32), name))
    dense = [PluginPiece("dense_bias_relu", (f"dense{i}",)) for i in range(6)]
    with_relu = [PluginPiece("dense_bias_relu", (f"dense{i}", f"relu{i}")) for i in range(6)]
    softmax = PluginPiece("softmax", ("last",))
    wanted = [dense, with_relu, [softmax], [*with_relu, softmax]]
    assert set(Space(onnx.shape_inference.infer_shapes(model)).candidates) == {plan_of(pieces) for pieces in wanted}


def test_a_plan_becomes_a_model_whose_plugin_nodes_are_named() -> None:
    plan = next(p for p in lenet5_space().candidates if kernels_of(p) == ["dense_bias_relu"])
    fitted = lenet5_space().fitted(plan)
    (name,) = fitted.nodes.values()
    assert name in [node.name for node in fitted.model.graph.node if node.op_type == "dense_bias_relu"]


def test_the_whole_network_is_taken_when_it_is_fastest() -> None:
    clock = Clock(lenet5_space(), {**SLOW, "lenet5": 6})
    outcome = optimize_at(1, lenet5_space(), clock)
    assert kernels_of(outcome.plan) == ["lenet5"]
    assert [trial.kept for trial in outcome.trials] == [True], "nothing promises more after that"
    assert [len(plan.pieces) for plan, _ in outcome.observed] == [0, 1]
    assert outcome.passed_over, "what was not tried is said"


def test_layers_are_taken_one_by_one_where_the_whole_network_is_slower() -> None:
    clock = Clock(lenet5_space(), {**SLOW, "conv5x5_bias_relu_pool2": 2, "dense_bias_relu": 1})
    outcome = optimize_at(1, lenet5_space(), clock)
    assert sorted(kernels_of(outcome.plan)) == ["conv5x5_bias_relu_pool2"] * 2 + ["dense_bias_relu"] * 3
    assert outcome.trials[0].kept is False, "the whole network promised most, and was slower"
    assert all(trial.accuracy is not None for trial in outcome.trials)


def layers_space(width: int) -> Space:
    """Three dense layers and a softmax, with an open batch."""
    layers = "".join(f"[dense{i}] d{i + 1} = Gemm<transB = 1>(d{i}, w{i}, b{i}) " for i in range(3))
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> layers (float[n, {width}] d0) => (float[n, {width}] y) {{
        {layers} [last] y = Softmax<axis = -1>(d3) }}"""
    )
    for index in range(3):
        for name, shape in ((f"w{index}", (width, width)), (f"b{index}", (width,))):
            model.graph.initializer.append(numpy_helper.from_array(np.full(shape, index, np.float32), name))
    return Space(onnx.shape_inference.infer_shapes(model))


def test_a_kernel_that_loses_among_others_is_left_out_again() -> None:
    """All together win, 40 us to 28; without the softmax, whose node takes 10 us, they take 18."""
    space = layers_space(512)  # whose kernels claim nothing for one row
    clock = Clock(space, {"linear": 8 / 3, "dense_bias_relu": 20, "softmax": 20})
    outcome = optimize_at(1, space, clock)
    assert kernels_of(outcome.plan) == ["linear"] * 3
    together, left_out = outcome.trials[:2]
    assert sorted(set(kernels_of(together.candidate))) == ["linear", "softmax"]
    assert (left_out.candidate, left_out.after) == (PLAIN, outcome.plan)
    assert left_out.kept
    entry = left_out.as_dict()
    assert trial_text(entry) == "without softmax for last"
    assert not any(plan == PLAIN for plan, _ in outcome.passed_over)


def test_what_is_taken_without_a_measurement_is_tried_first() -> None:
    """Among all plugins the softmax loses: it takes 20 us and its node 10."""
    space = layers_space(8)
    outcome = optimize_at(1, space, Clock(space, {"dense_bias_relu": 8 / 3, "softmax": 20}))
    assert outcome.trials[0].candidate == space.claimed(1) == outcome.plan
    assert [trial.kept for trial in outcome.trials] == [True, False]


def test_layers_in_a_region_of_tensorrts_compiler_promise_the_time_of_the_region() -> None:
    """As TensorRT 8.6.0 names the region of an LSTM: neither end of the name is a layer that a kernel could replace."""
    space, name = layers_space(8), "{ForeignNode[(Unnamed Layer* 70) [LoopOutput][length][Constant]...last]}"
    x, y = (LayerTensor(tensor, (4, 8), "float32") for tensor in ("d0", "y"))
    happens = [call(0, 1, "enqueue"), kernel(2, 102, name)]
    trace = with_layers(repeated(103, happens, period=1000), [EngineLayer(name, "Myelin", inputs=(x,), outputs=(y,))])
    now = observation(trace, network_of(space.model, {"n": 4}).nodes, None)
    promises = {str(change): promise_us(change, now, now, {}, no_floor) for change in space.changes(PLAIN, 4)}
    assert promises["softmax for last"] == pytest.approx(100, abs=1)
    assert len(set(promises.values())) == 1


def test_what_fuse_would_take_for_the_batch_is_a_candidate() -> None:
    space = layers_space(512)
    assert space.claimed(1) == PLAIN, "for one row of 512 the kernel claims nothing"
    claimed = space.claimed(32)
    assert kernels_of(claimed) == ["dense_bias_relu"] * 3
    fused = fuse(with_sizes(space.model, {"n": 32})).model
    assert sorted(plugin_nodes(fused).values()) == kernels_of(claimed)
    assert claimed in [change.candidate for change in space.changes(PLAIN, 32)]
    assert not any(change.candidate == PLAIN for change in space.changes(PLAIN, 1)), "a step that changes nothing"


def test_nothing_is_taken_where_nothing_is_faster_and_no_attempt_is_made_twice() -> None:
    clock = Clock(lenet5_space(), SLOW)
    outcome = optimize_at(1, lenet5_space(), clock)
    assert outcome.plan == PLAIN
    assert not any(trial.kept for trial in outcome.trials)
    assert len(clock.done) == len(set(clock.done))
    assert len(outcome.trials) == len(lenet5_space().candidates)


def test_what_is_left_when_the_time_is_over_is_said_and_not_tried() -> None:
    """The change that is being tried is finished."""
    clock = Clock(lenet5_space(), {**SLOW, "conv5x5_bias_relu_pool2": 2, "dense_bias_relu": 1})
    over = iter((False, False, True))
    outcome = optimize_at(1, lenet5_space(), clock, over=lambda: next(over))
    assert [trial.kept for trial in outcome.trials] == [False, True]
    assert outcome.plan == outcome.trials[1].after
    assert any(us > outcome.noise_us for _, us in outcome.passed_over)
    every = optimize_at(1, lenet5_space(), clock)
    assert not any(us > every.noise_us for _, us in every.passed_over)


def test_a_wrong_kernel_is_refused_however_fast_and_never_timed() -> None:
    clock = Clock(lenet5_space(), {**SLOW, "lenet5": 1}, wrong=frozenset({"lenet5"}))
    outcome = optimize_at(1, lenet5_space(), clock)
    assert "lenet5" not in kernels_of(outcome.plan)
    (trial,) = [trial for trial in outcome.trials if kernels_of(trial.candidate) == ["lenet5"]]
    assert trial.reason == "not accurate enough"
    assert trial.old is None
    assert not any("compare" in step and "lenet5 for" in step for step in clock.done)


def test_what_was_slower_once_is_not_tried_against_something_faster() -> None:
    """Whatever is in its way by then: each plan is compared with another at most once, and once more if it stays."""
    clock = Clock(lenet5_space(), {**SLOW, "maxpool2": 1, "dense_bias_relu": 1, "conv5x5_bias": 1})
    outcome = optimize_at(1, lenet5_space(), clock)
    losers = [trial.after for trial in outcome.trials if not trial.kept]
    assert len(losers) == len(set(losers)) > 1
    assert not set(losers) & {trial.after for trial in outcome.trials if trial.kept}


def test_a_kernel_that_does_not_run_is_passed_over() -> None:
    clock = Clock(lenet5_space(), {**SLOW, "lenet5": 1, "maxpool2": 1}, broken=frozenset({"lenet5"}))
    outcome = optimize_at(1, lenet5_space(), clock)
    assert kernels_of(outcome.plan) == ["maxpool2"] * 2
    assert any("does not run here" in trial.reason for trial in outcome.trials)


def test_what_a_second_run_does_not_confirm_is_not_kept() -> None:
    class Lucky(Clock):
        """The first timing of a candidate comes out as half of what it is."""

        def compare(self, plans: tuple[PluginPlan, ...], batch: int | None, **options: bool) -> tuple[Stats, ...]:
            found = super().compare(plans, batch, **options)
            first = len(plans) == 2 and not plans[0].pieces
            return (found[0], stats(found[1].median_us / 2)) if first else found

    clock = Lucky(lenet5_space(), {**SLOW, "lenet5": 150})  # 120 without it
    outcome = optimize_at(1, lenet5_space(), clock)
    assert outcome.plan == PLAIN
    trial = outcome.trials[0]
    assert "a second run does not confirm" in trial.reason
    assert trial.new is not None
    assert trial.new_again is not None
    assert trial.new_again.median_us == pytest.approx(2 * trial.new.median_us)


def test_without_a_trace_every_candidate_is_tried() -> None:
    clock = Clock(lenet5_space(), {**SLOW, "maxpool2": 1}, traced=False)
    outcome = optimize_at(1, lenet5_space(), clock)
    assert kernels_of(outcome.plan) == ["maxpool2"] * 2
    assert {trial.candidate for trial in outcome.trials} >= set(lenet5_space().candidates) - {outcome.plan}


def test_another_plan_at_another_batch_size_and_where_they_cross() -> None:
    """At batch 1 the plain network takes 120 us, at 100 it takes 12,000; the kernel takes 1,000 at any size."""
    clock = Clock(lenet5_space(), {**SLOW, "lenet5": 1000})
    result: Optimized = optimize((1, 100), lenet5_space(), clock)
    assert result.chosen[1] == PLAIN
    assert kernels_of(result.chosen[100]) == ["lenet5"]
    assert result.gain(100) == pytest.approx(12, rel=0.01)
    assert result.gain(1) == 1
    (crossing,) = result.crossings
    assert crossing.at == pytest.approx(1000 / 120, rel=0.05)
    assert set(result.times[1]) == set(result.times[100]) == {PLAIN, result.chosen[100]}


@pytest.mark.parametrize("problem", ["not accurate enough", LenetTrtError("it does not run with this batch")])
def test_the_plan_of_one_batch_size_is_not_taken_where_it_is_wrong_or_does_not_run(problem) -> None:
    """At batch 1 the kernel is refused, although it would be faster there."""

    class AtOne(Clock):
        def check(self, plan: PluginPlan, batch: int | None) -> Accuracy:
            if batch != 1 or "lenet5" not in kernels_of(plan):
                return super().check(plan, batch)
            if isinstance(problem, LenetTrtError):
                raise problem
            return Accuracy("float64", 1.0, 1e-7, 1e-5, problem=problem)

    result = optimize((1, 100), lenet5_space(), AtOne(lenet5_space(), {**SLOW, "lenet5": 10}))
    assert result.chosen[1] == PLAIN
    assert kernels_of(result.chosen[100]) == ["lenet5"]
    assert set(result.times[1]) == {PLAIN}


def test_what_is_told_at_the_end_had_no_part_in_the_choice(tmp_path: Path) -> None:
    clock = Clock(lenet5_space(), {**SLOW, "lenet5": 10})
    journal = Journal(tmp_path / "state.json", {"run": 1})
    result = optimize((100,), lenet5_space(), Remembered(clock, journal))
    assert clock.done[-1] == f"compare chosen {PLAIN}, {result.chosen[100]}"


def test_an_interrupted_run_goes_on_and_measures_nothing_twice(tmp_path: Path) -> None:
    space = lenet5_space()
    costs = {**SLOW, "conv5x5_bias_relu_pool2": 2, "dense_bias_relu": 1}
    whole = Clock(space, costs)
    wanted = optimize((1, 8), space, Remembered(whole, Journal(tmp_path / "whole.json", {"run": 1})))

    class Interrupted(Clock):
        def compare(self, plans: tuple[PluginPlan, ...], batch: int | None, **options: bool) -> tuple[Stats, ...]:
            if len(self.done) > 9:
                raise KeyboardInterrupt
            return super().compare(plans, batch, **options)

    first, second = Interrupted(space, costs), Clock(space, costs)
    with pytest.raises(KeyboardInterrupt):
        optimize((1, 8), space, Remembered(first, Journal(tmp_path / "state.json", {"run": 1})))
    journal = Journal(tmp_path / "state.json", {"run": 1})
    assert journal.note == f"continuing: {len(first.done)} steps were done before"
    found = optimize((1, 8), space, Remembered(second, journal))
    assert found.chosen == wanted.chosen
    assert found.as_dict() == wanted.as_dict()
    assert len(first.done) + len(second.done) == len(whole.done)
    again = Clock(space, costs)
    assert (
        optimize((1, 8), space, Remembered(again, Journal(tmp_path / "state.json", {"run": 1}))).chosen == found.chosen
    )
    assert again.done == []


def test_a_state_of_something_else_is_not_gone_on_from(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    assert Journal(state, {"model": "a"}).note is None
    Journal(state, {"model": "a"}).step("one", lambda: 1, int)
    assert Journal(state, {"model": "a"}).step("one", lambda: 2, int) == 1
    other = Journal(state, {"model": "b"})
    assert "have changed" in str(other.note)
    assert not other.resumes
    assert not Journal(state, {"model": "a"}, restart=True).resumes
    for damaged in ("{", "[]", '{"schema": 99}'):
        state.write_text(damaged)
        assert "starting again" in str(Journal(state, {"model": "a"}).note)
