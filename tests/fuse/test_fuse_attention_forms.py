"""Attention is written in one way before patterns are matched, and the fused network computes the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.fuse.normal_form import normal_forms, plain_form
from lenet_trt.fuse.stage import fuse
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.precision import convert
from plain_runtime import run
from torch_export import exported_module

Sizes = Sequence[int | str]
N = 2  # the size of an open batch in a test
WINDOWS, HEADS, ROWS, DEPTH = 4, 3, 5, 8


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def model_of(
    nodes: list[onnx.NodeProto], inputs: Mapping[str, Sizes], constants: Mapping[str, Any], also: Sequence[str] = ()
) -> onnx.ModelProto:
    """Make a model with the output y, and those that ``also`` names."""
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    results = [onnx.ValueInfoProto(name=name) for name in ("y", *also)]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "attention", made, results, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(model, full_check=True)
    return model


def run_on_noise(model: onnx.ModelProto) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    given = {}
    for value in model.graph.input:
        shape = [dim.dim_value or N for dim in value.type.tensor_type.shape.dim]
        given[value.name] = random.normal(size=shape).astype(np.float32)
    return run(model, **given)


def fused_alike(model: onnx.ModelProto, kernel: str) -> list[str]:
    """Fuse a model, compare it with the plain one, and return the operators that are left."""
    fused = fuse(model, [kernel]).model
    onnx.checker.check_model(fused, full_check=True)
    for seen, wanted in zip(run_on_noise(fused), run_on_noise(model), strict=True):
        assert seen.shape == wanted.shape
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)
    return [node.op_type for node in fused.graph.node if node.op_type != "Reshape"]


def only(graph: WorkingGraph, op_type: str) -> WorkingNode:
    (node,) = [node for node in graph.nodes if node.op_type == op_type]
    return node


def node(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


def scores_of_windows(
    mask: str = "mask", swapped: bool = False, before: str = "scores", inside: Sequence[onnx.NodeProto] = ()
) -> list[onnx.NodeProto]:
    """Write the attention of shifted windows as Swin has it: a bias, and a mask for each window of a picture."""
    return [
        node("Transpose", "k", "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q turned", "scores"),
        node("Add", "scores bias", "biased"),
        node("Reshape", f"{'biased' if before == 'scores' else before} five", "divided"),
        node("Add", f"{mask} divided" if swapped else f"divided {mask}", "masked"),
        node("Reshape", "masked four", "joined"),
        *inside,
        node("Softmax", "joined", "weights", axis=-1),
        node("MatMul", "weights v", "y"),
    ]


def windows_model(
    batch: int | str = N, mask: np.ndarray | None = None, also: Sequence[str] = (), **options: Any
) -> onnx.ModelProto:
    whole_size = batch * WINDOWS if isinstance(batch, int) else batch
    constants = {
        "bias": values(1, HEADS, ROWS, ROWS),
        "mask": values(1, WINDOWS, 1, ROWS, ROWS) if mask is None else mask,
        "five": np.array([-1, WINDOWS, HEADS, ROWS, ROWS]),
        "four": np.array([-1, HEADS, ROWS, ROWS]),
    }
    inputs = dict.fromkeys("qkv", (whole_size, HEADS, ROWS, DEPTH))
    return model_of(scores_of_windows(**options), inputs, constants, also)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("batch", [2, 3])
def test_the_mask_of_windows_is_added_without_dividing_the_batch(batch: int, swapped: bool) -> None:
    model = windows_model(batch, swapped=swapped)
    form = normal_forms(model)[0]
    add = only(form, "Add")
    assert (form.shape(add.inputs[1]), add.attributes) == ((WINDOWS, HEADS, ROWS, ROWS), {"tiled": 1})
    assert [each.op_type for each in form.nodes] == ["MatMul", "Add", "Softmax", "MatMul"]
    assert fused_alike(model, "masked_attention") == ["masked_attention"]


def test_a_mask_of_all_windows_needs_no_repetition() -> None:
    for mask, batch in ((None, 1), (values(1, 1, HEADS, ROWS, ROWS), 2), (values(ROWS, ROWS), 2), (values(1, 5), 2)):
        model = windows_model(batch, mask)
        assert only(normal_forms(model)[0], "Add").attributes == {}
        assert fused_alike(model, "masked_attention") == ["masked_attention"]


def test_windows_of_an_open_batch() -> None:
    model = windows_model("windows_of_all")
    add = only(normal_forms(model)[0], "Add")
    assert add.attributes == {"tiled": 1}
    fused = fuse(model, ["masked_attention"]).model
    assert [each.op_type for each in fused.graph.node if each.domain == DOMAIN] == ["masked_attention"]
    given = {name: values(3 * WINDOWS, HEADS, ROWS, DEPTH) for name in "qkv"}
    results = [run(each, **given)[0] for each in (model, fused)]
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("read", ["divided", "masked", "joined"])
def test_scores_of_windows_that_are_an_output_stay(read: str) -> None:
    model = windows_model(also=[read])
    kept = [each.op_type for each in normal_forms(model)[0].nodes]
    assert kept.count("Reshape") == 2
    assert "softmax" in fused_alike(model, "softmax")


@pytest.mark.parametrize("case", ["a mask for each picture", "other sizes", "computed from an input"])
def test_other_divisions_stay(case: str) -> None:
    constants: dict[str, Any] = {
        "bias": values(1, HEADS, ROWS, ROWS),
        "mask": values(N if case == "a mask for each picture" else 1, WINDOWS, 1, 1, 1),
        "five": np.array([-1, WINDOWS, HEADS, ROWS, ROWS]),
        "four": np.array([-1, HEADS, ROWS, ROWS]),
    }
    if case == "other sizes":  # the second axis is divided, not the first
        constants["five"] = np.array([N, WINDOWS * HEADS, ROWS, ROWS])
        constants["mask"] = values(1, WINDOWS * HEADS, ROWS, ROWS)
    inputs: dict[str, Sizes] = dict.fromkeys("qkv", (N * WINDOWS, HEADS, ROWS, DEPTH))
    if case == "computed from an input":
        inputs["mask"] = constants.pop("mask").shape
    model = model_of(scores_of_windows(), inputs, constants)
    assert [each.op_type for each in normal_forms(model)[0].nodes].count("Reshape") == 2
    assert "softmax" in fused_alike(model, "softmax")


def masks_model(first: np.ndarray, second: np.ndarray, /, *also: str, **inputs: Sizes) -> onnx.ModelProto:
    """Add two masks to the scores one after the other."""
    nodes = [
        node("Transpose", "k", "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q turned", "scores"),
        node("Add", "scores first", "half"),
        node("Add", "second half", "both"),
        node("Softmax", "both", "weights", axis=-1),
        node("MatMul", "weights v", "y"),
    ]
    constants = {name: value for name, value in (("first", first), ("second", second)) if name not in inputs}
    shapes = dict.fromkeys("qkv", ("n", HEADS, ROWS, DEPTH))
    return model_of(nodes, {**shapes, **inputs}, constants, also)


def test_two_constant_masks_become_one() -> None:
    never = np.triu(np.full((ROWS, ROWS), -np.inf, np.float32), 1)
    model = masks_model(values(HEADS, 1, ROWS), never)
    form = normal_forms(model)[0]
    add = only(form, "Add")
    assert form.shape(add.inputs[1]) == (HEADS, ROWS, ROWS)
    assert fused_alike(model, "masked_attention") == ["masked_attention"]
    assert fused_alike(model, "scale_add_softmax").count("Add") == 0


def test_masks_that_are_no_constants_or_overflow_are_added_one_by_one() -> None:
    least = np.full((ROWS, ROWS), np.finfo(np.float32).min, np.float32)
    some = values(ROWS, ROWS)
    for model in (
        masks_model(some, least, second=(ROWS, ROWS)),
        masks_model(least, least),
        masks_model(some, some, "half"),
    ):
        assert [each.op_type for each in normal_forms(model)[0].nodes].count("Add") == 2
    assert "softmax" in fused_alike(masks_model(least, least), "softmax")


def test_a_mask_that_is_computed_from_constants() -> None:
    nodes = [
        node("Range", "zero rows one", "places"),
        node("Unsqueeze", "places last", "column"),
        node("Less", "column places", "later"),
        node("Where", "later lowest nothing", "mask"),
    ]
    given = {"zero": np.int64(0), "rows": np.int64(ROWS), "one": np.int64(1), "last": np.array([1])}
    constants = {**given, "lowest": np.float32(-100), "nothing": np.float32(0), "bias": values(1, HEADS, ROWS, ROWS)}
    constants |= {
        "five": np.array([N, WINDOWS, HEADS, ROWS, ROWS]),
        "four": np.array([-1, HEADS, ROWS, ROWS]),
    }
    inputs = dict.fromkeys("qkv", (N * WINDOWS, HEADS, ROWS, DEPTH))
    model = model_of([*nodes, *scores_of_windows()], inputs, constants)
    assert fused_alike(model, "masked_attention") == ["masked_attention"]


def guarded_model(
    kept: np.ndarray, /, *also: str, zero: float = 0.0, tested: str = "shares", added: bool = False
) -> onnx.ModelProto:
    """Make zeros of the rows of a softmax that are NaN, as torch's exporters do behind a mask of booleans.

    ``added``: an input is a mask, too.
    """
    nodes = [
        node("Transpose", "k", "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q turned", "products"),
        node("Add", "products other", "scores") if added else node("Mul", "products half", "scores"),
        node("Where", "kept nothing never", "mask"),
        node("Add", "scores mask", "masked"),
        node("Softmax", "masked", "shares", axis=-1),
        node("IsNaN", tested, "without"),
        node("Where", "without zero shares", "weights"),
        node("MatMul", "weights v", "y"),
    ]
    numbers = {"half": 0.5, "nothing": 0.0, "never": -np.inf, "zero": zero}
    constants = {"kept": kept, **{name: np.float32(number) for name, number in numbers.items()}}
    inputs: dict[str, Sizes] = dict.fromkeys("qkv", ("n", HEADS, ROWS, DEPTH))
    return model_of(nodes, {**inputs, **({"other": (ROWS, ROWS)} if added else {})}, constants, also)


CAUSAL = np.tri(ROWS, dtype=bool)


def test_rows_that_have_a_key_are_not_tested_for_it() -> None:
    assert fused_alike(guarded_model(CAUSAL), "masked_attention") == ["Where", "masked_attention"]


def test_a_constant_mask_that_leaves_a_row_no_key() -> None:
    model = guarded_model(CAUSAL.T & ~np.eye(ROWS, dtype=bool))
    assert fused_alike(model, "masked_attention") == ["Where", "masked_attention"]
    (y,) = run_on_noise(fuse(model, ["masked_attention"]).model)
    assert not y[..., -1, :].any()
    assert y[..., :-1, :].any(axis=-1).all()


@pytest.mark.parametrize(
    "model",
    [
        guarded_model(CAUSAL, zero=1.0),
        guarded_model(CAUSAL, tested="scores"),
        guarded_model(CAUSAL, "shares"),
        guarded_model(CAUSAL, "without"),
        guarded_model(CAUSAL, added=True),
    ],
    ids=["one", "of scores", "output", "test as output", "mask from outside"],
)
def test_rows_that_may_have_no_key_are_tested_for_it(model: onnx.ModelProto) -> None:
    fused = fuse(model, "all").model
    assert {"IsNaN", "Where"} <= {each.op_type for each in fused.graph.node}
    for seen, wanted in zip(run_on_noise(fused), run_on_noise(model), strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)


def test_a_mask_of_zeros_is_none() -> None:
    assert fused_alike(guarded_model(np.ones((ROWS, ROWS), bool)), "attention") == ["attention"]
    # It gives the scores another shape, so it is more than a mask.
    wide = guarded_model(np.ones((N, 1, ROWS, ROWS), bool))
    assert "Add" in [each.op_type for each in normal_forms(wide)[0].nodes]


def masked_model(*after: onnx.NodeProto, scale: float = 0.5, mask: Any = None, also: Sequence[str] = ()) -> Any:
    nodes = [
        node("Transpose", "k", "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q turned", "scores"),
        *after,
        node("Softmax", "z", "weights", axis=-1),
        node("MatMul", "weights v", "y"),
    ]
    never = np.triu(np.full((ROWS, ROWS), -np.inf, np.float32), 1)
    constants = {"mask": never if mask is None else mask, "scale": np.float32(scale)}
    return model_of(nodes, dict.fromkeys("qkv", ("n", HEADS, ROWS, DEPTH)), constants, also)


ADD_FIRST = node("Add", "scores mask", "added")


@pytest.mark.parametrize(
    ("after", "scale"),
    [
        ([ADD_FIRST, node("Mul", "added scale", "z")], 0.3),
        ([ADD_FIRST, node("Mul", "scale added", "z")], 0.25),
        ([ADD_FIRST, node("Div", "added scale", "z")], 3.0),
        ([node("Mul", "scores scale", "scaled"), node("Add", "mask scaled", "z")], 0.3),
        ([node("Div", "scores scale", "scaled"), node("Add", "scaled mask", "z")], 8.0),
    ],
)
def test_a_mask_comes_after_the_scale(after: list[onnx.NodeProto], scale: float) -> None:
    model = masked_model(*after, scale=scale)
    assert fused_alike(model, "masked_attention") == ["masked_attention"]
    assert "Softmax" not in fused_alike(model, "softmax" if after[0] is ADD_FIRST else "scale_add_softmax")


@pytest.mark.parametrize(("scale", "also"), [(-0.5, ()), (0.5, ("added",)), (1e30, ())])
def test_a_mask_before_the_scale_stays_where_the_result_could_change(scale: float, also: Sequence[str]) -> None:
    mask = np.full((ROWS, ROWS), 1e30, np.float32)
    model = masked_model(ADD_FIRST, node("Mul", "added scale", "z"), scale=scale, mask=mask, also=also)
    assert [each.op_type for each in normal_forms(model)[0].nodes if each.op_type in ("Add", "Mul")] == ["Add", "Mul"]


def test_a_computed_mask_stands_behind_the_scores() -> None:
    nodes = [
        node("Transpose", "k", "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q turned", "scores"),
        node("Add", "mask scores", "z"),
        node("Softmax", "z", "weights", axis=-1),
        node("MatMul", "weights v", "y"),
    ]
    inputs = dict.fromkeys("qkv", (N, HEADS, ROWS, DEPTH)) | {"mask": (1, 1, ROWS, ROWS)}
    assert fused_alike(model_of(nodes, inputs, {}), "masked_attention") == ["masked_attention"]


def tokens_model(key: list[onnx.NodeProto], also: Sequence[str] = (), also_read: str = "") -> onnx.ModelProto:
    """Write attention of q, k, v [n, tokens, heads, depth]; ``key`` makes "turned" of k."""
    nodes = [
        node("Transpose", "q", "queries", perm=[0, 2, 1, 3]),
        *key,
        node("Transpose", "v", "values", perm=[0, 2, 1, 3]),
        node("MatMul", "queries turned", "scores"),
        node("Mul", "scores scale", "scaled"),
        node("Softmax", "scaled", "weights", axis=-1),
        node("MatMul", "weights values", "heads"),
        node("Transpose", "heads", "y", perm=[0, 2, 1, 3]),
    ]
    if also_read:
        nodes.append(node("Neg", also_read, "other"))
    inputs = dict.fromkeys("qkv", ("n", ROWS, HEADS, DEPTH))
    return model_of(nodes, inputs, {"scale": np.float32(0.35), "half": np.float32(0.5)}, also)


@pytest.mark.parametrize(
    "key",
    [
        [node("Transpose", "k", "turned", perm=[0, 2, 3, 1])],
        [node("Transpose", "k", "keys", perm=[0, 2, 1, 3]), node("Transpose", "keys", "turned", perm=[0, 1, 3, 2])],
        [node("Mul", "k half", "less"), node("Transpose", "less", "turned", perm=[0, 2, 3, 1])],
        [
            node("Div", "k half", "more"),
            node("Transpose", "more", "keys", perm=[0, 2, 1, 3]),
            node("Transpose", "keys", "turned", perm=[0, 1, 3, 2]),
        ],
    ],
)
def test_a_key_keeps_its_last_axis(key: list[onnx.NodeProto]) -> None:
    assert fused_alike(tokens_model(key), "attention") == ["attention"]


def test_a_key_that_others_read_stays() -> None:
    key = [node("Transpose", "k", "turned", perm=[0, 2, 3, 1])]
    for model in (tokens_model(key, ["turned"]), tokens_model(key, ["other"], "turned")):
        perms = [each.attributes["perm"] for each in normal_forms(model)[0].nodes if each.op_type == "Transpose"]
        assert [0, 2, 3, 1] in perms
        assert "Softmax" not in fused_alike(model, "softmax")


def test_products_of_small_matrices_keep_their_places() -> None:
    key = [node("Mul", "k half", "less"), node("Transpose", "less", "turned", perm=[0, 2, 3, 1])]
    left = fused_alike(tokens_model(key), "batched_matmul")
    assert left.count("batched_matmul") == 2
    assert left.count("Mul") == 1  # the one of the key


@pytest.mark.parametrize("opset", [11, 17, 20])
def test_shifted_windows_of_torch(opset: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

    class Windows(torch.nn.Module):  # type: ignore[misc, name-defined]
        """Attention of windows as in timm, torchvision and transformers."""

        def __init__(self) -> None:
            super().__init__()
            self.qkv = torch.nn.Linear(HEADS * DEPTH, 3 * HEADS * DEPTH)
            self.register_buffer("bias", torch.randn(HEADS, ROWS, ROWS))
            self.register_buffer("mask", torch.randn(WINDOWS, ROWS, ROWS))

        def forward(self, x: Any) -> Any:
            x = x.reshape(-1, ROWS, HEADS * DEPTH)
            q, k, v = self.qkv(x).reshape(-1, ROWS, 3, HEADS, DEPTH).permute(2, 0, 3, 1, 4).unbind(0)
            scores = (q * DEPTH**-0.5) @ k.transpose(-2, -1) + self.bias.unsqueeze(0)
            scores = scores.view(-1, WINDOWS, HEADS, ROWS, ROWS) + self.mask.unsqueeze(1).unsqueeze(0)
            weights = scores.view(-1, HEADS, ROWS, ROWS).softmax(-1)
            return (weights @ v).transpose(1, 2).reshape(-1, WINDOWS, ROWS, HEADS * DEPTH)

    model = exported_module(Windows().eval(), torch.zeros(2, WINDOWS, ROWS, HEADS * DEPTH), opset)
    left = fused_alike(model, "masked_attention")
    assert left.count("masked_attention") == 1
    assert "Softmax" not in left


@pytest.mark.parametrize("opset", [11, 17, 20])
@pytest.mark.parametrize("written", ["permute", "two transpositions", "scaled query"])
def test_attention_of_tokens_in_torch(written: str, opset: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

    class Tokens(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            q, k, v = x.reshape(-1, ROWS, 3, HEADS, DEPTH).unbind(2)
            if written == "permute":
                scores = q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1) / DEPTH**0.5
            else:
                q = q * DEPTH**-0.5 if written == "scaled query" else q
                scores = q.transpose(1, 2) @ k.transpose(1, 2).transpose(-2, -1)
            return (scores.softmax(-1) @ v.transpose(1, 2)).transpose(1, 2).reshape(-1, ROWS, HEADS * DEPTH)

    model = exported_module(Tokens().eval(), torch.zeros(2, ROWS, 3 * HEADS * DEPTH), opset)
    left = fused_alike(model, "attention")
    assert left.count("attention") == 1
    assert not {"Softmax", "MatMul", "Transpose", "Mul", "Div"} & set(left)


@pytest.mark.parametrize("batch", [1, 2])
def test_windows_in_half_precision(batch: int) -> None:
    """The scale, the bias and the masks are constants in fp16; what is left computes the same, up to their rounding."""
    model = convert(windows_model(batch), "fp16")
    result = fuse(model, ["masked_attention"])
    assert [(done.kernel, done.types) for done in result.replacements] == [("masked_attention", "fp16")]
    onnx.checker.check_model(result.model, full_check=True)
    for seen, wanted in zip(run_on_noise(result.model), run_on_noise(model), strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=4e-3)


def test_tokens_in_half_precision() -> None:
    model = convert(tokens_model([node("Transpose", "k", "turned", perm=[0, 2, 3, 1])]), "fp16")
    assert [(done.kernel, done.types) for done in fuse(model, ["attention"]).replacements] == [("attention", "fp16")]


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_a_scale_is_computed_in_every_type(precision: str) -> None:
    """As torchvision writes it: the root of a constant, which the queries are multiplied by; or a division by one."""
    nodes = [
        node("Sqrt", "scale", "root"),
        node("Mul", "x root", "scaled"),
        node("Sqrt", "size", "divisor"),
        node("Div", "scaled divisor", "y"),
    ]
    model = model_of(nodes, {"x": ["n", 8]}, {"scale": np.float32([0.3]), "size": np.float32(64)})
    left = {each.op_type for each in plain_form(convert(model, precision)).nodes}
    assert left == ({"Mul"} if precision == "fp32" else {"Cast", "Mul"})
