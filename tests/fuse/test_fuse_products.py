"""Products of small matrices: every layout is found, computes the same when fused, and others are left alone."""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.normal_form import normal_forms
from lenet_trt.fuse.stage import Fused, fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run

Sizes = Sequence[int | str]
KERNEL = "batched_matmul"
NAMED = {"n": 5}  # the size that a symbolic dimension has in a test


def model_of(nodes: list[onnx.NodeProto], inputs: dict[str, Sizes], rank: int, opset: int = 17) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"d{index}" for index in range(rank)])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def swap(name: str, rank: int) -> onnx.NodeProto:
    perm = [*range(rank - 2), rank - 1, rank - 2]
    return helper.make_node("Transpose", [name], [f"{name}_swapped"], perm=perm)


def matmul_of(a: Sizes, b: Sizes, swap_a: bool = False, swap_b: bool = False, opset: int = 17) -> onnx.ModelProto:
    """Write a MatMul of ``a`` and ``b`` as the file has them, with a Transpose of the last two axes where asked."""
    swapped = {name: len(shape) for name, shape, asked in (("a", a, swap_a), ("b", b, swap_b)) if asked}
    nodes = [swap(name, rank) for name, rank in swapped.items()]
    names = [f"{name}_swapped" if name in swapped else name for name in "ab"]
    nodes.append(helper.make_node("MatMul", names, ["y"]))
    return model_of(nodes, {"a": a, "b": b}, max(len(a), len(b)), opset)


def used(fused: Fused) -> list[str]:
    """Return a name for each plugin node of this kernel; others, such as softmax, do not matter here."""
    return [n.op_type for n in fused.model.graph.node if n.domain == DOMAIN and n.op_type == KERNEL]


def assert_same(model: onnx.ModelProto, fused: onnx.ModelProto) -> None:
    onnx.checker.check_model(fused, full_check=True)
    random = np.random.default_rng(0)
    values = {}
    for value in model.graph.input:
        shape = [dim.dim_value or NAMED[dim.dim_param] for dim in value.type.tensor_type.shape.dim]
        values[value.name] = random.normal(size=shape).astype(np.float32)
    plain, replaced = run(model, **values)[0], run(fused, **values)[0]
    assert plain.shape == replaced.shape
    np.testing.assert_allclose(replaced, plain, rtol=0, atol=1e-5)


def assert_found(model: onnx.ModelProto, left: Sequence[str] = ()) -> None:
    """Check that one plugin node replaces everything except reshapes and the operators ``left``."""
    fused = fuse(model, KERNEL)
    assert used(fused) == [KERNEL]
    assert [n.op_type for n in fused.model.graph.node if not n.domain and n.op_type != "Reshape"] == list(left)
    assert_same(model, fused.model)
    assert fuse(fused.model, "all").model.SerializeToString() == fused.model.SerializeToString()


def assert_left(model: onnx.ModelProto) -> None:
    fused = fuse(model, "all")
    assert KERNEL not in used(fused)
    assert_same(model, fused.model)


sizes = st.integers(1, 9)


@settings(max_examples=50)
@given(
    lead=st.lists(st.sampled_from([1, 2, 3, "n"]), min_size=1, max_size=3).filter(lambda lead: lead.count("n") < 2),
    size=st.tuples(sizes, sizes, sizes),
    swapped=st.tuples(st.booleans(), st.booleans()),
)
def test_every_layout_computes_the_same_when_fused(
    lead: list[int | str], size: tuple[int, int, int], swapped: tuple[bool, bool]
) -> None:
    m, n, k = size
    a = [*lead, k, m] if swapped[0] else [*lead, m, k]
    b = [*lead, n, k] if swapped[1] else [*lead, k, n]
    model = matmul_of(a, b, *swapped)
    if n == 1 and not swapped[0]:
        assert_left(model)
    else:
        assert_found(model)


