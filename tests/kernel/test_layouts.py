"""Layouts: the addresses that TensorRT documents, what a declaration may say, and what each route does with them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from declared_kernels import declared
from lenet_trt.check.__main__ import check_kernel
from lenet_trt.check.pattern_check import pattern_problems, small_bounds
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import Kernel, Tensor, Types
from lenet_trt.kernel.dims import axes
from lenet_trt.kernel.examples import bounds
from lenet_trt.kernel.layouts import LAYOUTS
from lenet_trt.kernel.shapes import Shape

n, c, h, w = axes("n c h w")
SHAPES = st.lists(st.integers(0, 2), max_size=2).flatmap(
    lambda outer: st.tuples(st.just(outer), st.integers(0, 70), st.integers(0, 3), st.integers(0, 3))
)


@given(SHAPES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_what_is_stored_is_loaded_again(name: str, sizes: tuple[list[int], int, int, int]) -> None:
    layout = LAYOUTS[name]
    shape: Shape = (*sizes[0], *sizes[1:])
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    stored = layout.store(array, padding=-1)
    assert stored.shape == layout.stored_shape(shape)
    again, padding = layout.load(stored, shape)
    np.testing.assert_array_equal(again, array)
    assert (padding == -1).all()
    assert padding.size == stored.size - array.size


def test_a_number_is_where_tensorrt_says_it_is() -> None:
    """HWC8: [n][h][w][(c + 7) / 8 * 8]; CHW32: [n][(c + 31) / 32][h][w][32]."""
    shape = (2, 37, 3, 4)
    array = np.arange(np.prod(shape)).reshape(shape)
    hwc8, chw32 = LAYOUTS["hwc8"].store(array), LAYOUTS["chw32"].store(array)
    assert (hwc8.shape, chw32.shape) == ((2, 3, 4, 40), (2, 2, 3, 4, 32))
    for i, j, k, m in itertools.product(*map(range, shape)):
        assert hwc8[i, k, m, j] == array[i, j, k, m]
        assert chw32[i, j // 32, k, m, j % 32] == array[i, j, k, m]


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        (
            Tensor("x", (n, c, h, w), "T", "", layout="nhwc"),
            "x has the layout nhwc, which is none of linear, hwc8, chw32",
        ),
        (Tensor("x", (n, c, h, w), "T", "", layout="hwc8", weight=True), "x is a weight with the layout hwc8: pack it"),
        (Tensor("x", (n * c, h * w), "T", "", layout="hwc8"), "x has the layout hwc8, which takes 3 axes or more"),
        (
            Tensor("x", (n, c, h, w), "float32", "", layout="hwc8"),
            "x has the layout hwc8 in fp16; TensorRT has it for float16, bfloat16 alone",
        ),
    ],
)
def test_a_wrong_declaration_is_refused(tensor: Tensor, problem: str) -> None:
    with pytest.raises(LenetTrtError, match=problem):
        replace(declared("abs_packed"), inputs=(tensor,))


def test_bytes_and_the_largest_tensor_are_those_of_the_memory() -> None:
    kernel: Kernel = declared("abs_packed")
    bound = kernel.bind([(3, 20, 5, 7)], ["float16"])
    assert bound.output_shapes == ((3, 20, 5, 7),)
    assert bound.stored_input_shapes == ((3, 5, 7, 24),)
    assert bound.stored_output_shapes == ((3, 1, 5, 7, 32),)
    assert bound.dram_bytes == 2 * 3 * 35 * (24 + 32)
    small = replace(kernel, max_elements=3 * 35 * 30)
    with pytest.raises(LenetTrtError, match="y has 3360 elements; abs_packed takes at most 3150"):
        small.bind([(3, 20, 5, 7)], ["float16"]).check_size()


def test_the_kernel_passes_what_needs_no_gpu() -> None:
    kernel = declared("abs_packed")
    outcomes = check_kernel(kernel, only=("examples", "compile", "serialize"), targets=("sm_75",))
    assert [outcome.failures for outcome in outcomes] == [(), (), ()]
    assert list(pattern_problems(small_bounds(bounds(kernel)))) == []


def test_a_quantized_tensor_may_have_a_layout() -> None:
    kernel = declared("abs_packed")
    x, y = (Tensor(name, (n, c, h, w), "T", "", layout="chw32") for name in "xy")
    assert replace(kernel, inputs=(x,), outputs=(y,), types=(Types("int8", {"T": "int8"}, 0.0),)).types


@pytest.mark.parametrize("shape", [(3, 20, 5, 7), (1, 1, 1, 1), (2, 64, 3, 3), (5, 33, 2)])
@pytest.mark.parametrize("name", LAYOUTS)
def test_torch_stores_as_numpy_does(name: str, shape: Shape) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
    from lenet_trt.runtimes.graph.torch_op import loaded, stored

    layout = LAYOUTS[name]
    array = np.random.default_rng(1).standard_normal(shape).astype(np.float16)
    memory = stored(torch.from_numpy(array), layout)
    assert memory.is_contiguous()
    np.testing.assert_array_equal(memory.numpy(), layout.store(array))
    np.testing.assert_array_equal(loaded(memory, layout, shape).numpy(), array)


def test_channels_last_of_torch_is_hwc8() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")
    from lenet_trt.runtimes.graph.torch_op import stored, viewed

    layout = LAYOUTS["hwc8"]
    tensor = torch.randn(2, 16, 5, 7).half().contiguous(memory_format=torch.channels_last)
    memory = stored(tensor, layout)
    assert memory.is_contiguous()
    seen = viewed(memory, layout, tuple(tensor.shape))
    assert seen.data_ptr() == memory.data_ptr() == tensor.data_ptr()
    assert torch.equal(seen, tensor)
