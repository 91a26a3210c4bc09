"""Attention whose mask of booleans is an input of the network: rows without a key are zeros, and masks stay small."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper, parser

from lenet_trt.fuse.normal_form import attention_form
from lenet_trt.fuse.place_choice import chosen
from lenet_trt.fuse.place_functions import functions_for
from lenet_trt.fuse.places import find_places
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.precision import convert
from plain_runtime import run
from torch_export import exported_module

N, TOKENS, HEADS, DEPTH = 3, 6, 2, 8
KERNELS = ["masked_attention", "masked_self_attention"]
LOWEST = np.finfo(np.float32).min

# kept [n, tokens] of int64 becomes booleans [n, 1, tokens, tokens], as torch's exporters write them.
INDEXED = """
  true_kept = Cast<to = 9>(kept) sizes = Shape(kept) batch = Gather(sizes, nought) texts = Range(nought, batch, once)
  column = Unsqueeze(texts, last_three) one_size = Unsqueeze(batch, first)
  like = Concat<axis = 0>(one_size, single, single, all_tokens)
  of_texts = Expand(column, like) of_keys = Expand(keys, like)
  left = Unsqueeze(of_texts, last) right = Unsqueeze(of_keys, last) places = Concat<axis = -1>(left, right)
  of_text = GatherND(true_kept, places) joined = And(every_query, of_text)
"""
EXPANDED = """
  sizes = Shape(kept) batch = Gather(sizes, nought) one_size = Unsqueeze(batch, first)
  target = Concat<axis = 0>(one_size, minus, all_tokens, all_tokens)
  repeated = Mul(four_ones, negative) given = Equal(target, repeated) asked = Where(given, four_ones, target)
  true_kept = Cast<to = 9>(kept) alone = Unsqueeze(true_kept, middle) joined = Expand(alone, asked)
"""
BOTH = EXPANDED.replace("joined = ", "wide = ") + "both = And(every_query, wide) joined = Expand(both, asked)"
WRITTEN = {"indexed": INDEXED, "expanded": EXPANDED, "both": BOTH}
MASK = "mask = Where(joined, nothing, never)"
# Attention of q, k and v [n, tokens, heads, depth].
HEADS_FIRST = """
  queries{i} = Transpose<perm = [0, 2, 1, 3]>(q{i}) turned{i} = Transpose<perm = [0, 2, 3, 1]>(k{i})
  values{i} = Transpose<perm = [0, 2, 1, 3]>(v{i})
"""
SCORES = """
  products{i} = MatMul(queries{i}, turned{i}) scores{i} = Mul(products{i}, scale) masked{i} = Add(scores{i}, mask)
"""
GUARD = """
  shares{i} = Softmax<axis = -1>(masked{i}) none{i} = IsNaN(shares{i}) weights{i} = Where(none{i}, zero, shares{i})
"""
NO_GUARD = "weights{i} = Softmax<axis = -1>(masked{i})"
RESULT = "heads{i} = MatMul(weights{i}, values{i}) y{i} = Transpose<perm = [0, 2, 1, 3]>(heads{i})"
CONSTANTS = {
    "nought": np.array(0),
    "once": np.array(1),
    "first": np.array([0]),
    "last": np.array([-1]),
    "last_three": np.array([1, 2, 3]),
    "middle": np.array([1, 2]),
    "single": np.array([1]),
    "minus": np.array([-1]),
    "all_tokens": np.array([TOKENS]),
    "four_ones": np.ones(4, np.int64),
    "negative": np.array(-1),
    "keys": np.arange(TOKENS).reshape(1, 1, 1, TOKENS),
    "every_query": np.ones((1, 1, TOKENS, 1), bool),
    "causal": np.tri(TOKENS, dtype=bool).reshape(1, 1, TOKENS, TOKENS),
    "two_heads": np.array([[[1.0]], [[2.0]]], np.float32),
    "nothing": np.float32(0),
    "never": np.float32(-np.inf),
    "least": LOWEST,
    "zero": np.zeros(1, np.float32),
    "one": np.float32(1),
    "scale": np.float32(0.3),
}


def attention(
    body: str, *guards: str, scores: str = SCORES, batch: int | str = "n", x: str = "", also: str = "", **constants: Any
) -> onnx.ModelProto:
    """Return a model with an attention for each guard, whose mask ``body`` makes of kept [n, tokens].

    ``x``: the input, where ``body`` makes queries, keys and values of one; ``also``: another output.
    """
    guards = guards or (GUARD,)
    tensor = f"[{batch}, {TOKENS}, {HEADS}, {DEPTH}]"
    parts = [" ".join([HEADS_FIRST, scores, guard, RESULT]).replace("{i}", str(i)) for i, guard in enumerate(guards)]
    given = [x] if x else [f"float{tensor} {name}{i}" for i in range(len(guards)) for name in "qkv"]
    given.append(f"int64[{batch}, {TOKENS}] kept")
    results = [f"float{tensor} y{i}" for i in range(len(guards))] + [also] * bool(also)
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        g ({", ".join(given)}) => ({", ".join(results)}) {{ {body} {" ".join(parts)} }}""")
    read = {name for node in model.graph.node for name in node.input}
    tensors = {name: np.asarray(value) for name, value in {**CONSTANTS, **constants}.items() if name in read}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in tensors.items())
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(model, full_check=True)
    return model