@pytest.mark.parametrize("batch", [3, "n"])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (65, 8, 8), (8, 65, 8), (8, 8, 65)])
def test_sizes_up_to_64_are_taken(m: int, n: int, k: int, batch: int | str) -> None:
    model = matmul_of((batch, m, k), (batch, k, n))
    (assert_found if max(m, n, k) <= 64 else assert_left)(model)


@pytest.mark.parametrize(
    ("a", "b", "fits"),
    [
        ((2, 3, 4, 7), (2, 1, 7, 5), True),  # the rows of three matrices belong to one larger matrix
        ((2, 3, 2, 4, 7), (2, 1, 1, 7, 5), True),
        (("n", 3, 4, 7), ("n", 1, 7, 5), True),
        ((2, 30, 4, 7), (2, 1, 7, 5), False),  # 120 rows
        ((2, "n", 4, 7), (2, 1, 7, 5), False),
        ((2, 3, 4, 7), (3, 7, 5), False),
        ((2, 3, 4, 7), (1, 3, 7, 5), False),
        ((1, 3, 4, 7), (2, 3, 7, 5), False),
        ((2, 1, 4, 7), (2, 3, 7, 5), False),
        ((2, 3, 4, 7), (1, 1, 7, 5), False),
        ((2, 3, 4, 7), (7, 5), False),
        ((4, 7), (2, 7, 5), False),
        ((7,), (2, 7, 5), False),
        ((2, 4, 7), (7,), False),
        ((4, 7), (7, 5), False),
        ((1, 4, 7), (1, 7, 5), True),
    ],
)
def test_broadcast_operands(a: Sizes, b: Sizes, fits: bool) -> None:
    rank = max(len(a), len(b)) - (len(a) == 1) - (len(b) == 1)
    model = model_of([helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": a, "b": b}, rank)
    (assert_found if fits else assert_left)(model)


@pytest.mark.parametrize(("swap_a", "swap_b"), [(True, False), (False, True), (True, True)])
def test_a_right_matrix_for_several_left_ones(swap_a: bool, swap_b: bool) -> None:
    a = (2, 3, 7, 4) if swap_a else (2, 3, 4, 7)
    b = (2, 1, 5, 7) if swap_b else (2, 1, 7, 5)
    fused = fuse(matmul_of(a, b, swap_a, swap_b))
    assert used(fused) == [KERNEL] or swap_a
    assert_same(matmul_of(a, b, swap_a, swap_b), fused.model)


@settings(max_examples=40)
@given(st.permutations(range(4)), st.permutations(range(3)))
def test_any_transposes_before_a_product_compute_the_same(first: list[int], second: list[int]) -> None:
    shape_a, shape_b = (2, 3, 2, 3), (2, 3, 3)
    after = [shape_a[axis] for axis in first], [shape_b[axis] for axis in second]
    if after[0][-1] != after[1][-2] or after[0][1] != after[1][0]:
        return
    nodes = [
        helper.make_node("Transpose", ["a"], ["p"], perm=list(first)),
        helper.make_node("Transpose", ["b"], ["q"], perm=list(second)),
        helper.make_node("MatMul", ["p", "q"], ["y"]),
    ]
    model = model_of(nodes, {"a": shape_a, "b": shape_b}, 4)
    assert_same(model, fuse(model).model)


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3))))
def test_only_the_last_two_axes_may_change_places(perm: tuple[int, int, int]) -> None:
    """Another order stays a Transpose of its own, and the product after it is found."""
    after = [(4, 4, 4)[axis] for axis in perm]
    nodes = [
        helper.make_node("Transpose", ["a"], ["p"], perm=list(perm)),
        helper.make_node("MatMul", ["p", "b"], ["y"]),
    ]
    model = model_of(nodes, {"a": (4, 4, 4), "b": after}, 3)
    assert_found(model, left=[] if perm == (0, 2, 1) else ["Transpose"])


