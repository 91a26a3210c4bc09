"""Random symbolic sizes for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.dims import Constant, Dim, axes, ceil_div, maximum, minimum

n, c, h = axes("n c h")
BINARY = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a // b,
    ceil_div,
    minimum,
    maximum,
)


def make(a: Dim, b: Dim, which: int) -> Dim:
    try:
        return BINARY[which](a, b)
    except LenetTrtError:  # two constants, divided by zero
        return a


SIZES = st.fixed_dictionaries({"n": st.integers(0, 300), "c": st.integers(1, 70), "h": st.integers(1, 33)})
EXPRESSIONS = st.recursive(
    st.one_of(st.integers(0, 40).map(Constant), st.sampled_from([n, c, h])),
    lambda inner: st.builds(make, inner, inner, st.integers(0, len(BINARY) - 1)),
    max_leaves=10,
)
