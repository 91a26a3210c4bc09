"""Attributes that are no list of choices: what is refused, what is compiled in, and what sizes see of them."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from declared_kernels import WITH_ATTRIBUTES, declared
from lenet_trt.check.__main__ import check_kernel
from lenet_trt.check.pattern_check import pattern_problems, small_bounds
from lenet_trt.cuda.compile import compile_variant
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import Attribute, FloatAttribute, IntegerAttribute
from lenet_trt.kernel.attributes import AnyAttribute, stored_values
from lenet_trt.kernel.examples import bounds, cases

FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
ALPHA = FloatAttribute("alpha", (0.01,), "")


@given(FLOAT32)
def test_a_float_is_compiled_in_exactly(value: float) -> None:
    checked = ALPHA.checked(value)
    assert checked == value
    macro = ALPHA.macro(checked)
    assert macro.endswith("f")
    assert struct.pack("<f", float.fromhex(macro[:-1])) == struct.pack("<f", value + 0.0)
    assert ALPHA.value_of(ALPHA.number(checked)) == checked


@given(FLOAT32)
def test_the_text_of_a_float_is_that_float(value: float) -> None:
    assert np.float32(ALPHA.text(value + 0.0)) == np.float32(value)


@pytest.mark.parametrize(("value", "text"), [(0.01, "0.01"), (1e-5, "1e-05"), (-2.0, "-2"), (1 / 3, "0.33333334")])
def test_a_float_has_the_text_that_people_wrote(value: float, text: str) -> None:
    checked = ALPHA.checked(value)
    assert checked is not None
    assert ALPHA.text(checked) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e39, "0.5", None, True])
def test_what_is_no_finite_float32_is_refused(value: Any) -> None:
    assert ALPHA.checked(value) is None


def test_a_limit_is_rounded_as_the_values_are() -> None:
    epsilon = FloatAttribute("epsilon", (1e-5,), "", least=1e-5, most=1e-5)
    assert not list(epsilon.problems())
    assert epsilon.checked(float(np.float32(1e-5))) == np.float32(1e-5)
    assert epsilon.checked(float(np.nextafter(np.float32(1e-5), np.float32(1)))) is None


@pytest.mark.parametrize("value", [0, 65, 2.0, "3", True, None])
def test_an_integer_outside_of_its_range_is_refused(value: Any) -> None:
    assert IntegerAttribute("k", 1, 64, (2,), "").checked(value) is None


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        (IntegerAttribute("k", 1, 4, (), ""), "attribute k has no examples"),
        (IntegerAttribute("k", 1, 4, (2, 5), ""), "attribute k has the example 5; it can be an integer from 1 to 4"),
        (IntegerAttribute("k", 1, 2**31, (2,), ""), "attribute k has the range 1 to 2147483648, more than 32 bits"),
        (IntegerAttribute("w", 1, 4, (2,), ""), "w is an axis and an attribute"),
        (FloatAttribute("e", (), ""), "attribute e has no examples"),
        (FloatAttribute("e", (2.0,), "", most=1.0), "attribute e has the example 2.0; it can be a finite number from"),
        (FloatAttribute("k", (2.0,), ""), "shape of y uses k, which is no axis and no integer attribute"),
        (Attribute("k", ("one", "two"), ""), "shape of y uses k, which is no axis and no integer attribute"),
        (
            IntegerAttribute("k", 1, 64, (9, 2), ""),
            "example .* is not allowed with the first example of each attribute",
        ),
    ],
)
def test_a_wrong_declaration_is_refused(attribute: AnyAttribute, problem: str) -> None:
    with pytest.raises(LenetTrtError, match=problem):
        replace(declared("topk_values"), attributes=(attribute,))


def test_an_integer_attribute_is_a_size_everywhere() -> None:
    kernel = declared("average_pool3")
    bound = kernel.bind([(3, 2, 9, 8)], ["float32"], {"pad": 2, "stride": 4})
    assert bound.output_shapes == ((3, 2, 3, 3),)
    assert bound.flops == 9 * 3 * 2 * 9
    (variant,) = kernel.variants
    launch = bound.specialized.launch(variant)
    assert [dim.evaluate(bound.axes) for dim in launch.dims[4:]] == [6, 9, 8, 3, 3]
    assert {"ATTR_PAD=2", "ATTR_STRIDE=4"} <= set(bound.specialized.macros)


def test_a_choice_of_integers_is_a_size_too() -> None:
    kernel = replace(declared("topk_values"), attributes=(Attribute("k", (2, 1), ""),))
    assert kernel.bind([(5, 9)], ["float32"]).output_shapes == ((5, 2),)
    assert kernel.bind([(5, 9)], ["float32"], {"k": 1}).output_shapes == ((5, 1),)


def test_a_condition_may_name_an_attribute() -> None:
    kernel = declared("topk_values")
    with pytest.raises(LenetTrtError, match=r"topk_values wants k <= w, and k = 12, w = 9"):
        kernel.bind([(5, 9)], ["float32"], {"k": 12})
    kernel.specialize([(5, -1)], ["float32"], {"k": 12})
    with pytest.raises(LenetTrtError, match=r"topk_values: k is 65; it can be an integer from 1 to 64"):
        kernel.specialize([(5, -1)], ["float32"], {"k": 65})


def test_examples_are_the_combinations_that_are_allowed() -> None:
    seen = {(bound.axes["w"], bound.attributes["k"]) for bound in bounds(declared("topk_values"))}
    assert seen == {(2, 2), (2, 1), (33, 2), (33, 1), (33, 5), (200, 2), (200, 1), (200, 5), (200, 40)}
    assert "plain fp32 n=1,w=5 alpha=0.2" in map(str, cases(declared("leaky_relu")))


def test_a_stored_number_that_is_no_value_is_refused() -> None:
    kernel = declared("topk_values")
    assert stored_values(kernel, {"k": 3, "other": 5}) == {"k": 3}
    assert stored_values(kernel, {}) == {}
    with pytest.raises(LenetTrtError, match=r"topk_values: the attribute k is 0, which is none of its values \(an int"):
        stored_values(kernel, {"k": 0})


@pytest.mark.parametrize("name", WITH_ATTRIBUTES)
def test_the_kernels_pass_what_needs_no_gpu(name: str) -> None:
    outcomes = list(check_kernel(declared(name), only=("examples", "serialize")))
    assert [outcome.failures for outcome in outcomes] == [(), ()]


@pytest.mark.parametrize("name", WITH_ATTRIBUTES)
def test_the_patterns_find_every_value(name: str) -> None:
    calls = small_bounds(bounds(declared(name)))
    assert list(pattern_problems(calls)) == []


@pytest.mark.parametrize("name", WITH_ATTRIBUTES)
def test_every_value_compiles(name: str) -> None:
    kernel = declared(name)
    images = {
        bound.specialized.attributes: compile_variant(bound.specialized, kernel.variants[0], "sm_75").image
        for bound in bounds(kernel)
        if bound.types.name == "fp32"
    }
    assert len(set(images.values())) == len(images), "each value makes another kernel"