def test_a_transposed_matrix_that_others_read_stays() -> None:
    nodes = [swap("b", 3), helper.make_node("MatMul", ["a", "b_swapped"], ["p"]), swap("p", 3)]
    nodes += [helper.make_node("MatMul", ["b_swapped", "p_swapped"], ["q"]), helper.make_node("Neg", ["q"], ["y"])]
    model = model_of(nodes, {"a": (3, 4, 4), "b": (3, 4, 4)}, 3)
    fused = fuse(model)
    assert used(fused) == [KERNEL, KERNEL]
    assert_same(model, fused.model)
    model.graph.output.append(helper.make_tensor_value_info("b_swapped", TensorProto.FLOAT, ["u", "v", "w"]))
    assert_same(model, fuse(model).model)


def test_a_product_of_a_matrix_with_itself() -> None:
    nodes = [swap("a", 3), helper.make_node("MatMul", ["a", "a_swapped"], ["y"])]
    assert_found(model_of(nodes, {"a": (3, 4, 6)}, 3))


@pytest.mark.parametrize(
    ("equation", "fits"),
    [
        ("bij,bjk->bik", True),
        ("bik,bjk->bij", True),
        ("bji,bjk->bik", True),
        ("bji,bkj->bik", True),
        ("bij,bjk->bki", True),  # (a b) transposed: b and a change places
        ("b i j, b j k -> b i k", True),
        ("...ij,...jk->...ik", True),
        ("bij,bjk->bk", False),
        ("bij,bjk->bijk", False),
        ("bij,bij->bij", False),
        ("bij,bij->bi", False),
        ("bij,bjk->ibk", False),
        ("bij,bjk", False),
        ("bij,ijk->bik", False),
        ("bii,bij->bij", False),
    ],
)
def test_einsum(equation: str, fits: bool) -> None:
    left, right = equation.replace(" ", "").split("->")[0].split(",")
    letters = dict.fromkeys("ijkb", 4) if not fits else {"b": 3, "i": 4, "j": 6, "k": 7}
    shapes = [[letters[letter] for letter in term.replace("...", "b")] for term in (left, right)]
    rank = len(equation.split("->")[1].replace(" ", "").replace("...", "b")) if "->" in equation else 2
    node = helper.make_node("Einsum", ["a", "b"], ["y"], equation=equation)
    model = model_of([node], dict(zip("ab", shapes, strict=True)), rank)
    (assert_found if fits else assert_left)(model)


@settings(max_examples=40)
@given(st.permutations("bijk"), st.permutations("bijk"), st.permutations("bijk"))
def test_any_einsum_computes_the_same(first: list[str], second: list[str], third: list[str]) -> None:
    """Whatever three letters each term has, the fused file computes what the plain one does."""
    terms = ["".join(letters[:3]) for letters in (first, second, third)]
    if not set(terms[2]) <= set(terms[0] + terms[1]):
        return
    node = helper.make_node("Einsum", ["a", "b"], ["y"], equation=f"{terms[0]},{terms[1]}->{terms[2]}")
    sizes_of = {"b": 2, "i": 3, "j": 4, "k": 5}
    shapes = [[sizes_of[letter] for letter in term] for term in terms[:2]]
    model = model_of([node], dict(zip("ab", shapes, strict=True)), 3)
    assert_same(model, fuse(model).model)


@pytest.mark.parametrize("opset", range(11, 24))
def test_opsets(opset: int) -> None:
    assert_found(matmul_of(("n", 3, 4, 6), ("n", 3, 5, 6), swap_b=True, opset=opset))


def test_half_precision_is_found_in_its_type() -> None:
    model = matmul_of((3, 4, 8), (3, 8, 6))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    (done,) = fuse(model).replacements
    assert (done.kernel, done.types) == (KERNEL, "fp16")


torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")


def scaled(op_type: str, value: float, shape: tuple[int, ...], *names: str) -> list[onnx.NodeProto]:
    """Write ``names[1] = names[0] * value``, or divided by it, with a constant of this shape."""
    data = numpy_helper.from_array(np.full(shape, value, np.float32))
    constant = helper.make_node("Constant", [], [f"{names[1]}_factor"], value=data)
    return [constant, helper.make_node(op_type, [names[0], f"{names[1]}_factor"], [names[1]])]


