"""What nodes have to do, against counts by hand; and that counts add up however a model is cut."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper, parser

from lenet_trt.errors import LenetTrtError
from lenet_trt.export.geometry import flops_per_image
from lenet_trt.floors.floor import Work
from lenet_trt.floors.operators import PRODUCTS
from lenet_trt.floors.work import NodeWork, network_of, work_of
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.registry import kernels
from lenet_trt.onnx_model.profiles import inputs_of
from lenet_trt.onnx_model.read import load_lenet5
from lenet_trt.onnx_model.shapes import KnownTensor
from networks import Network, model_of, networks


def model(text: str, weights: Mapping[str, np.ndarray] | None = None) -> onnx.ModelProto:
    """A model in ONNX's text form, with weights added."""
    made = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18, "elsewhere" : 1]> g {text}')
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in (weights or {}).items())
    return made


def only(text: str, weights: Mapping[str, np.ndarray] | None = None, **sizes: int) -> NodeWork:
    """The work of a model's one node."""
    (found,) = work_of(model(text, weights), sizes)
    return found


@pytest.fixture(scope="module")
def lenet5() -> onnx.ModelProto:
    return load_lenet5()[0]


def test_the_matmul_of_the_write_up() -> None:
    found = only("(float[600,200,8,1,64] a, float[600,1,8,64,1] b) => (float[600,200,8,1,1] c) { c = MatMul(a, b) }")
    assert found.work.read_bytes == 4 * (600 * 200 * 8 * 64 + 600 * 8 * 64)  # b once, though it is broadcast
    assert found.work.written_bytes == 4 * 600 * 200 * 8
    assert found.work.flops == 2 * 600 * 200 * 8 * 64
    assert found.work.total_bytes / 1e6 == pytest.approx(250.8, abs=0.05)


def test_products() -> None:
    gemm = only(
        "(float[n,256] x) => (float[n,120] y) { y = Gemm<transB = 1>(x, w, b) }",
        {"w": np.zeros((120, 256), np.float32), "b": np.zeros(120, np.float32)},
        n=7,
    )
    assert gemm.work == Work(4 * (7 * 256 + 120 * 256 + 120), 4 * 7 * 120, 2 * 7 * 256 * 120)
    assert gemm.arithmetic == "split"
    half = only("(float16[3,4,5] x, float16[5,6] w) => (float16[3,4,6] y) { y = MatMul(x, w) }")
    assert half.work == Work(2 * (60 + 30), 2 * 72, 2 * 72 * 5)
    assert half.arithmetic == "fp16"
    vector = only("(float[5] x, float[5] w) => (float y) { y = MatMul(x, w) }")
    assert vector.work == Work(40, 4, 10)
    left = only("(float[8,3] x, float[8,4] w) => (float[3,4] y) { y = Gemm<transA = 1>(x, w) }")
    assert left.work.flops == 2 * 3 * 4 * 8
    einsum = only(
        '(float[2,3,4] x, float[2,4,5] w) => (float[2,3,5] y) { y = Einsum<equation = "bij,bjk->bik">(x, w) }'
    )
    assert einsum.work.flops == 2 * 2 * 3 * 4 * 5


def test_convolutions() -> None:
    weights = {"w": np.zeros((8, 2, 3, 3), np.float32), "b": np.zeros(8, np.float32)}
    grouped = only(
        "(float[n,4,10,10] x) => (float[n,8,5,5] y) { y = Conv<group=2, strides=[2,2], pads=[1,1,1,1]>(x, w, b) }",
        weights,
        n=3,
    )
    assert grouped.work == Work(4 * (3 * 400 + 144 + 8), 4 * 3 * 200, 2 * 3 * 200 * 2 * 9)
    up = only(
        "(float[1,4,5,5] x) => (float[1,3,10,10] y) { y = ConvTranspose<strides=[2,2]>(x, w) }",
        {"w": np.zeros((4, 3, 2, 2), np.float32)},
    )
    assert up.work == Work(4 * (100 + 48), 4 * 300, 2 * 100 * 3 * 4)


