"""A layout says where the elements of a tensor lie in the one that it was moved from, as NumPy moves them."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from lenet_trt.fuse.movement import StridedLayout, as_it_lies, joined_factors


def places(layout: StridedLayout) -> np.ndarray:
    """Return for each element the place in the source that the layout says."""
    sums = [
        sum(index * stride for index, (_, stride) in zip(indexes, layout.factors, strict=True))
        for indexes in product(*(range(size) for size, _ in layout.factors))
    ]
    return (np.array(sums, np.int64) + layout.offset).reshape(layout.shape)


def test_a_layout_follows_random_movements() -> None:
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        shape = tuple(random.integers(1, 5, random.integers(1, 5)))
        array, layout = np.arange(prod(shape)).reshape(shape), as_it_lies(tuple(map(int, shape)))
        for _ in range(random.integers(1, 6)):
            kind = random.integers(3)
            if kind == 0:
                perm = random.permutation(array.ndim)
                array, moved = array.transpose(perm), layout.transposed(perm)
            elif kind == 1:
                axis = int(random.integers(array.ndim))
                start = int(random.integers(array.shape[axis]))
                size = int(random.integers(1, array.shape[axis] - start + 1))
                array, moved = array.take(range(start, start + size), axis), layout.part(axis, start, size)
            else:
                divisors = [size for size in range(1, array.size + 1) if array.size % size == 0]
                first = int(random.choice(divisors))
                array, moved = array.reshape(first, -1), layout.reshaped([first, array.size // first])
            if moved is None:
                refused += 1
                break
            layout = moved
            np.testing.assert_array_equal(places(layout), array)
    assert 0 < refused < 150


def test_axes_that_were_joined_are_parted_again() -> None:
    """As torch.nn.MultiheadAttention does with images and heads: neither stride serves both."""
    tokens_first = as_it_lies((7, 2, 3, 4)).part(2, 1, 2)  # [tokens, images, two of three, ...]
    joint = tokens_first.reshaped([7, 4, 4])
    assert joint is not None
    assert joint.axes[1] == ((2, 12), (2, 4))
    assert joint.reshaped([7, 2, 2, 4]) == tokens_first
    assert joint.reshaped([7, 16]) is not None
    assert joint.part(1, 1, 2) is None


@pytest.mark.parametrize(
    ("factors", "wanted"),
    [
        ([(2, 6), (3, 2)], ((6, 2),)),
        ([(2, 7), (3, 2)], ((2, 7), (3, 2))),
        ([(1, 100), (3, 2), (1, 5)], ((3, 2),)),
        ([], ()),
    ],
)
def test_factors_are_joined_where_one_stride_serves_both(
    factors: list[tuple[int, int]], wanted: tuple[tuple[int, int], ...]
) -> None:
    assert joined_factors(factors) == wanted