@settings(max_examples=40)
@given(
    factors=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "y"]), st.sampled_from(["Mul", "Div"]), st.sampled_from([0.25, -3.0, 1.0])
        ),
        max_size=4,
    ),
    shape=st.sampled_from([(), (1,), (1, 1, 1)]),
    swap_first=st.booleans(),
)
def test_factors_are_taken_into_the_product(
    factors: list[tuple[str, str, float]], shape: tuple[int, ...], swap_first: bool
) -> None:
    nodes: list[onnx.NodeProto] = []
    last = {"a": "a", "b": "b"}
    if swap_first:
        nodes.append(swap("b", 3))
        last["b"] = "b_swapped"
    for index, (operand, op_type, value) in enumerate(factors):
        if operand != "y":
            nodes += scaled(op_type, value, shape, last[operand], f"{operand}{index}")
            last[operand] = f"{operand}{index}"
    if not swap_first:
        nodes.append(helper.make_node("Transpose", [last["b"]], ["b_swapped"], perm=[0, 2, 1]))
        last["b"] = "b_swapped"
    after = [factor for factor in factors if factor[0] == "y"][:1]  # one after the product is taken in
    nodes.append(helper.make_node("MatMul", [last["a"], last["b"]], ["p" if after else "y"]))
    for _, op_type, value in after:
        nodes += scaled(op_type, value, shape, "p", "y")
    assert_found(model_of(nodes, {"a": (3, 4, 6), "b": (3, 5, 6)}, 3))


@pytest.mark.parametrize("case", ["a vector", "read elsewhere", "an output", "not constant", "divided", "zero"])
def test_factors_that_are_no_such_factor_stay(case: str) -> None:
    nodes = scaled("Mul", 0.5, (6,) if case == "a vector" else (), "a", "scaled")
    if case == "not constant":
        nodes = [helper.make_node("ReduceMax", ["b"], ["most"], keepdims=0)]
        nodes += [helper.make_node("Mul", ["a", "most"], ["scaled"])]
    elif case == "divided":
        nodes = [nodes[0], helper.make_node("Div", ["scaled_factor", "a"], ["scaled"])]
    elif case == "zero":
        nodes = scaled("Div", 0.0, (), "a", "scaled")
    nodes += [helper.make_node("MatMul", ["scaled", "b"], ["p" if case == "read elsewhere" else "y"])]
    if case == "read elsewhere":
        nodes += [
            helper.make_node("ReduceMax", ["scaled"], ["q"], keepdims=0),
            helper.make_node("Add", ["p", "q"], ["y"]),
        ]
    model = model_of(nodes, {"a": (3, 4, 6), "b": (3, 6, 5)}, 3)
    if case == "an output":
        model.graph.output.append(helper.make_tensor_value_info("scaled", TensorProto.FLOAT, [3, 4, 6]))
    fused = fuse(model).model
    left = "Div" if case in ("divided", "zero") else "Mul"
    assert left in {node.op_type for node in fused.graph.node}
    if case != "zero":
        assert_same(model, fused)


def test_products_with_different_factors_in_one_file() -> None:
    nodes = [*scaled("Mul", 0.5, (), "a", "s"), helper.make_node("MatMul", ["s", "b"], ["p"]), swap("b", 3)]
    nodes += [helper.make_node("MatMul", ["p", "b_swapped"], ["y"])]
    model = model_of(nodes, {"a": (3, 4, 6), "b": (3, 6, 5)}, 3)
    fused = fuse(model)
    assert used(fused) == [KERNEL, KERNEL]
    assert_same(model, fused.model)