def test_elementwise_and_reductions() -> None:
    assert only("(float[n,4] x, float[4] y) => (float[n,4] z) { z = Add(x, y) }", n=5).work == Work(96, 80, 20)
    assert only("(float[6] x) => (float[6] z) { z = Mul(x, x) }").work == Work(24, 24, 6)  # read once
    assert only("(float[6] x) => (float[6] z) { z = Relu(x) }").work == Work(24, 24, 0)
    tanh = only("(float[6] x) => (float[6] z) { z = Tanh(x) }")
    assert (tanh.work, tanh.estimated) == (Work(24, 24, 6), True)
    total = only("(float[5,7] x) => (float[5] z) { z = ReduceSum<keepdims=0>(x, axes) }", {"axes": np.array([1])})
    assert total.work == Work(140, 20, 35)
    pooled = only("(float[1,2,4,4] x) => (float[1,2,2,2] z) { z = AveragePool<kernel_shape=[2,2], strides=[2,2]>(x) }")
    assert pooled.work == Work(128, 32, 32)
    assert only("(float16[8] x) => (float16[8] z) { z = Softmax(x) }").work == Work(16, 16, 32)


def test_what_is_selected_alone_is_read() -> None:
    indices = np.array([3, 5], np.int64)
    found = only("(float[1000,8] x) => (float[2,8] z) { z = Gather(x, i) }", {"i": indices})
    assert found.work == Work(64 + 16, 64, 0)
    wide = only("(float[8] x) => (float[100,8] z) { z = Expand(x, s) }", {"s": np.array([100, 8])})
    assert wide.work == Work(32, 3200, 0)


def test_views_cost_nothing_and_copies_do() -> None:
    text = """(float[n,4,1,6] x) => (float[n,24] z) {
        a = Squeeze(x, axis)
        b = Reshape(a, shape)
        c = Identity(b)
        z = Relu(c)
    }"""
    weights = {"axis": np.array([2]), "shape": np.array([0, -1])}
    found = work_of(model(text, weights), {"n": 3})
    assert [entry.work for entry in found] == [Work(0, 0, 0)] * 3 + [Work(288, 288, 0)]
    moves = only("(float[2,1,3] x) => (float[1,2,3] z) { z = Transpose<perm=[1,0,2]>(x) }")
    assert moves.work == Work(0, 0, 0)  # only an axis of one element moves
    swaps = only("(float[2,1,3] x) => (float[3,1,2] z) { z = Transpose<perm=[2,1,0]>(x) }")
    assert swaps.work == Work(24, 24, 0)


def test_shapes_that_the_model_computes_are_followed() -> None:
    text = """(float[n,4,6] x) => (float[m,k] z) {
        s = Shape(x)
        n0 = Gather<axis=0>(s, zero)
        n1 = Unsqueeze(n0, first)
        rest = Constant<value_ints=[-1]>()
        shape = Concat<axis=0>(n1, rest)
        flat = Reshape(x, shape)
        z = Relu(flat)
    }"""
    found = work_of(model(text, {"zero": np.array(0), "first": np.array([0])}), {"n": 5})
    assert [entry.op for entry in found] == ["Reshape", "Relu"]
    assert found[1].work == Work(480, 480, 0)
    assert found[1].shapes == "5x24 -> 5x24"


def test_what_is_done_to_constants_is_done_once() -> None:
    text = """(float[n,4] x) => (float[n,5] z) {
        t = Transpose<perm=[1,0]>(w)
        z = MatMul(x, t)
    }"""
    small = work_of(model(text, {"w": np.zeros((5, 4), np.float32)}), {"n": 2})
    assert [entry.op for entry in small] == ["MatMul"]
    wide = text.replace("float[n,4]", "float[n,4000]")
    large = work_of(model(wide, {"w": np.zeros((5, 4000), np.float32)}), {"n": 2})
    assert [entry.op for entry in large] == ["MatMul"]
    assert large[0].work.read_bytes == 4 * (2 * 4000 + 5 * 4000)


def test_an_operator_that_is_not_known_is_counted_by_its_elements() -> None:
    text = "(float[2,3] x) => (float[2,3] z) { z = elsewhere.Mystery(x) }"
    found = only(text)
    assert (found.work, found.estimated) == (Work(24, 24, 6), True)


def test_what_cannot_be_known_is_said() -> None:
    with pytest.raises(LenetTrtError, match=r"x \[n, 4\] has axes without a size \(n\).*--batch"):
        only("(float[n,4] x) => (float[n,4] z) { z = Relu(x) }")
    with pytest.raises(LenetTrtError, match=r"at node y, NonZero.*depends on the values"):
        work_of(model("(float[4] x) => (int64[1,k] y) { y = NonZero(x) }"), {})