def padding(alone: bool) -> np.ndarray:
    """Return which words of N texts are there; ``alone``: the first text is of padding alone."""
    kept = np.ones((N, TOKENS), np.int64)
    kept[0, 4:], kept[1, 2:] = 0, 0
    if alone:
        kept[0] = 0
    return kept


def inputs_of(model: onnx.ModelProto, alone: bool = True) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    given = {}
    for value in model.graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [dim.dim_value or N for dim in value.type.tensor_type.shape.dim]
        given[value.name] = padding(alone) if value.name == "kept" else random.normal(size=shape).astype(kind)
    return given


def alike(fused: onnx.ModelProto, model: onnx.ModelProto, tolerance: float = 1e-5) -> None:
    onnx.checker.check_model(fused, full_check=True)
    for alone in (False, True):
        given = inputs_of(model, alone)
        for seen, wanted in zip(run(fused, **given), run(model, **given), strict=True):
            assert np.isfinite(wanted).all()
            np.testing.assert_allclose(seen, wanted, rtol=0, atol=tolerance)


def alike_where_finite(fused: onnx.ModelProto, model: onnx.ModelProto) -> None:
    """Compare results of which some are infinite."""
    for seen, wanted in zip(run(fused, **inputs_of(model)), run(model, **inputs_of(model)), strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)


def plugins(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.domain == DOMAIN]


def shape_of(model: onnx.ModelProto, name: str) -> list[Any]:
    """Return the shape of a plugin's input as the file has it, before a ``Reshape``."""
    (view,) = [node for node in model.graph.node if name in node.output]
    source = view.input[0] if view.op_type == "Reshape" else name
    known = {value.name: value.type for value in onnx.shape_inference.infer_shapes(model).graph.value_info}
    return [dim.dim_value or dim.dim_param for dim in known[source].tensor_type.shape.dim]


@pytest.mark.parametrize("batch", [N, "n"])
@pytest.mark.parametrize(("never", "guard"), [(-np.inf, GUARD), (LOWEST, GUARD), (LOWEST, NO_GUARD)])
@pytest.mark.parametrize("written", WRITTEN)
def test_a_mask_that_is_an_input(written: str, never: float, guard: str, batch: int | str) -> None:
    model = attention(WRITTEN[written] + MASK, guard, batch=batch, never=np.float32(never))
    fused = fuse(model, ["masked_attention"]).model
    (plugin,) = plugins(fused)
    assert shape_of(fused, plugin.input[3]) == [batch, 1, 1, TOKENS]
    assert not {"Softmax", "IsNaN", "MatMul", "And"} & {node.op_type for node in fused.graph.node}
    assert [node.op_type for node in fused.graph.node].count("Where") == 1
    alike(fused, model)
    if never == -np.inf:
        (y,) = run(fused, **inputs_of(model))
        assert not y[0].any()
        assert y[1:].any(axis=-1).all()
    assert fuse(fused, ["masked_attention"]).model == fused


