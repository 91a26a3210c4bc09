"""Symbolic sizes: one expression, and the same number wherever it is lowered to."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import assume, given

from expressions import EXPRESSIONS, SIZES, c, n
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.dims import Algebra, Constant, Dim, Operator, ceil_div, product, size_of


def value_or_skip(dim: Dim, sizes: dict[str, int]) -> int:
    try:
        return dim.evaluate(sizes)
    except LenetTrtError:
        assume(False)
        raise AssertionError from None


@given(EXPRESSIONS, SIZES)
def test_the_text_of_an_expression_says_its_value(dim: Dim, sizes: dict[str, int]) -> None:
    wanted = value_or_skip(dim, sizes)
    names = {"ceil_div": lambda a, b: -(-a // b), "minimum": min, "maximum": max, **sizes}
    assert eval(str(dim), names) == wanted


@given(EXPRESSIONS, SIZES)
def test_substituting_in_two_steps_gives_the_same_value(dim: Dim, sizes: dict[str, int]) -> None:
    wanted = value_or_skip(dim, sizes)
    try:
        static = dim.substitute({name: sizes[name] for name in ("c", "h")})
    except LenetTrtError:  # a branch that evaluation refuses too, for these sizes
        assume(False)
        raise
    assert static.axes <= {"n"}
    assert static.evaluate({"n": sizes["n"]}) == wanted


@given(EXPRESSIONS)
def test_axes_are_exactly_those_that_evaluation_asks_for(dim: Dim) -> None:
    asked: set[str] = set()

    def axis(name: str) -> int:
        asked.add(name)
        return 1

    operations = dict.fromkeys(get_args(Operator), lambda a, b: a + b)
    dim.fold(Algebra(int, axis, operations))
    assert dim.axes == asked


def test_plain_numbers_mix_in_and_constants_fold() -> None:
    assert (2 + n * 3 - 1).evaluate({"n": 4}) == 13
    assert (10 - n).evaluate({"n": 4}) == 6
    assert (100 // n).evaluate({"n": 7}) == 14
    assert (Constant(7) // 2).evaluate({}) == 3
    assert isinstance(ceil_div(7, 2), Constant)
    assert ceil_div(0, 128).evaluate({}) == 0
    assert product(()).evaluate({}) == 1
    assert product((2, n, n)).evaluate({"n": 3}) == 18


@pytest.mark.parametrize(("a", "b"), [(-1, 2), (4, 0), (4, -2)])
def test_divisions_that_the_targets_would_round_differently_are_refused(a: int, b: int) -> None:
    for divide in (lambda x, y: x // y, ceil_div):
        with pytest.raises(LenetTrtError, match="divided by"):
            divide(n - 0, c).evaluate({"n": a, "c": b})


def test_a_missing_axis_is_named_with_those_that_are_known() -> None:
    with pytest.raises(LenetTrtError, match=r"n \* c: axis c has no value \(known: n\)"):
        (n * c).evaluate({"n": 1})


@pytest.mark.parametrize("value", [1.5, True, "n", None])
def test_only_integers_are_sizes(value: object) -> None:
    with pytest.raises(TypeError, match="int or a Dim"):
        n + value  # type: ignore[operator]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (n <= 64, True),
        (n < 64, False),
        (n >= 65, False),
        (n > 63, True),
        (n.equals(c * 8), True),
        (n.multiple_of(16), True),
        (n.multiple_of(c + 1), False),
        ((n <= 64) & (c >= 8), True),
        ((n <= 64) & (c >= 8) & (c > 8), False),
        (n.multiple_of(16 // size_of("T")), True),
    ],
)
def test_conditions(condition: object, holds: bool) -> None:
    assert condition.evaluate({"n": 64, "c": 8, "sizeof_T": 4}) is holds  # type: ignore[attr-defined]


def test_a_condition_has_no_truth_value_of_its_own() -> None:
    with pytest.raises(TypeError, match="join conditions by &"):
        bool(n <= 64)
    assert str((n <= 64) & n.multiple_of(4)) == "n <= 64 & n is a multiple of 4"
    assert ((n <= 64) & (c > 1)).axes == {"n", "c"}