def test_functions_are_counted_as_what_they_stand_for() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18, "mine" : 1]>
    g (float[n,4] x) => (float[n,4] z) { z = mine.twice(x) }
    <domain: "mine", opset_import: ["" : 18]> twice (a) => (c) { b = Add(a, a) c = Add(b, b) }"""
    found = work_of(parser.parse_model(text), {"n": 3})
    assert [entry.work for entry in found] == [Work(48, 48, 12)] * 2


def test_lenet5(lenet5: onnx.ModelProto) -> None:
    for n in (1, 33):
        assert sum(entry.work.flops for entry in work_of(lenet5, {"n": n})) == n * flops_per_image()


def test_a_plugin_is_counted_as_fused(lenet5: onnx.ModelProto) -> None:
    plain = network_of(lenet5, {"n": 32})
    (plugin,) = (entry for entry in work_of(fuse(lenet5, ["lenet5"]).model, {"n": 32}) if entry.op == "lenet5")
    apart = [entry.work for entry in plain.nodes]
    assert plugin.work.flops == sum(work.flops for work in apart) == 32 * flops_per_image()
    assert plugin.work.total_bytes < sum(work.total_bytes for work in apart) / 5
    assert plugin.replaces == tuple(entry.node for entry in plain.nodes)
    together = plain.fused([entry.node for entry in plain.nodes], "all", "fused")
    assert together.work == plugin.work  # images, weights once, logits; nothing between
    assert together.work.written_bytes == 32 * 10 * 4


def test_a_plugin_replaces_nodes_without_names_too(lenet5: onnx.ModelProto) -> None:
    plain = onnx.ModelProto()
    plain.CopyFrom(lenet5)
    for node in plain.graph.node:
        node.name = ""
    names = tuple(entry.node for entry in work_of(plain, {"n": 3}))
    (plugin,) = work_of(fuse(plain, ["lenet5"]).model, {"n": 3})
    assert plugin.replaces == names == tuple(node.output[0] for node in plain.graph.node)


def test_plugins_whose_shapes_nobody_declares_are_known_by_their_kernels(lenet5: onnx.ModelProto) -> None:
    fused = fuse(lenet5, ["conv5x5_bias_relu_pool2", "dense_bias_relu"]).model
    declared = work_of(fused, {"n": 7})
    del fused.functions[:]
    del fused.graph.value_info[:]
    assert work_of(fused, {"n": 7}) == declared
    assert sum(entry.work.flops for entry in declared) == 7 * flops_per_image()


def test_shapes_behind_many_plugins_are_known() -> None:
    length = 50
    norms = " ".join(
        f"s{i} = Add(x{i}, a) p{i} = Mul(s{i}, s{i}) m{i} = ReduceMean<axes = [-1]>(p{i}) e{i} = Add(m{i}, epsilon) "
        f"r{i} = Sqrt(e{i}) d{i} = Div(s{i}, r{i}) x{i + 1} = Mul(d{i}, scale)"
        for i in range(length)
    )
    text = f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[n, 4, 16] x0, float[n, 4, 16] a) => (float[n, 4, 16] x{length}) <float epsilon = {{1e-5}}> {{
          {norms}
        }}"""
    plain = parser.parse_model(text)
    plain.graph.initializer.append(numpy_helper.from_array(np.ones(16, np.float32), "scale"))
    fused = fuse(plain, ["add_rms_norm"]).model
    del fused.functions[:]
    del fused.graph.value_info[:]
    entries = work_of(fused, {"n": 3})
    assert sum(entry.op == "add_rms_norm" for entry in entries) == length


def test_fused_nodes_hand_on_what_nobody_else_needs() -> None:
    text = """(float[8] x) => (float[8] y, float[4,2] z) {
        a = Relu(x)
        flat = Reshape(a, shape)
        y = Tanh(a)
        z = Exp(flat)
    }"""
    network = network_of(model(text, {"shape": np.array([4, 2])}), {})
    assert network.fused(["a", "y"], "ay", "fused").work == Work(32, 64, 8)  # a is read by z through its view
    assert network.fused(["a", "flat", "y", "z"], "all", "fused").work == Work(32, 64, 16)
    assert network.fused(["a", "flat"], "view", "fused").work == Work(32, 32, 0)
    with pytest.raises(LenetTrtError, match="no node nonsense; the model has a, flat, y, z"):
        network.fused(["nonsense"], "none", "fused")