class Attention(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Attention of small windows in the ways that people write it."""

    def __init__(self, written: str) -> None:
        super().__init__()
        self.written = written

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        if self.written == "sdpa":
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)
        if self.written == "einsum":
            scores = torch.einsum("bhid,bhjd->bhij", q, k)
            return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
        scores = q @ k.transpose(-2, -1) if self.written == "@" else torch.matmul(q, k.permute(0, 1, 3, 2))
        return scores.softmax(-1) @ v


@pytest.mark.parametrize("written", ["@", "permute", "einsum", "sdpa"])
@pytest.mark.parametrize(
    ("dynamo", "opset"), [(False, 11), (False, 12), (False, 17), (False, 20), (True, 18), (True, 21), (True, 23)]
)
def test_attention_of_torch_exporters(written: str, dynamo: bool, opset: int) -> None:
    if (written == "einsum" and opset < 12) or (written == "sdpa" and opset < 14):
        pytest.skip("the exporter cannot write that in so old an opset")
    if written == "sdpa" and opset >= 23:
        pytest.skip("ONNX has an operator for it from opset 23 on")
    inputs = tuple(torch.randn(2, 3, 49, 32) for _ in range(3))
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {"dynamo": True, "verbose": False} if dynamo else {"dynamo": False}
        network = Attention(written).eval()
        done = torch.onnx.export(network, inputs, None if dynamo else file, opset_version=opset, **options)
    model = done.model_proto if dynamo else onnx.load_from_string(file.getvalue())
    fused = fuse(model, KERNEL)
    assert used(fused) == [KERNEL, KERNEL]
    assert not {"Transpose", "Mul"} & {node.op_type for node in fused.model.graph.node}
    values = {value.name: tensor.numpy() for value, tensor in zip(model.graph.input, inputs, strict=True)}
    np.testing.assert_allclose(run(fused.model, **values)[0], run(model, **values)[0], rtol=0, atol=1e-5)


class WindowAttention(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Attention of 7x7 windows of a picture as networks write it, with sizes that are computed from the input's."""

    def __init__(self, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(96, 3 * 96)

    def forward(self, x: Any) -> Any:
        n, height, width, channels = x.shape
        x = x.view(n, height // 7, 7, width // 7, 7, channels).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(n * (height // 7) * (width // 7), 49, channels)
        qkv = self.qkv(x).reshape(x.size(0), x.size(1), 3, self.heads, channels // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = (q * (channels // self.heads) ** -0.5) @ k.transpose(-2, -1)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.size(0), x.size(1), channels)


@pytest.mark.parametrize("opset", [11, 17])
def test_attention_with_an_open_batch(opset: int) -> None:
    """The sizes of heads are computed in the file, from sizes that are known although the batch is not."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = torch.randn(2, 14, 14, 96)
        torch.onnx.export(
            WindowAttention().eval(),
            (example,),
            file,
            opset_version=opset,
            dynamo=False,
            input_names=["x"],
            dynamic_axes={"x": {0: "n"}},
        )
    model = onnx.load_from_string(file.getvalue())
    assert {"Shape", "Div"} <= {node.op_type for node in model.graph.node}
    fused = fuse(model, KERNEL)
    assert used(fused) == [KERNEL, KERNEL]
    for batch in (1, 3):
        values = {"x": np.random.default_rng(0).normal(size=(batch, 14, 14, 96)).astype(np.float32)}
        np.testing.assert_allclose(run(fused.model, **values)[0], run(model, **values)[0], rtol=0, atol=1e-5)


def test_sizes_that_are_not_known_stay() -> None:
    """A size of an open dimension, and a division that NumPy rounds in another way, are not turned into constants."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Constant", [], ["index"], value_ints=[0, 2]),
        helper.make_node("Gather", ["shape", "index"], ["sizes"]),
        helper.make_node("Constant", [], ["minus_three"], value_ints=[-3]),
        helper.make_node("Constant", [], ["two"], value_ints=[2]),
        helper.make_node("Div", ["minus_three", "two"], ["minus_one"]),
        helper.make_node("Add", ["sizes", "minus_one"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "sizes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 6])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (form,) = normal_forms(model)
    assert [node.op_type for node in form.nodes] == ["Shape", "Gather", "Div", "Add"]
