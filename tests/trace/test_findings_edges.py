"""Findings at the edges of their conditions: exactly enough, not quite, and traces that lack a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lenet_trt.trace.accounting.names import bare, is_reformat
from lenet_trt.trace.findings import Finding, findings_of, not_judged
from lenet_trt.trace.ledger import ledger_of
from lenet_trt.trace.timeline import Activity, Timeline
from traced import CEILINGS, call, copy, kernel, node, repeated, timeline


def found(
    trace: Timeline, nodes: Sequence[Any] = (), ceilings: Any = CEILINGS, replaceable: Mapping[str, str] | None = None
) -> list[Finding]:
    return findings_of(trace, ledger_of(trace, nodes, ceilings), nodes, ceilings, replaceable)


def kinds(trace: Timeline, nodes: Sequence[Any] = (), ceilings: Any = CEILINGS) -> list[str]:
    return [entry.kind for entry in found(trace, nodes, ceilings)]


def in_a_graph(*kernels: Any) -> list[Any]:
    return [call(0, 1, "cudaGraphLaunch"), *kernels]


@pytest.mark.parametrize(("count", "many"), [(3, False), (4, True)])
def test_four_small_kernels_are_many(count: int, many: bool) -> None:
    happens = in_a_graph(*(kernel(2 + 4 * at, 5 + 4 * at, f"n{at}") for at in range(count)))
    work = [node(f"n{at}", read=100_000) for at in range(count)]
    result = found(repeated(2 + 4 * count, happens), work)
    assert [entry.kind for entry in result] == ["many_small_launches"] * many
    if many:
        assert result[0].evidence[0] == "4 kernels of 10.0 us or less; one takes 3.0 us"
        assert "/docs/write-a-plugin.md" in result[0].advice
        (advised,) = found(repeated(2 + 4 * count, happens), work, replaceable={"n0": "maxpool2"})
        assert "lenet-trt fuse" in advised.advice


def test_a_kernel_is_small_up_to_four_launches() -> None:
    for us, small in ((10.0, True), (10.1, False)):
        happens = in_a_graph(*(kernel(2 + 20 * at, 2 + 20 * at + us, f"n{at}") for at in range(5)))
        assert ("many_small_launches" in kinds(repeated(103, happens))) == small
    slow_launches = replace(CEILINGS, launch_us=5.0)
    happens = in_a_graph(*(kernel(2 + 30 * at, 22 + 30 * at, f"n{at}") for at in range(5)))
    assert "many_small_launches" in kinds(repeated(153, happens), (), slow_launches)
    assert "many_small_launches" not in kinds(repeated(153, happens), (), replace(CEILINGS, launch_us=0.0))


def test_a_small_kernel_costs_no_more_than_it_takes() -> None:
    happens = in_a_graph(*(kernel(2 + at, 3 + at, f"n{at}") for at in range(12)))
    (finding,) = found(repeated(14, happens))
    assert finding.recoverable_us == pytest.approx(11 * 1.0), "all but one, of 1 us each"


def test_the_longest_gap_is_named_by_what_comes_after_it() -> None:
    named = in_a_graph(kernel(2, 42, "a"), kernel(62, 100, "b"), kernel(140, 180, None, "k_unnamed"))
    (finding,) = found(repeated(181, named))
    assert finding.kind == "gaps"
    assert "3.0 gaps per inference" in finding.evidence[0]
    assert "the longest, 40.0 us, is before k_unnamed" in finding.evidence[1]
    other = in_a_graph(kernel(2, 42, "a"), kernel(82, 120, "b"), kernel(140, 180, None, "k_unnamed"))
    assert "the longest, 40.0 us, is before b" in found(repeated(181, other))[0].evidence[1]


@pytest.mark.parametrize(
    ("capability", "kind"), [("8.9", "older_architecture"), ("8.6", "older_architecture"), ("8.0", "far_from_roof")]
)
def test_the_gpus_architecture_is_read_from_its_capability(capability: str, kind: str) -> None:
    trace = repeated(
        254, [call(0, 1), kernel(2, 252, "conv", "sm80_xmma_fprop")], environment={"compute_capability": capability}
    )
    result = found(trace, [node("conv", read=50_000_000)], replace(CEILINGS, sm=0), {"conv": "conv5x5_bias"})
    assert [entry.kind for entry in result] == [kind]
    if kind == "older_architecture":
        assert f"sm_{capability.replace('.', '')}" in result[0].title


def test_a_trace_without_inferences_is_looked_at_from_its_first_call_to_its_last() -> None:
    marked = repeated(
        120, [call(0, 20), kernel(30, 40, "a"), kernel(70, 100, "b"), call(100, 120, "cudaStreamQuery")], 1
    )
    bare = replace(marked, iterations=())
    assert ledger_of(bare).end_to_end_us == 120
    assert found(bare) == found(marked)
    assert kinds(bare) == ["gaps"]


def test_a_copy_within_the_gpu_brings_nothing_back_from_the_host() -> None:
    happens = in_a_graph(
        copy(2, 22, "DtoH", bytes=64),
        copy(30, 40, "DtoD", bytes=64),
        kernel(60, 95, "a"),
        copy(95, 97, "HtoH", bytes=64),
    )
    said = " ".join(line for entry in found(repeated(100, happens)) for line in entry.evidence)
    assert "to the host and back" not in said
    assert "from one place of the GPU's memory to another: 10.0 us, 64 bytes" in said


def test_copies_between_the_layers_of_an_engine_are_in_the_middle() -> None:
    layer = lambda start, end, name: Activity("layer", name, start, end, node=name)  # noqa: E731
    happens = [
        layer(0, 30, "a"),
        copy(30, 50, "DtoH", call=None, bytes=8),
        layer(50, 100, "b"),
        copy(100, 120, "DtoH", call=None),
    ]
    (finding,) = [entry for entry in found(repeated(120, happens)) if entry.kind == "copies"]
    assert finding.recoverable_us == 20
    assert finding.evidence == (
        "1.0 copies per inference to or from the host in the middle of the network: 20.0 us, 8 bytes",
    )


@pytest.mark.parametrize(("cold", "counts"), [(0, False), (1, True), (2, True), (7, True), (8, False)])
def test_a_cold_start_leaves_three_warm_inferences_to_compare_with(cold: int, counts: bool) -> None:
    warm = [call(0, 1), kernel(2, 50, "a")]
    trace = timeline([(300 if at < cold else 51, warm) for at in range(10)])
    result = [entry for entry in found(trace) if entry.kind == "cold_start"]
    assert bool(result) == counts
    if result:
        assert result[0].title.startswith(
            "the first inference of 10" if cold == 1 else f"the first {cold} inferences of 10"
        )
        assert ("is cold" in result[0].title) == (cold == 1)


@pytest.mark.parametrize(("us", "cold"), [(76.5, False), (76.6, True)])
def test_an_inference_is_cold_from_one_and_a_half_times_the_usual(us: float, cold: bool) -> None:
    warm = [call(0, 1), kernel(2, 50, "a")]
    trace = timeline([(us, warm), *[(51, warm)] * 9])
    assert ("cold_start" in kinds(trace)) == cold


def test_what_was_not_judged_is_told_with_its_nodes() -> None:
    happens = in_a_graph(*(kernel(2 + 10 * at, 12 + 10 * at, f"n{at}") for at in range(5)))
    trace = repeated(100, happens)
    (said,) = not_judged(trace, ledger_of(trace))
    assert said == "50.0 us in kernels (50% of the inference), whose floor is not known: n0, n1, n2 and 2 more"
    three = repeated(100, happens[:4])
    assert not_judged(three, ledger_of(three))[0].endswith("whose floor is not known: n0, n1, n2")
    unnamed = repeated(100, in_a_graph(kernel(2, 12)))
    assert not_judged(unnamed, ledger_of(unnamed))[0].endswith("whose floor is not known: no node")


def test_the_ledger_notes_nothing_where_there_is_nothing_to_say() -> None:
    happens = [call(0, 0), kernel(0, 20, "conv"), kernel(20, 50, "pool")]
    books = ledger_of(repeated(50, happens), [node("conv", read=5_000_000), node("pool", read=5_000_000)], CEILINGS)
    assert books.notes == ()
    late = [call(0, 0), kernel(0, 20, "conv"), kernel(40, 60, "pool")]
    (note,) = ledger_of(repeated(50, late), [node("conv", read=1), node("pool", read=1)], CEILINGS).notes
    assert note.startswith("10.0 us of GPU work per inference lie outside")


def test_a_row_has_shapes_where_it_is_one_node() -> None:
    one, two = (replace(node(name, read=5_000_000), shapes=f"{name}: 1x2 -> 3") for name in ("conv", "relu"))
    books = ledger_of(
        repeated(50, [call(0, 1), kernel(2, 40, "conv + relu"), kernel(40, 48, "conv")]), [one, two], CEILINGS
    )
    assert [(row.node, row.shapes, row.op) for row in books.rows if row.node] == [
        ("conv + relu", "", "Conv"),
        ("conv", "conv: 1x2 -> 3", "Conv"),
    ]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("void conv5x5_kernel", "conv5x5_kernel"),
        ("void gemm<float, 4>(float const*, (anonymous namespace)::Params<int>)", "gemm"),
        ("void (anonymous namespace)::copy<int>(int*)", "copy"),
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 4>(float*)",
            "at::native::CatArrayBatchedCopy",
        ),
        ("int at::native::vectorized<4, at::native::Add<float>>::call(int)", "at::native::vectorized::call"),
        ("lenet5", "lenet5"),
        ("", ""),
    ],
)
def test_the_function_in_a_kernels_name(name: str, function: str) -> None:
    assert bare(name) == function


def test_the_ledger_as_json_names_its_schema_and_its_terms() -> None:
    made = ledger_of(repeated(50, [call(0, 1), kernel(2, 40, "conv")])).as_dict()
    assert made["schema"] == 1
    assert made["terms"]["floor_us"] == "floor"
    assert made["used"] == [2, 3, 4, 5]


def test_a_kernel_in_an_unnamed_namespace_may_be_a_reformat() -> None:
    assert is_reformat("void (anonymous namespace)::transpose_kernel<float>(float const*, float*)")
    assert is_reformat("void ns::(anonymous namespace)::nchwToNhwc<float>(float const*)")
    assert not is_reformat("void (anonymous namespace)::softmax<float, Cast>(float const*, TransposeParams)")