@pytest.mark.parametrize("never", [-np.inf, LOWEST])
def test_a_mask_that_is_an_input_in_half_precision(never: float) -> None:
    model = convert(attention(INDEXED + MASK, never=np.float32(never)), "fp16")
    result = fuse(model, ["masked_attention"])
    assert [(done.kernel, done.types) for done in result.replacements] == [("masked_attention", "fp16")]
    alike(result.model, model, 4e-3)


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("each_has_its_own", [False, True])
def test_the_mask_of_several_attentions_is_computed_once(each_has_its_own: bool) -> None:
    """TorchScript's exporter writes it in each layer, with constants of its own."""
    own = "mask{i} = Where(joined, nothing{i}, never{i})" + SCORES.replace("mask)", "mask{i})")
    numbers = {f"{name}{i}": CONSTANTS[name] for i in range(2) for name in ("nothing", "never")}
    given = {"scores": own, **numbers} if each_has_its_own else {}
    model = attention(EXPANDED + ("" if each_has_its_own else MASK), GUARD, GUARD, **given)
    fused = fuse(model, ["masked_attention"]).model
    first, second = (plugin.input[3] for plugin in plugins(fused))
    assert (operators(fused).count("Where"), operators(fused).count("Expand")) == (1, 0)
    assert len({node.input[0] for node in fused.graph.node if {first, second} & set(node.output)}) == 1
    alike(fused, model)


def test_a_file_with_and_without_a_test_for_rows_without_a_key() -> None:
    """All nodes of a kernel share one function, which makes zeros of such rows wherever one has to."""
    model = attention(EXPANDED + MASK, NO_GUARD, GUARD, never=LOWEST)
    fused = fuse(model, ["masked_attention"]).model
    assert len(plugins(fused)) == 2
    alike(fused, model)
    (function,) = fused.functions
    assert [node.op_type for node in function.node].count("IsNaN") == 1
    places, _ = find_places(model, [registry.kernel("masked_attention")])
    taken = chosen(places)
    for order in (taken, taken[::-1]):
        (same,), usable, refused = functions_for(model, order)
        assert (same, len(usable), refused) == (function, 2, [])


OF_MORE_AXES = GUARD.replace("zero", "zeros").replace("weights", "more") + "weights{i} = Squeeze(more{i}, first)"


@pytest.mark.parametrize(
    ("guard", "more"),
    [
        (GUARD.replace("zero", "one"), {}),
        (GUARD.replace("zero", "zeros"), {"zeros": np.zeros((TOKENS, TOKENS), np.float32)}),
        (OF_MORE_AXES, {"zeros": np.zeros((1,) * 5, np.float32)}),
        (GUARD.replace("zero, shares{i}", "shares{i}, zero"), {}),
        (GUARD.replace("IsNaN(shares", "IsInf(shares"), {}),
        (GUARD.replace("IsNaN(shares", "IsNaN(masked"), {}),
        (GUARD.replace("Where(none", "Where(joined").replace("{i}, zero", ", zero"), {}),
        (GUARD + "other = Neg(shares{i})", {"also": f"float[n, {HEADS}, {TOKENS}, {TOKENS}] other"}),
        (GUARD, {"also": f"float[n, {HEADS}, {TOKENS}, {TOKENS}] shares0"}),
        (GUARD, {"also": f"bool[n, {HEADS}, {TOKENS}, {TOKENS}] none0"}),
        (GUARD.replace("axis = -1", "axis = -2"), {}),
    ],
    ids=[
        *("one", "as many zeros", "zeros of more axes", "the other way round", "infinity", "of scores", "of the mask"),
        *("softmax read", "softmax as output", "test as output", "over queries"),
    ],
)
def test_what_is_no_test_for_rows_without_a_key(guard: str, more: dict[str, Any]) -> None:
    model = attention(EXPANDED + MASK, guard, **more)
    kept = [node.outputs[0] for node in attention_form(model).nodes if node.op_type == "Where"]
    assert {"weights0", "more0"} & {*kept}
    fused = fuse(model, "all").model
    assert not {node.op_type for node in plugins(fused)} & {"attention", *KERNELS}
    given = inputs_of(model)
    for seen, wanted in zip(run(fused, **given), run(model, **given), strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)


def test_a_softmax_without_a_mask_keeps_its_test() -> None:
    """The kernels without a mask, and a softmax that stays TensorRT's, give NaN for scores that are -infinity."""
    model = attention("", scores=SCORES.replace("Add(scores{i}, mask)", "Identity(scores{i})"))
    fused = fuse(model, "all").model
    assert {node.op_type for node in plugins(fused)} & {"softmax", "scale_add_softmax"}
    assert {"IsNaN", "Where"} <= set(operators(fused))
    masked = attention(EXPANDED + MASK)
    left = fuse(masked, ["scale_add_softmax"]).model
    assert {"IsNaN", "Where"} <= set(operators(left))
    alike(left, masked)


OF_ALL_TEXTS = """
  sizes = Shape(kept) batch = Gather(sizes, nought) one_size = Unsqueeze(batch, first)
  target = Concat<axis = 0>(one_size, single, all_tokens, all_tokens) joined = Expand({what}, target)
"""


