"""Findings: each kind is made where it should be and not where it should not, and none is counted twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lenet_trt.trace.accounting.names import architecture, is_gemm, is_reformat, uses_tensor_cores
from lenet_trt.trace.findings import Finding, findings_of, none_found, not_judged
from lenet_trt.trace.ledger import ledger_of
from lenet_trt.trace.timeline import Activity, Iteration, Timeline
from random_timelines import happenings, random_timeline, spans
from traced import CEILINGS, call, copy, kernel, node, repeated, timeline

# A matrix times a vector: every element is read once for a multiply-add.
GEMV = node("matmul", "MatMul", read=50_000_000, written=100_000, flops=25_000_000)
SIMT = "void gemmSN_TN_kernel<float, 128, 16, 2, 4>(float const*)"


def found(
    trace: Timeline, nodes: Sequence[Any] = (), ceilings: Any = CEILINGS, replaceable: Mapping[str, str] | None = None
) -> list[Finding]:
    """The findings of a timeline; their sum is within what is lost."""
    books = ledger_of(trace, nodes, ceilings)
    result = findings_of(trace, books, nodes, ceilings, replaceable)
    claimed = sum(entry.recoverable_us for entry in result if entry.kind != "cold_start")
    assert claimed <= books.end_to_end_us - books.total.floor_us + 1e-6
    assert all(0 < entry.recoverable_us <= books.end_to_end_us for entry in result)
    assert all(entry.evidence and entry.advice for entry in result)
    assert [entry.recoverable_us for entry in result] == sorted((e.recoverable_us for e in result), reverse=True)
    return result


def kinds(
    trace: Timeline, nodes: Sequence[Any] = (), ceilings: Any = CEILINGS, replaceable: Mapping[str, str] | None = None
) -> list[str]:
    return [entry.kind for entry in found(trace, nodes, ceilings, replaceable)]


def one_kernel(us: float, name: str, node_name: str = "conv", **more: Any) -> Timeline:
    """An inference of one kernel, launched at once and waited for at once."""
    return repeated(us + 4, [call(0, 1), kernel(2, us + 2, node_name, name, **more)])


def test_a_healthy_model_has_no_findings() -> None:
    trace = one_kernel(110, "sm80_xmma_gemm_f32", "matmul")
    result = found(trace, [replace(GEMV, work=replace(GEMV.work, read_bytes=100_000_000))])
    assert result == [], "an older kernel within twice its roof is fine"
    assert none_found([]) == "None: all of it was judged, and no part is lost that is worth a change."


def test_a_gemv_run_as_a_gemm_is_found_with_its_microseconds_and_the_older_kernel_is_evidence() -> None:
    trace = one_kernel(1000, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8", "matmul")
    assert "plugin" not in found(trace, [GEMV])[0].advice, "no kernel of ours is known to fit"
    (finding,) = found(trace, [GEMV], replaceable={"matmul": "batched_matvec"})
    assert (finding.kind, finding.node) == ("gemv_as_gemm", "matmul")
    assert finding.recoverable_us == pytest.approx(1000 - 50.1, abs=0.01)
    text = "\n".join([*finding.evidence, finding.advice])
    assert "1,000.0 us" in text
    assert "50.1 us" in text
    assert "sm_80" in text
    assert "batched_matvec" in text


def test_two_columns_are_no_gemv_and_a_gemv_kernel_is_no_gemm() -> None:
    two = replace(GEMV, work=replace(GEMV.work, flops=100_000_000))
    assert kinds(one_kernel(1000, "cutlass_gemm", "matmul"), [two]) == ["far_from_roof"]
    assert kinds(one_kernel(1000, "gemv2T_kernel_val", "matmul"), [GEMV]) == ["far_from_roof"]


OURS = {"conv": "conv5x5_bias_relu_pool2"}


def test_a_kernel_of_an_older_architecture_is_a_finding_only_very_far_from_its_roof_and_with_one_of_ours() -> None:
    work = [node("conv", read=50_000_000)]
    (finding,) = found(one_kernel(250, "sm80_xmma_fprop_implicit_gemm"), work, replaceable=OURS)
    assert (finding.kind, finding.recoverable_us) == ("older_architecture", 200)
    assert "sm_80" in finding.title
    assert "sm_90" in finding.title
    assert "the plugin conv5x5_bias_relu_pool2 computes this node" in finding.advice
    assert kinds(one_kernel(180, "sm80_xmma_fprop_implicit_gemm"), work, replaceable=OURS) == []
    assert kinds(one_kernel(250, "sm90_xmma_fprop_implicit_gemm"), work, replaceable=OURS) == ["far_from_roof"]
    old_gpu = replace(CEILINGS, sm=80)
    assert kinds(one_kernel(250, "sm80_xmma_fprop_implicit_gemm"), work, old_gpu, OURS) == ["far_from_roof"]


@pytest.mark.parametrize("replaceable", [None, {}, {"another": "lenet5"}])
def test_no_advice_names_a_kernel_that_does_not_exist(replaceable: dict[str, str] | None) -> None:
    """On Ada every layer of TensorRT runs kernels of sm_80."""
    ada = replace(CEILINGS, sm=89)
    trace = one_kernel(250, "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw")
    (finding,) = found(trace, [node("conv", read=50_000_000)], ada, replaceable)
    assert finding.kind == "far_from_roof"
    assert "optimize" not in finding.advice
    assert "ncu" in finding.advice


def test_the_gpus_architecture_comes_from_the_trace_where_ceilings_do_not_say() -> None:
    trace = replace(one_kernel(250, "maxwell_scudnn_128x32"), environment={"sm": 75})
    nodes = [node("conv", read=50_000_000)]
    assert kinds(trace, nodes, replace(CEILINGS, sm=0), OURS) == ["older_architecture"]
    trace = replace(trace, environment={"compute_capability": "5.0"})
    assert kinds(trace, nodes, replace(CEILINGS, sm=0), OURS) == ["far_from_roof"]


def test_what_no_finding_could_be_made_of_is_said() -> None:
    trace = one_kernel(1000, "mystery", "matmul")
    books = ledger_of(trace, None, None)
    unjudged = not_judged(trace, books)
    assert unjudged == ["1,000.0 us in kernels (100% of the inference), whose floor is not known: matmul"]
    assert findings_of(trace, books) == []
    assert none_found(unjudged) == "None in what could be judged. Not everything could be:"
    judged = ledger_of(trace, [GEMV], CEILINGS)
    assert not_judged(trace, judged) == []


def test_a_trace_of_layers_alone_cannot_judge_launches() -> None:
    layers = repeated(100, [replace(kernel(0, 100, "matmul"), kind="layer")])
    said = not_judged(layers, ledger_of(layers, [GEMV], CEILINGS))
    assert said == ["launches, and gaps between kernels: the trace has times of layers alone"]
    silent = repeated(100, [kernel(0, 100, "matmul")])
    assert not_judged(silent, ledger_of(silent, [GEMV], CEILINGS)) == [
        "what the host did: the trace has no calls of it"
    ]


def test_tensor_cores_left_unused() -> None:
    work = node("fc", "Gemm", read=1_000_000, written=1_000_000, flops=4_000_000_000, arithmetic="fp16")
    (finding,) = found(one_kernel(400, "hopper_hgemm_simt_128x64", "fc"), [work])
    assert (finding.kind, finding.recoverable_us) == ("tensor_cores_unused", 380)
    assert "400.0 us at this GPU's best" in finding.evidence[1]
    assert kinds(one_kernel(400, "sm90_xmma_gemm_f16f16_tensor16x8x16", "fc"), [work]) == ["far_from_roof"]
    single = replace(work, arithmetic="fp32")
    assert kinds(one_kernel(450, "hopper_sgemm_128x64", "fc"), [single]) == [], "float takes no tensor cores"


def test_a_batch_too_small_for_the_gpu() -> None:
    work = [node("conv", read=1_000_000)]
    (finding,) = found(one_kernel(60, "sm90_conv", grid=(10, 2, 1)), work)
    assert finding.kind == "batch_too_small"
    assert finding.recoverable_us == pytest.approx(60 * 0.8)
    assert "20 blocks on 100 multiprocessors" in finding.evidence[1]
    assert "batch_too_small" not in kinds(one_kernel(60, "sm90_conv", grid=(100, 2, 1)), work)
    twice = [node("conv", read=30_000_000)]
    assert kinds(one_kernel(60, "sm90_conv", grid=(10, 2, 1)), twice) == ["batch_too_small"], "twice the roof is far"
    assert kinds(one_kernel(59.9, "sm90_conv", grid=(10, 2, 1)), twice) == []
    assert kinds(one_kernel(60, "sm90_conv", grid=(100, 1, 1)), twice) == [], "a block for each is enough"
    assert kinds(one_kernel(9, "sm90_conv", grid=(10, 2, 1)), work) == [], "small kernels are latency, not batch"


def test_a_kernel_very_far_from_its_roof_without_a_known_fault() -> None:
    work = [node("conv", read=50_000_000)]
    (finding,) = found(one_kernel(250, "mystery"), work)
    assert (finding.kind, finding.recoverable_us) == ("far_from_roof", 200)
    assert kinds(one_kernel(180, "mystery"), work) == []
    assert kinds(one_kernel(200, "mystery"), work) == ["far_from_roof"], "four times the roof is very far"
    assert kinds(one_kernel(250, "mystery"), work, None) == [], "no number without ceilings"


def small_launches(count: int, us: float = 3, gap: float = 1) -> list[Any]:
    """One graph of so many small kernels."""
    step = us + gap
    kernels = [kernel(2 + at * step, 2 + at * step + us, f"n{at}") for at in range(count)]
    return [call(0, 1, "cudaGraphLaunch"), *kernels]


def test_many_small_launches() -> None:
    work = [node(f"n{at}", read=100_000) for at in range(12)]
    (finding,) = found(repeated(52, small_launches(12)), work)
    assert finding.kind == "many_small_launches"
    assert finding.recoverable_us == pytest.approx(11 * 2 + 11 * 1), "all but one: 2 us each, and the gap before it"
    assert "12 kernels" in finding.evidence[0]
    assert kinds(repeated(14, small_launches(3)), work) == []
    without_roof = found(repeated(52, small_launches(12)), (), None)
    assert [entry.kind for entry in without_roof] == ["many_small_launches"]


def test_large_kernels_are_not_many_small_ones() -> None:
    assert kinds(repeated(220, small_launches(12, us=16, gap=2)), ()) == ["gaps"], "its gaps alone are left"


def test_gaps_though_work_was_submitted() -> None:
    happens = [call(0, 1, "cudaGraphLaunch"), kernel(2, 42, "a"), kernel(72, 112, "b")]
    (finding,) = found(repeated(113, happens))
    assert finding.kind == "gaps"
    assert finding.recoverable_us == pytest.approx(31 - 2.5)
    assert "before b" in finding.evidence[1]
    tight = [call(0, 1, "cudaGraphLaunch"), kernel(2, 42, "a"), kernel(43, 112, "b")]
    assert kinds(repeated(113, tight)) == []


def test_a_host_that_is_late_launch_by_launch() -> None:
    happens = []
    for at in range(6):
        happens += [call(at * 30, at * 30 + 6), kernel(at * 30 + 7, at * 30 + 20, f"n{at}", call=at)]
    (finding,) = found(repeated(172, happens))
    assert finding.kind == "host_bound"
    late = 6 + 5 * 16
    assert finding.recoverable_us == pytest.approx(late - 6), "one submission of 6 us remains"
    assert "CUDA graph" in finding.advice
    one = [call(0, 60, "cudaGraphLaunch"), kernel(62, 100, "a"), kernel(101, 140, "b")]
    assert kinds(repeated(141, one)) == [], "one launch is what a graph takes as well"


def test_waiting_in_the_middle() -> None:
    happens = [
        call(0, 5),
        kernel(7, 40, "a"),
        call(5, 50, "cudaStreamSynchronize"),
        call(60, 65),
        kernel(67, 100, "b", call=2),
    ]
    (finding,) = found(repeated(101, happens))
    assert finding.kind == "sync_in_loop"
    assert finding.recoverable_us == 25, "idle from 40 until the next submission returned at 65"
    assert "cudaStreamSynchronize" in finding.evidence[0]
    end = [
        call(0, 5),
        kernel(7, 40, "a"),
        call(4, 6),
        kernel(41, 90, "b", call=1),
        call(6, 100, "cudaDeviceSynchronize"),
    ]
    assert kinds(repeated(101, end)) == [], "waiting for the result at the end is what an inference does"


def test_a_reformat_and_back() -> None:
    happens = [
        call(0, 1),
        kernel(2, 12, "conv", "void cudnn::ops::nchwToNhwcKernel<float>"),
        kernel(12, 80, "conv", "sm90_xmma_fprop"),
        kernel(80, 90, "conv", "void cudnn::ops::nhwcToNchwKernel<float>"),
    ]
    (finding,) = found(repeated(91, happens))
    assert (finding.kind, finding.recoverable_us) == ("reformat_pair", 20)
    assert "1 per inference" in finding.evidence[0]
    assert kinds(repeated(81, happens[:-1])) == [], "one of them may be needed"


def test_reformats_that_an_engine_puts_around_a_layer() -> None:
    names = [
        "Reformatting CopyNode for Input Tensor 0 to conv",
        "conv",
        "Reformatting CopyNode for Output Tensor 0 to conv",
    ]
    layers = [Activity("layer", name, at * 20, at * 20 + 20) for at, name in enumerate(names)]
    assert kinds(repeated(60, layers)) == ["reformat_pair"]
    other = [replace(layers[0], name=names[0] + "2"), *layers[1:]]
    assert kinds(repeated(60, other)) == []


def test_copies_that_could_stay() -> None:
    happens = [
        call(0, 1),
        copy(2, 6, "HtoD", bytes=1000),
        kernel(6, 40, "a"),
        copy(40, 50, "DtoH", bytes=4096),
        copy(50, 60, "HtoD", bytes=4096),
        kernel(60, 90, "b"),
        copy(90, 95, "DtoD", bytes=64),
        copy(95, 99, "DtoH", bytes=64),
    ]
    (finding,) = found(repeated(100, happens))
    assert (finding.kind, finding.recoverable_us) == ("copies", 25)
    assert "host and back: 20.0 us, 8,192 bytes" in finding.evidence[0]
    plain = [happens[0], *happens[1:3], copy(40, 50, "DtoH", bytes=4096)]
    assert kinds(repeated(51, plain)) == [], "input there and result back are what it takes"


def test_a_cold_start_inside_the_measurement() -> None:
    warm = [call(0, 1), kernel(2, 50, "a")]
    (finding,) = found(timeline([(1051, warm), *[(51, warm)] * 9]))
    assert finding.kind == "cold_start"
    assert finding.recoverable_us == pytest.approx(51), "100 us, and no more than an inference takes"
    assert "100.0 us too high" in finding.evidence[0]
    assert kinds(timeline([(53, warm), *[(51, warm)] * 9])) == []
    assert kinds(timeline([(1051, warm), (51, warm)])) == [], "too few to say"


def test_findings_never_claim_the_same_microseconds() -> None:
    """Small kernels that a late host submits: fusing and a graph would both help, and each has its own part."""
    happens = []
    for at in range(8):
        begin = at * 20
        happens += [call(begin, begin + 5), kernel(begin + 7, begin + 10, f"n{at}", call=at)]
    trace = repeated(151, happens)
    work = [node(f"n{at}", read=100_000) for at in range(8)]
    books = ledger_of(trace, work, CEILINGS)
    result = found(trace, work)
    assert {entry.kind for entry in result} == {"many_small_launches", "host_bound"}
    assert sum(entry.recoverable_us for entry in result) <= books.total.total_us - books.total.floor_us


@given(happenings, spans, spans, st.booleans())
def test_whatever_happened_findings_stay_within_what_is_lost(
    happens: list[Any], inferences: list[Any], calls: list[Any], floors: bool
) -> None:
    trace = random_timeline(happens, inferences, calls)
    work = [node("conv", read=5_000_000), node("pool", read=100)] if floors else []
    one_at_least = replace(trace, iterations=(*trace.iterations, Iteration(99, 0, 50)))
    found(one_at_least, work, CEILINGS if floors else None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8", 80),
        ("cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_sm75>", 75),
        ("volta_sgemm_128x64_tn", 70),
        ("ampere_h16816gemm_64x64", 80),
        ("maxwell_scudnn_128x32_relu", 50),
        ("sm_100_kernel", 100),
        ("void at::native::elementwise_kernel<128, 4>", None),
        ("lenet5_cluster", None),
        ("hopper_gemm", 90),
        ("prism80_kernel", None),
    ],
)
def test_the_architecture_in_a_name(name: str, expected: int | None) -> None:
    assert architecture(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void cudnn::ops::nchwToNhwcKernel<float, float>", True),
        ("Reformatting CopyNode for Input Tensor 0 to conv1", True),
        ("void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda(...)>", True),
        ("Cast_12", True),
        ("__myl_MoveCast_myl0_3", True),
        ("__myl_CastMulMean_myl0_3", False),
        ("Transpose_4", True),
        ("{ForeignNode[/Transpose...(Unnamed Layer* 172) [ElementWise]]}", False),
        ("Reformatting CopyNode for Input Tensor 0 to {ForeignNode[/a.../b]}", True),
        ("conv_transpose2d_kernel", False),
        ("broadcast_add", False),
        (
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<CUDAFunctor_add<float>>>",
            False,
        ),
        ("void scal_kernel<float>(cublasTransposeParams<T2>, T1 *)", False),
        ("sm80_xmma_gemm_transpose", False),
        ("conv5x5_bias_relu_pool2_tensor_core", False),
    ],
)
def test_what_is_a_reformat(name: str, expected: bool) -> None:
    assert is_reformat(name) is expected


def test_what_names_say_of_products() -> None:
    assert is_gemm("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_tn_align1>")
    assert not is_gemm("void gemv2T_kernel_val<int, int, float>")
    assert not is_gemm("batched_matvec_rows")
    assert uses_tensor_cores("cutlass_80_simt_sgemm_128x32") is False
    assert uses_tensor_cores("sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1") is True
    assert uses_tensor_cores("lenet5_cluster") is None
