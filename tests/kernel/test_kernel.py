"""Declarations: what is refused, and what a call solves from its inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import Attribute, Axis, Kernel, Launch, Packing, Tensor, Types, Variant
from lenet_trt.kernel.call_types import types_beginning, types_of_call
from lenet_trt.kernel.dims import axes, ceil_div, size_of
from lenet_trt.kernel.examples import cases, kernel_inputs, plain_inputs, relative_error, resized
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.options import GIVE_SIZES

n, c, h = axes("n c h")
HERE = Path(__file__).parent
LAUNCH = Launch((ceil_div(n * c, 128), 1, 1), (128, 1, 1), extras=(n,))
PORTABLE = Variant("portable", LAUNCH, "any", source="test_kernel.py")


def declare(**changes: Any) -> Kernel:
    fields: dict[str, Any] = {
        "name": "scale_rows",
        "doc": "y = x * s",
        "axes": (Axis("n", "rows"), Axis("c", "columns", static=True)),
        "inputs": (Tensor("x", (n, c), "T", "rows"), Tensor("s", (c,), "float32", "factors", weight=True)),
        "outputs": (Tensor("y", (n, c + 1), "T", "result"),),
        "types": (Types("fp32", {"T": "float32"}, 1e-6), Types("fp16", {"T": "float16"}, 1e-3)),
        "variants": (PORTABLE,),
        "reference": np.multiply,
        "examples": ({"n": 1, "c": 3},),
        "flops": n * c,
        "source_dir": HERE,
        **changes,
    }
    return Kernel(**fields)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "ScaleRows"}, "name is not lower-case"),
        ({"axes": (Axis("n", ""), Axis("c", ""), Axis("n", ""))}, "axes has n twice"),
        ({"axes": (Axis("n", ""), Axis("c", ""), Axis("h", ""))}, "axis h is no input's size by itself"),
        ({"axes": (Axis("n", ""),)}, "shape of x uses c, which is no axis"),
        ({"types": ()}, "types is empty"),
        (
            {"types": (Types("a", {"T": "float32"}, 0), Types("b", {"U": "float16"}, 0))},
            "types b and a name different variables",
        ),
        (
            {"types": (Types("a", {"T": "flot32"}, 0),)},
            "types a: T is 'flot32', which is none of float32, float16",
        ),
        ({"types": (Types("a", {"T": "float64"}, 0),)}, "types a: T is 'float64', which is none of"),
        ({"types": (Types("a", {"U": "float32"}, 0),)}, "x has dtype T, which is none of float32, float16"),
        ({"variants": ()}, "types fp32 has no variant that runs any size on sm_75"),
        ({"variants": (replace(PORTABLE, min_sm=90),)}, "types fp16 has no variant that runs any size"),
        ({"variants": (replace(PORTABLE, when=n <= 4),)}, "types fp32 has no variant that runs any size"),
        ({"variants": (replace(PORTABLE, prefer=n <= 4),)}, "types fp32 has no variant that runs any size"),
        ({"variants": (replace(PORTABLE, prefer=axes("q")[0] <= 4), PORTABLE)}, "prefer uses q, which is no axis"),
        ({"variants": (replace(PORTABLE, types=("fp32",)),)}, "types fp16 has no variant that runs any size"),
        ({"variants": (PORTABLE, replace(PORTABLE, min_sm=80))}, "variants has portable twice"),
        ({"variants": (replace(PORTABLE, source="no.cu"),)}, "variant portable: there is no file"),
        ({"variants": (replace(PORTABLE, types=("fp32", "fp8")), PORTABLE)}, "types fp8 is not declared"),
        ({"variants": (replace(PORTABLE, launch=replace(LAUNCH, extras=(h,))),)}, "launch uses h, which is no axis"),
        ({"variants": (replace(PORTABLE, launch=replace(LAUNCH, block=(64, 32, 1))),)}, "block has 2048 threads"),
        (
            {"variants": (replace(PORTABLE, launch=replace(LAUNCH, block=(0, 1, 1))),)},
            r"variant portable: block \(0, 1, 1\) is not three integers >= 1",
        ),
        ({"examples": ()}, "examples is empty"),
        ({"examples": ({"n": 1},)}, r"example \{'n': 1\} does not name exactly the axes \['c', 'n'\]"),
        ({"attributes": (Attribute("relu", (), ""),)}, "attribute relu has no choices"),
        ({"requires": h <= 4}, "requires uses h, which is no axis"),
        ({"types": (Types("a", {"T": "float32"}, 0), Types("a", {"T": "float16"}, 0))}, "types has a twice"),
        ({"inputs": (Tensor("y", (n, c), "T", ""),)}, "inputs and outputs has y twice"),
        ({"inputs": (Tensor("x", (n, c), "T", "", part="of"),)}, "x has the part of; wanted an IntegerAttribute"),
        ({"attributes": (Attribute("act", (1,), ""), Attribute("act", (2,), ""))}, "attributes has act twice"),
        ({"variants": (replace(PORTABLE, name="few", when=axes("q")[0] <= 4), PORTABLE)}, "variant few: when uses q"),
        ({"outputs": (Tensor("y", (n, h), "T", ""),)}, "shape of y uses h"),
        (
            {"variants": (replace(PORTABLE, launch=replace(LAUNCH, block=(1025, 1, 1))),)},
            "variant portable: block has 1025 threads",
        ),
        ({"flops": n * h}, "flops uses h"),
    ],
)
def test_a_wrong_declaration_is_refused_by_name(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(LenetTrtError, match=f"(: |; ){problem}") as caught:
        declare(**changes)
    assert str(caught.value).startswith("kernel ")


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(LenetTrtError, match=r"name is not.*examples is empty.*there is no file"):
        declare(name="X", examples=(), variants=(replace(PORTABLE, source="no.cu"),))


def test_a_call_is_solved_from_its_inputs() -> None:
    bound = declare().bind([(5, 3), (3,)], ["float16", "float32"])
    assert bound.axes == {"n": 5, "c": 3}
    assert bound.output_shapes == ((5, 4),)
    assert bound.output_dtypes == ("float16",)
    assert bound.types.name == "fp16"
    assert bound.flops == 15
    assert bound.dram_bytes == 2 * 15 + 4 * 3 + 2 * 20
    assert bound.specialized.macros == ("TYPE_T=__half", "AXIS_C=3")
    assert not bound.empty


@pytest.mark.parametrize(
    ("shapes", "problem"),
    [
        ([(5, 3)], r"scale_rows takes 2 inputs \(x, s\), not 1"),
        ([(1, 5, 3), (3,)], r"x has shape \[1, 5, 3\]; scale_rows wants \[n, c\]: it has 3 axes instead of 2"),
        ([(5, 3), (4,)], r"s has shape \[4\]; scale_rows wants \[c\]: c is 4 here and 3 in x"),
        ([(5, -1), (-1,)], f"compiles in the size of axis c; it must be known and >= 1, and is unknown: {GIVE_SIZES}"),
        ([(5, 0), (0,)], "compiles in the size of axis c; it must be known and >= 1, and is 0"),
        ([(5, 2**30 + 1), (2**30 + 1,)], "axis c; it is 1073741825, and can be at most 1073741824"),
        ([(-1, 3), (3,)], "the size of axis n is unknown"),
        ([(-2, 3), (3,)], "a size is negative"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(shapes: list[tuple[int, ...]], problem: str) -> None:
    with pytest.raises(LenetTrtError, match=problem):
        declare().bind(shapes, ["float32", "float32"])


def test_types_and_attributes_that_are_not_offered_are_refused() -> None:
    kernel = declare(attributes=(Attribute("act", ("none", "relu"), ""), Attribute("axis", (1, 3), "")))
    with pytest.raises(LenetTrtError, match="types float32, float16; it is declared for fp32: float32, float32"):
        kernel.bind([(5, 3), (3,)], ["float32", "float16"])
    with pytest.raises(LenetTrtError, match="no attribute mode; it has act, axis"):
        kernel.bind([(5, 3), (3,)], ["float32", "float32"], {"mode": 1})
    with pytest.raises(LenetTrtError, match="scale_rows has no attribute mode; it has none"):
        declare().bind([(5, 3), (3,)], ["float32", "float32"], {"mode": 1})
    with pytest.raises(LenetTrtError, match="act is 'tanh'; it can be none, relu"):
        kernel.bind([(5, 3), (3,)], ["float32", "float32"], {"act": "tanh"})
    chosen = kernel.bind([(5, 3), (3,)], ["float32", "float32"], {"act": "relu"})
    assert chosen.attributes == {"act": "relu", "axis": 1}
    assert chosen.specialized.macros[-2:] == ("ATTR_ACT=1", "ATTR_AXIS=1")
    assert kernel.specialize([(5, 3), (3,)], ["float32", "float32"], {"act": "relu"}) == chosen.specialized


def test_runtime_axes_may_be_unknown_when_specializing() -> None:
    kernel = declare()
    specialized = kernel.specialize([(-1, 3), (3,)], ["float32", "float32"])
    assert specialized == kernel.bind([(9, 3), (3,)], ["float32", "float32"]).specialized
    launch = specialized.launch(kernel.variants[0])
    assert launch.dims[0].axes == {"n"}
    assert launch.dims[0].evaluate({"n": 100}) == 3


def test_constant_and_computed_sizes_are_checked() -> None:
    kernel = declare(inputs=(Tensor("x", (n, c, 4), "T", ""), Tensor("s", (2 * c,), "float32", "")))
    assert kernel.bind([(5, 3, 4), (6,)], ["float32", "float32"]).axes == {"n": 5, "c": 3}
    with pytest.raises(LenetTrtError, match=r"x has shape \[5, 3, 1\].*it is 4 there, not 1"):
        kernel.bind([(5, 3, 1), (6,)], ["float32", "float32"])
    with pytest.raises(LenetTrtError, match=r"s has shape \[5\].*2 \* c is 6 there, not 5"):
        kernel.bind([(5, 3, 4), (5,)], ["float32", "float32"])


def test_sizes_that_a_kernel_is_not_for_are_refused() -> None:
    kernel = declare(requires=(c >= 2) & c.multiple_of(2))
    with pytest.raises(LenetTrtError, match="scale_rows wants c is a multiple of 2, and c = 3"):
        kernel.bind([(5, 3), (3,)], ["float32", "float32"])
    shrinking = declare(outputs=(Tensor("y", (n, c - 4), "T", ""),))
    with pytest.raises(LenetTrtError, match=r"y would have shape \[5, -1\]; the input is too small"):
        shrinking.bind([(5, 3), (3,)], ["float32", "float32"])


def test_tensors_too_large_to_index_are_refused() -> None:
    bound = declare().bind([(2**30, 2), (2,)], ["float32", "float32"])
    with pytest.raises(LenetTrtError, match="x has 2147483648 elements; scale_rows takes at most 2147483647"):
        bound.check_size()
    declare(max_elements=2**40).bind([(2**30, 2), (2,)], ["float32", "float32"]).check_size()


def test_the_first_variant_that_fits_is_taken() -> None:
    kernel = declare(
        variants=(
            replace(PORTABLE, name="hopper", min_sm=90, when=n <= 4),
            replace(PORTABLE, name="half", types=("fp16",), when=c.multiple_of(4 // size_of("T"))),
            PORTABLE,
        )
    )

    def taken(rows: int, columns: int, dtype: str, sm: int) -> str:
        return kernel.bind([(rows, columns), (columns,)], [dtype, "float32"]).variant(sm).name

    assert taken(4, 3, "float32", 90) == "hopper"
    assert taken(5, 3, "float32", 90) == "portable"
    assert taken(4, 3, "float32", 89) == "portable"
    assert taken(5, 2, "float16", 90) == "half"
    assert taken(5, 3, "float16", 90) == "portable"
    assert [v.name for v in kernel.variants_for(89, kernel.types_named("fp16"))] == ["half", "portable"]
    with pytest.raises(LenetTrtError, match="has no variant for sm_70; it needs sm_75 or newer"):
        taken(1, 3, "float32", 70)


def test_a_variant_that_is_not_preferred_can_run_and_is_not_taken() -> None:
    few = replace(PORTABLE, name="few", when=c.multiple_of(2), prefer=n <= 4)
    kernel = declare(variants=(few, PORTABLE))
    calls = {(n, c): kernel.bind([(n, c), (c,)], ["float32", "float32"]) for n in (4, 5) for c in (2, 3)}
    assert {size: call.variant(75).name for size, call in calls.items()} == {
        (4, 2): "few",
        (5, 2): "portable",
        (4, 3): "portable",
        (5, 3): "portable",
    }
    assert [size for size, call in calls.items() if call.fits(few)] == [(4, 2), (5, 2)]
    assert [size for size, call in calls.items() if call.prefers(few)] == [(4, 2), (4, 3)]


def test_a_variant_for_one_architecture_alone_is_offered_to_no_other() -> None:
    kernel = declare(variants=(replace(PORTABLE, name="hopper", min_sm=90, only_sm=True), PORTABLE))
    offered = {sm: [v.name for v in kernel.variants_for(sm, kernel.types[0])] for sm in (89, 90, 100, 120)}
    assert offered == {sm: ["hopper", "portable"] if sm == 90 else ["portable"] for sm in offered}


def test_a_variant_runs_only_where_its_shared_memory_fits() -> None:
    large = replace(PORTABLE, name="large", launch=replace(LAUNCH, shared_bytes=150 * 1024))
    bound = declare(variants=(large, PORTABLE)).bind([(4, 3), (3,)], ["float32", "float32"])
    taken = {sm: bound.variant(sm).name for sm in (75, 80, 86, 90, 120, 999)}
    assert [sm for sm, name in taken.items() if name == "large"] == [80, 90]
    with pytest.raises(LenetTrtError, match="types fp32 has no variant that runs any size on sm_75 and up"):
        declare(variants=(large,))


def test_names_are_looked_up_with_the_known_ones_in_the_error() -> None:
    kernel = declare()
    assert kernel.entry(kernel.variant("portable")) == "scale_rows_portable"
    with pytest.raises(LenetTrtError, match="scale_rows has no variant 'x'; it has portable"):
        kernel.variant("x")
    with pytest.raises(LenetTrtError, match="scale_rows has no types 'int8'; it has fp32, fp16"):
        kernel.types_named("int8")


def test_packed_weights_change_only_the_plain_inputs() -> None:
    plain = Tensor("w", (c,), "float32", "plain", weight=True)
    kernel = declare(packing=Packing((plain,), dict, lambda op, s: s))
    assert [tensor.name for tensor in kernel.plain_inputs] == ["x", "w"]
    assert [tensor.name for tensor in declare().plain_inputs] == ["x", "s"]


def test_an_output_may_be_empty_but_not_smaller() -> None:
    kernel = declare(outputs=(Tensor("y", (n, c - 3), "T", "what is left"),))
    bound = kernel.bind([(2, 3), (3,)], ["float32", "float32"])
    assert bound.output_shapes == ((2, 0),)
    assert bound.empty
    with pytest.raises(LenetTrtError, match=r"y would have shape \[2, -1\]; the input is too small"):
        kernel.bind([(2, 2), (2,)], ["float32", "float32"])


def test_types_are_resolved_from_the_inputs_alone_or_from_a_beginning() -> None:
    kernel = declare()
    assert types_of_call(kernel, ["float16", "float32"]).name == "fp16"
    assert [types.name for types in types_beginning(kernel, [])] == ["fp32", "fp16"]
    assert [types.name for types in types_beginning(kernel, ["float16"])] == ["fp16"]
    assert [types.name for types in types_beginning(kernel, ["float16", "float32", "float16"])] == ["fp16"]
    assert not list(types_beginning(kernel, ["float16", "float32", "float32"]))
    for wrong in (["float16"], ["float16", "float16"], ["float16", "float32", "float16"]):
        with pytest.raises(LenetTrtError, match="it is declared for fp32: float32, float32; fp16: float16, float32"):
            types_of_call(kernel, wrong)


@pytest.mark.parametrize(
    ("sm", "kib"),
    [
        (75, 64),
        (80, 163),
        (86, 99),
        (87, 163),
        (89, 99),
        (90, 227),
        (100, 227),
        (103, 227),
        (120, 99),
        (121, 99),
        (999, 99),
    ],
)
def test_a_variant_runs_where_a_block_may_have_its_shared_memory(sm: int, kib: int) -> None:
    kernel = declare()
    for size, runs in ((kib * 1024, True), (kib * 1024 + 1, False)):
        variant = replace(PORTABLE, launch=replace(LAUNCH, shared_bytes=size))
        assert variant.supports(sm, kernel.types[0]) is runs


def test_a_pack_that_leaves_a_weight_out_is_named() -> None:
    packing = Packing((Tensor("w", (c,), "float32", "", weight=True),), lambda weights: {}, lambda op, s: s)
    kernel = declare(packing=packing)
    bound = kernel.bind([(2, 3), (3,)], ["float32", "float32"])
    with pytest.raises(LenetTrtError, match=r"pack gives nothing for s, not \[3\] float32"):
        kernel_inputs(bound, plain_inputs(bound, np.random.default_rng(0)))


def test_the_error_against_zeros() -> None:
    zeros = np.zeros(3, np.float32)
    assert relative_error(zeros, zeros.astype(np.float64)) == 0.0
    assert relative_error(np.array([0, 1e-30, 0], np.float32), zeros.astype(np.float64)) == np.inf


def test_a_block_may_have_as_many_threads_as_cuda_allows() -> None:
    declare(variants=(replace(PORTABLE, launch=replace(LAUNCH, block=(1024, 1, 1))),))


def test_a_computed_size_waits_until_its_axes_are_known() -> None:
    kernel = declare(inputs=(Tensor("x", (n, c), "T", ""), Tensor("s", (n * c,), "float32", "")))
    assert kernel.specialize([(-1, 3), (15,)], ["float32", "float32"]).static_axes == (("c", 3),)
    with pytest.raises(LenetTrtError, match=r"n \* c is 12 there, not 15"):
        kernel.specialize([(4, 3), (15,)], ["float32", "float32"])


def test_random_sizes_are_those_that_the_kernel_is_for() -> None:
    few = replace(PORTABLE, name="few", when=n <= 40)
    kernel = declare(
        axes=(Axis("n", "rows"), Axis("c", "columns")),
        requires=n.multiple_of(2),
        variants=(few, PORTABLE),
        examples=({"n": 2, "c": 3}, {"n": 100, "c": 3}),
    )
    rng = np.random.default_rng(0)
    for case in cases(kernel):
        for _ in range(20):
            found = resized(case, rng)
            if found is None:
                continue
            assert found.variant is case.variant
            assert found.bound.axes["n"] % 2 == 0
            assert 1 <= found.bound.axes["c"] <= 3
            assert found.bound.axes["n"] <= (40 if found.variant is few else 100)
    sizes = [found.bound.axes["n"] for _ in range(100) for found in [resized(case, rng)] if found is not None]
    assert len(set(sizes)) > 10
    never = declare(requires=n > 1000, axes=(Axis("n", "rows"), Axis("c", "columns")), examples=({"n": 1001, "c": 3},))
    assert resized(next(cases(never)), rng) is None


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("int32", -4, 4), ("int64", -4, 4), ("int8", -128, 127), ("uint8", 0, 255)]
)
def test_whole_numbers_are_drawn_from_small_ones_and_quantized_ones_from_all(dtype: str, low: int, high: int) -> None:
    kernel = declare(types=(Types("whole", {"T": dtype}, 0.0),), examples=({"n": 100, "c": 30},))
    x, _ = plain_inputs(next(cases(kernel)).bound, np.random.default_rng(0))
    assert x.dtype == dtype
    assert (x.min(), x.max()) == (low, high)


def test_weights_are_scaled_so_that_results_stay_in_range() -> None:
    """The sum over a fan-in of 400 keeps the size of one product."""
    weight = Tensor("w", (n, c), "float32", "", weight=True)
    kernel = declare(inputs=(Tensor("x", (n, c), "T", ""), weight), examples=({"n": 100, "c": 400},))
    x, w = plain_inputs(next(cases(kernel)).bound, np.random.default_rng(0))
    assert x.std() == pytest.approx(1.0, rel=0.05)
    assert w.std() == pytest.approx(0.05, rel=0.05)


def test_the_domain_of_plugin_nodes_is_that_of_files_that_people_have() -> None:
    assert DOMAIN == "lenet_trt"
