"""Tables add a timeline up; the numbers here were added up by hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lenet_trt.trace.kernel_names import short_name
from lenet_trt.trace.tables import tables, tables_json, tables_markdown, tables_text
from lenet_trt.trace.timeline import Activity, ApiCall, Iteration, Timeline

CONV = "void conv<float, (int)8>(float *, int)"


def example() -> Timeline:
    """Two inferences, and a kernel before them."""
    kernel = "kernel"
    return Timeline(
        "nsys",
        iterations=(Iteration(0, 0.0, 100.0), Iteration(1, 100.0, 200.0)),
        activities=(
            Activity("kernel", "warm up", -50.0, -20.0),
            Activity("memcpy", "[CUDA memcpy HtoD]", 0.0, 4.0, iteration=0, direction="HtoD"),
            Activity(kernel, CONV, 10.0, 20.0, iteration=0, node="conv1"),
            Activity(kernel, CONV, 20.0, 50.0, iteration=0, node="conv2"),
            Activity(kernel, "gemm", 50.0, 51.0, iteration=0, node="conv1"),
            Activity(kernel, CONV, 110.0, 130.0, iteration=1, node="conv1"),
            Activity(kernel, CONV, 130.0, 165.0, iteration=1, node="conv2"),
        ),
        api_calls=(
            ApiCall("cudaMalloc", -60.0, -55.0),
            ApiCall("cudaLaunchKernel", 1.0, 3.0),
            ApiCall("cudaLaunchKernel", 101.0, 102.0),
            ApiCall("cudaDeviceSynchronize", 150.0, 167.0),
        ),
    )


def test_gpu_activities_are_added_up_by_name() -> None:
    found = tables(example())
    assert [(row.name, row.full_name, row.calls) for row in found.gpu.rows] == [
        ("conv<float, 8>", CONV, 4),
        ("[CUDA memcpy HtoD]", "[CUDA memcpy HtoD]", 1),
        ("gemm", "gemm", 1),
    ]
    conv = found.gpu.rows[0]
    assert (conv.total_us, conv.average_us, conv.minimum_us, conv.maximum_us) == (95.0, 23.75, 10.0, 35.0)
    assert [row.percent for row in found.gpu.rows] == [95.0, 4.0, 1.0]


def test_api_calls_are_added_up_by_name() -> None:
    rows = tables(example()).api.rows
    assert [(row.name, row.total_us, row.calls, row.percent) for row in rows] == [
        ("cudaDeviceSynchronize", 17.0, 1, 85.0),
        ("cudaLaunchKernel", 3.0, 2, 15.0),
    ]


def test_nodes_are_compared_by_what_they_take_in_an_inference() -> None:
    rows = tables(example()).nodes.rows
    assert [(row.name, row.total_us, row.calls, row.average_us, row.minimum_us, row.maximum_us) for row in rows] == [
        ("conv2", 65.0, 2, 32.5, 30.0, 35.0),
        ("conv1", 31.0, 3, 15.5, 11.0, 20.0),
        ("(no node)", 4.0, 1, 4.0, 4.0, 4.0),
    ]


def test_what_lies_outside_of_inferences_is_counted_or_taken() -> None:
    assert tables(example()).left_out == 2
    everything = tables(example(), everything=True)
    assert everything.left_out == 0
    assert "warm up" in [row.name for row in everything.gpu.rows]
    assert "cudaMalloc" in [row.name for row in everything.api.rows]


def test_the_text_is_aligned_and_whole() -> None:
    shown = tables_text(tables(example()))
    assert shown == (
        "           Type  Time(%)       Time  Calls        Avg        Min        Max  Name\n"
        "GPU activities:   95.00%  95.000 us      4  23.750 us  10.000 us  35.000 us  conv<float, 8>\n"
        "                   4.00%   4.000 us      1   4.000 us   4.000 us   4.000 us  [CUDA memcpy HtoD]\n"
        "                   1.00%   1.000 us      1   1.000 us   1.000 us   1.000 us  gemm\n"
        "\n"
        "           Type  Time(%)       Time  Calls        Avg        Min        Max  Name\n"
        "     API calls:   85.00%  17.000 us      1  17.000 us  17.000 us  17.000 us  cudaDeviceSynchronize\n"
        "                  15.00%   3.000 us      2   1.500 us   1.000 us   2.000 us  cudaLaunchKernel\n"
        "\n"
        "           Type  Time(%)       Time  Calls        Avg        Min        Max  Name\n"
        "         Nodes:   65.00%  65.000 us      2  32.500 us  30.000 us  35.000 us  conv2\n"
        "                  31.00%  31.000 us      3  15.500 us  11.000 us  20.000 us  conv1\n"
        "                   4.00%   4.000 us      1   4.000 us   4.000 us   4.000 us  (no node)\n"
        "\n"
        "2 inferences. For nodes, average, minimum and maximum are per inference. "
        "2 events outside of inferences are left out.\n"
    )


def test_long_tables_can_be_cut() -> None:
    lines = tables_text(tables(example()), most_rows=1).splitlines()
    assert lines[1].endswith("conv<float, 8>")
    assert lines[2].strip() == "(2 more)"
    assert "gemm" not in tables_markdown(tables(example()), most_rows=1)


def test_the_dictionary_is_json_with_the_full_names() -> None:
    data = json.loads(json.dumps(tables_json(tables(example()))))
    assert data["iterations"] == 2
    assert data["gpu_activities"]["total_us"] == 100.0
    assert data["gpu_activities"]["rows"][0]["full_name"] == CONV
    assert [row["name"] for row in data["nodes"]["rows"]] == ["conv2", "conv1", "(no node)"]


def test_names_do_no_harm_in_a_terminal_or_in_markdown() -> None:
    name = "a|b <script>\x1b[31m\nc"
    timeline = Timeline("x", activities=(Activity("layer", name, 0.0, 1.0, iteration=0),))
    assert "\x1b" not in tables_text(tables(timeline))
    assert "a|b <script>\\x1b[31m c\n" in tables_text(tables(timeline))
    assert "a\\|b &lt;script&gt;\\\\x1b\\[31m c |" in tables_markdown(tables(timeline))


def test_a_timeline_with_nothing_in_it() -> None:
    found = tables(Timeline("x"))
    assert found.all() == ()
    assert tables_text(found) == "0 inferences.\n"
    assert tables_markdown(found) == "0 inferences.\n"
    zero = tables(Timeline("x", activities=(Activity("kernel", "k", 0.0, 0.0, iteration=0),)))
    assert zero.gpu.rows[0].percent == 0.0


def test_kernels_with_one_short_name_are_told_apart() -> None:
    names = [f"void k<std::array<char *, {count}>>(int)" for count in (2, 3)]
    timeline = Timeline("x", activities=tuple(Activity("kernel", name, 0.0, 1.0, iteration=0) for name in names))
    assert [row.name for row in tables(timeline).gpu.rows] == names


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1000), st.integers(0, 2)), max_size=20))
def test_tables_add_up(entries: list[tuple[str, int, int]]) -> None:
    activities = tuple(
        Activity("kernel", name, 0.0, float(us), iteration=index, node=name if us % 2 else None)
        for name, us, index in entries
    )
    found = tables(Timeline("x", activities=activities))
    whole = float(sum(us for _, us, _ in entries))
    assert found.gpu.total_us == whole
    assert sum(row.calls for row in found.gpu.rows) == len(entries)
    assert not found.nodes.rows or found.nodes.total_us == whole
    for table in found.all():
        assert sum(row.percent for row in table.rows) == pytest.approx(100.0 if whole else 0.0)
        assert all(row.minimum_us <= row.average_us <= row.maximum_us for row in table.rows)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("sm80_xmma_gemm_f32f32_tn_n_tilesize32x32x8", "sm80_xmma_gemm_f32f32_tn_n_tilesize32x32x8"),
        ("lenet5_f32(float const*, float*)", "lenet5_f32"),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_tn_align1>(T1::Params)",
            "cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_tn_align1>",
        ),
        ("_ZN5naive5scaleIfLi8EEEvPT_S1_i", "naive::scale<float, 8>"),
        ("_Znonsense", "_Znonsense"),
        ("void (anonymous namespace)::softmax<float, 4>(float*, int)", "softmax<float, 4>"),
        (
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::<unnamed>::launch_clamp_scalar("
            "at::TensorIteratorBase &, c10::Scalar)::[lambda() (instance 1)]::operator ()() const::[lambda(float) "
            "(instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)",
            "at::native::vectorized_elementwise_kernel<4, launch_clamp_scalar, ...>",
        ),
        (
            "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, float, (int)7, cublasGemvParamsEx<int>>(T13)",
            "internal::gemvx::kernel<int, float, 7, cublasGemvParamsEx>",
        ),
        (
            "void at::native::elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl_nocast<at::native::"
            "CUDAFunctor_add<float>>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)",
            "at::native::elementwise_kernel<128, 2, CUDAFunctor_add>",
        ),
        ("void sgemm_largek_lds64<(bool)1, (bool)0, (int)5>(float *)", "sgemm_largek_lds64<true, false, 5>"),
        ("conv1 + relu1", "conv1 + relu1"),
        ("PWN(PWN(a), b)", "PWN(PWN(a), b)"),
        ("{ForeignNode[/a.../b]}", "{ForeignNode[/a.../b]}"),
        ("layer (1)", "layer (1)"),
        ("[CUDA memcpy DtoH]", "[CUDA memcpy DtoH]"),
        ("", ""),
    ],
)
def test_names_of_kernels_are_shortened_and_names_of_layers_are_not(name: str, short: str) -> None:
    assert short_name(name) == short


def test_where_there_is_no_room_the_end_is_cut() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, F>(int, F)"
    assert short_name(name, 60) == "at::native::vectorized_elementwise_kernel<4, F>"
    assert short_name(name, 20) == "at::native::vectori…"
    assert short_name("lenet5_f32", 10) == "lenet5_f32"


@given(st.text(alphabet="a<>(),: *[]&_", max_size=30))
def test_no_name_is_too_odd(name: str) -> None:
    assert isinstance(short_name(name), str)
    assert not name.strip() or short_name(name)