@pytest.mark.parametrize("scores", [SCORES, SCORES.replace("scores{i}, mask", "mask, scores{i}")])
@pytest.mark.parametrize("what", ["every_query", "every_key", "every_pair"])
def test_a_mask_that_leaves_every_key_is_none_in_an_open_batch(what: str, scores: str) -> None:
    """A constant is expanded over the texts, as transformers' DeiT has it of torch's exporter."""
    every = {"every_key": np.ones((1, 1, 1, TOKENS), bool), "every_pair": np.ones((1, 1, TOKENS, TOKENS), bool)}
    model = attention(OF_ALL_TEXTS.format(what=what) + MASK, scores=scores, never=LOWEST, **every)
    fused = fuse(model, ["attention"]).model
    assert not {"Softmax", "IsNaN", "Where", "Expand"} & set(operators(fused))
    alike(fused, model)


@pytest.mark.parametrize("kept", [[True] * 4 + [False] * 2, np.tri(TOKENS, dtype=bool)], ids=["padding", "causal"])
def test_a_mask_that_leaves_out_keys_is_kept_in_an_open_batch(kept: Any) -> None:
    some = np.broadcast_to(np.array(kept), (1, 1, TOKENS, TOKENS))
    model = attention(OF_ALL_TEXTS.format(what="some") + MASK, some=some)
    fused = fuse(model, ["masked_attention"]).model
    alike(fused, model)
    (y,) = run(fused, **inputs_of(model))
    (of_all,) = run(attention(OF_ALL_TEXTS.format(what="every_query") + MASK), **inputs_of(model))
    assert np.abs(y - of_all).max() > 1e-3


def test_a_mask_of_queries_and_keys_keeps_its_rows() -> None:
    """A causal mask with padding, as of GPT-2: each query has another row."""
    model = attention(EXPANDED.replace("joined", "wide") + "joined = And(causal, wide)" + MASK)
    fused = fuse(model, ["masked_attention"]).model
    (plugin,) = plugins(fused)
    assert shape_of(fused, plugin.input[3]) == ["n", 1, TOKENS, TOKENS]
    alike(fused, model)


def test_a_mask_that_makes_more_of_the_scores_stays_expanded() -> None:
    """One text with the masks of three gives three texts, so the expansion is more than a mask."""
    scores = SCORES.replace("MatMul(queries{i}, turned{i})", "MatMul(of_first, turned_first)")
    once = "of_first = Slice(queries0, first, single, first) turned_first = Slice(turned0, first, single, first)"
    model = attention(EXPANDED + MASK, scores=once + scores, batch=N)
    (add,) = [node for node in attention_form(model).nodes if node.op_type == "Add"]
    assert add.inputs[1] == "mask"
    alike(fuse(model, "all").model, model)


def test_a_mask_with_another_open_axis_stays_expanded() -> None:
    """It may be of one text, which a kernel does not repeat where it expects a mask of each text."""
    model = attention(EXPANDED.replace("Shape(kept)", "Shape(q0)", 1) + MASK)
    (dim,) = model.graph.input[3].type.tensor_type.shape.dim[:1]
    dim.dim_param = "m"
    del model.graph.value_info[:]
    fused = fuse(model, ["masked_attention"]).model
    (plugin,) = plugins(fused)
    assert shape_of(fused, plugin.input[3])[1:] == [1, TOKENS, TOKENS]
    given = inputs_of(model, alone=False)
    for texts in (1, N):
        given["kept"] = padding(alone=False)[:texts]
        np.testing.assert_allclose(run(fused, **given)[0], run(model, **given)[0], rtol=0, atol=1e-5)


def test_a_value_of_the_file_has_the_name_of_a_new_one() -> None:
    model = attention(EXPANDED + MASK + "taken = Neg(mask)", also=f"float[n, 1, {TOKENS}, {TOKENS}] taken")
    for node in model.graph.node:
        node.output[:] = ["mask.row" if name == "taken" else name for name in node.output]
    model.graph.output[1].name = "mask.row"
    del model.graph.value_info[:]
    alike_where_finite(fuse(model, ["masked_attention"]).model, model)


# What exporters and people compute of masks: booleans of texts, of queries and keys, and constants.
OPERANDS = ("alone", "wide", "every_query", "causal", "padded", "one_key")
STEP = st.tuples(st.sampled_from(["And", "Or", "Not", "Cast", "Expand"]), *[st.integers(0, 20)] * 2)
AS_NUMBERS = {
    "where": MASK,
    "product": "floats = Cast<to = 1>(joined) gone = Sub(one, floats) mask = Mul(gone, never)",
    "sum": "floats = Cast<to = 1>(wide) more = Where(joined, nothing, never) mask = Add(more, floats)",
}