@settings(max_examples=25)
@given(n=st.integers(1, 5000), factor=st.integers(1, 7))
def test_work_scales_with_the_batch(lenet5: onnx.ModelProto, n: int, factor: int) -> None:
    once = network_of(lenet5, {"n": n}).nodes
    more = network_of(lenet5, {"n": n * factor}).nodes
    weights = network_of(lenet5, {"n": 0}).nodes
    for a, b, constant in zip(once, more, weights, strict=True):
        assert b.work.flops == factor * a.work.flops
        assert b.work.written_bytes == factor * a.work.written_bytes
        read = constant.work.read_bytes
        assert b.work.read_bytes - read == factor * (a.work.read_bytes - read)


@settings(max_examples=40)
@given(cut=st.lists(st.integers(0, 11), min_size=1, unique=True))
def test_however_nodes_are_fused_operations_stay_and_bytes_never_grow(lenet5: onnx.ModelProto, cut: list[int]) -> None:
    network = network_of(lenet5, {"n": 5})
    chosen = [network.nodes[index] for index in sorted(cut)]
    fused = network.fused([entry.node for entry in chosen], "some", "fused").work
    assert fused.flops == sum(entry.work.flops for entry in chosen)
    assert fused.read_bytes <= sum(entry.work.read_bytes for entry in chosen)
    assert fused.written_bytes <= sum(entry.work.written_bytes for entry in chosen)


@settings(max_examples=25)
@given(network=networks(), batch=st.sampled_from([1, 6]))
def test_plugins_count_the_products_of_what_they_replace(network: Network, batch: int) -> None:
    plain = model_of(network)
    sizes = {axis: batch for axes in inputs_of(plain).values() for axis in axes if isinstance(axis, str)}
    before, after = work_of(plain, sizes), work_of(fuse(plain, "auto").model, sizes)

    def products(nodes: list[NodeWork]) -> int:
        kinds = {*PRODUCTS, *(name for name in kernels() if name != "maxpool2")}
        return sum(entry.work.flops for entry in nodes if entry.op in kinds)

    assert products(after) == products(before)
    zeros = 4 * 256  # a plugin reads a bias of zeros where the layer has none; all here have fewer than 256 channels
    assert sum(e.work.total_bytes for e in after) <= sum(e.work.total_bytes for e in before) + zeros


def test_types_have_their_sizes() -> None:
    for name, size in (("bfloat16", 2), ("double", 8), ("int8", 1)):
        found = only(f"({name}[10] x) => ({name}[10] z) {{ z = Abs(x) }}")
        assert found.work.read_bytes == 10 * size
    assert KnownTensor((5,), TensorProto.INT4).bytes == 3  # two to a byte
    assert KnownTensor((), TensorProto.FLOAT).bytes == 4
    assert KnownTensor((0, 7), TensorProto.FLOAT).bytes == 0


@pytest.mark.parametrize(("dtype", "arithmetic"), [(np.float32, "split"), (np.float16, "fp16")])
def test_a_plugin_computes_in_the_type_of_its_inputs(dtype: type, arithmetic: str) -> None:
    name = {np.float32: "float", np.float16: "float16"}[dtype]
    plain = model(
        f"({name}[n,4] x) => ({name}[n,3] y) {{ y = Gemm<transB = 1>(x, w, b) }}",
        {"w": np.zeros((3, 4), dtype), "b": np.zeros(3, dtype)},
    )
    (plugin,) = work_of(fuse(plain, ["dense_bias_relu"]).model, {"n": 2})
    assert (plugin.op, plugin.arithmetic, plugin.shapes) == ("dense_bias_relu", arithmetic, "2x4 -> 2x3")
    assert plugin.weights == 15


def test_a_model_of_constants_alone_needs_nothing() -> None:
    folded = network_of(model("() => (float[3, 3] y) { y = Add(w, w) }", {"w": np.ones((3, 3), np.float32)}), {})
    assert not folded.nodes
    whole = folded.fused((), "as one kernel", "all")
    assert (whole.work.total_bytes, whole.work.flops, whole.shapes) == (0, 0, "0 nodes")