@settings(max_examples=40)
@given(st.lists(STEP, min_size=1, max_size=6), st.sampled_from(sorted(AS_NUMBERS)), st.booleans(), st.booleans())
def test_masks_of_any_operators_give_the_same(
    steps: list[tuple[str, int, int]], numbers: str, infinite: bool, open_batch: bool
) -> None:
    lines, known = [EXPANDED.replace("joined", "wide")], list(OPERANDS)
    for index, (operator, *picks) in enumerate(steps):
        a, b = (known[pick % len(known)] for pick in picks)
        inputs = {"Not": a, "Cast": a, "Expand": f"{a}, asked"}.get(operator, f"{a}, {b}")
        lines.append(f"s{index} = {operator}{'<to = 9>' * (operator == 'Cast')}({inputs})")
        known.append(f"s{index}")
    lines += [f"joined = And({known[-1]}, alone)", AS_NUMBERS[numbers]]
    never = -np.inf if infinite and numbers != "product" else -5.0  # zero times infinity is NaN
    constants = {"padded": np.arange(TOKENS) < TOKENS - 1, "one_key": np.ones((1, 1), bool), "never": np.float32(never)}
    model = attention(" ".join(lines), batch="n" if open_batch else N, **constants)
    fused = fuse(model, ["masked_attention"]).model
    assert len(plugins(fused)) == 1
    alike(fused, model)


PARTS = " ".join(
    f"{name}_part = Slice(x, at{index}, at{index + 1}, third) {name}0 = Squeeze({name}_part, third)"
    for index, name in enumerate("qkv")
)


@pytest.mark.parametrize("batch", [N, "n"])
@pytest.mark.parametrize("body", [EXPANDED, EXPANDED.replace("joined", "wide") + "joined = And(causal, wide)"])
def test_attention_of_one_tensor(body: str, batch: int | str) -> None:
    """Texts with masks of their own are as windows of one image."""
    numbers = {f"at{index}": np.array([index]) for index in range(4)}
    x = f"float[{batch}, {TOKENS}, 3, {HEADS}, {DEPTH}] x"
    model = attention(PARTS + body + MASK, batch=batch, x=x, third=np.array([2]), **numbers)
    fused = fuse(model, KERNELS[1:]).model
    assert operators(fused).count("masked_self_attention") == 1
    alike(fused, model)
    (y,) = run(fused, **inputs_of(model))
    assert not y[0].any()


@pytest.mark.parametrize("opset", [17, 20])
def test_padded_texts_in_torch(opset: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

    class Texts(torch.nn.Module):  # type: ignore[misc, name-defined]
        """Two attentions as in transformers' BERT, whose word 0 is padding."""

        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(50, HEADS * DEPTH)
            self.layers = torch.nn.ModuleList(torch.nn.Linear(HEADS * DEPTH, HEADS * DEPTH) for _ in range(6))

        def forward(self, x: Any) -> Any:
            texts = torch.arange(x.shape[0])[:, None, None, None]
            keys, every = torch.arange(TOKENS)[None, None, None], torch.arange(TOKENS)[None, None, :, None] >= 0
            mask = (every & (x != 0)[texts, keys]).expand(x.shape[0], -1, TOKENS, TOKENS)
            y = self.words(x)
            for first in (0, 3):
                of_layers = [layer(y).view(x.shape[0], -1, HEADS, DEPTH) for layer in self.layers[first:][:3]]
                parts = [each.transpose(1, 2) for each in of_layers]
                heads = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=mask)
                y = y + heads.transpose(1, 2).reshape(x.shape[0], -1, HEADS * DEPTH)
            return y

    torch.manual_seed(0)
    words = torch.randint(1, 50, (N, TOKENS)) * torch.from_numpy(padding(alone=False))
    model = exported_module(Texts().eval(), words, opset)
    fused = fuse(model, ["masked_attention"]).model
    assert [shape_of(fused, plugin.input[3])[1:] for plugin in plugins(fused)] == [[1, 1, TOKENS]] * 2
    assert not {"Softmax", "IsNaN"} & set(operators(fused))
    for alone in (False, True):
        texts = words.numpy() * padding(alone)
        (seen,), (wanted,) = run(fused, texts), run(model, texts)
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)
