"""Claimed sizes: a kernel that is not asked for by name is used only where its declaration says that it is fast."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.places import find_places
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.kernel.claims import claimed, one_holds
from lenet_trt.kernel.declaration import BesidePlugins
from lenet_trt.kernel.dims import ARCHITECTURE, Condition, as_dim, axes, size_of

n, inputs, outputs = axes("n in out")
DENSE = registry.kernel("dense_bias_relu")


def dense_model(rows: int | str, width: int, features: int, dtype: type = np.float32) -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    x, y = (
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [rows, size])
        for name, size in (("x", width), ("y", features))
    )
    weights = [("w", rng.standard_normal((features, width))), ("b", rng.standard_normal(features))]
    constants = [numpy_helper.from_array(values.astype(dtype), name) for name, values in weights]
    graph = helper.make_graph([helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)], "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(
    ("claims", "rows", "taken"),
    [
        ((), "n", True),
        ((inputs * outputs <= 32,), "n", True),
        ((inputs * outputs <= 31,), "n", False),
        ((n <= 16,), 16, True),
        ((n <= 16,), 17, False),
        ((n <= 16,), "n", False),
        ((n <= 16, inputs <= 8), "n", True),
        (((inputs <= 8) & size_of("T").equals(4),), "n", True),
        ((size_of("T").equals(2),), "n", False),
    ],
)
def test_a_claim_decides_where_no_name_is_given(claims: tuple[Condition, ...], rows: int | str, taken: bool) -> None:
    kernel = replace(DENSE, claims=claims)
    model = dense_model(rows, 8, 4)
    places, refused = find_places(model, [kernel], ())
    assert [place.kernel for place in places] == [kernel] * taken
    assert ["a library may be faster" in each.reason for each in refused] == [True] * (not taken)
    assert fuse(model, [kernel]).replacements, "what is asked for by name is used"


def test_a_claim_of_a_size_that_is_not_there_is_refused() -> None:
    with pytest.raises(LenetTrtError, match="claims uses rows, which is no axis"):
        replace(DENSE, claims=(axes("rows")[0] <= 4,))


def packed(channels: int, filters: int) -> list[tuple[int, ...]]:
    """Return the shapes of the packed weights of a 3x3 convolution in halves."""
    return [(-(-filters // 64), channels // 16, 2, 3, 3, 64, 8), (filters,)]


def packed_squares(channels: int, planes: int) -> list[tuple[int, ...]]:
    """Return the shapes of the packed weights of a transposed convolution in halves."""
    return [(channels // 32, 1, planes // 2, 4, 8, 8), (planes,)]


CONVOLUTION = {"stride": 1, "pad": 1, "activation": "relu"}


@pytest.mark.parametrize(
    ("name", "dtype", "shapes", "attributes", "taken"),
    [
        ("depthwise_conv", "float32", [(1, 58, 28, 28), (58, 1, 3, 3), (58,)], {"size": 3, "group": 58}, True),
        ("depthwise_conv", "float16", [(1, 58, 28, 28), (58, 1, 3, 3), (58,)], {"size": 3, "group": 58}, False),
        ("depthwise_conv", "float16", [(1, 58, 28, 28), (58, 1, 7, 7), (58,)], {"size": 7, "group": 58}, True),
        ("few_channel_conv", "float32", [(1, 3, 64, 64), (16, 3, 3, 3), (16,)], {"size": 3}, True),
        ("few_channel_conv", "float16", [(1, 3, 64, 64), (16, 3, 3, 3), (16,)], {"size": 3}, False),
        ("maxpool2", "float32", [(1, 64, 64, 64)], None, True),
        ("maxpool2", "float16", [(1, 64, 64, 64)], None, False),
        ("max_pool", "float32", [(1, 64, 112, 112)], {"size": 3, "stride": 2, "pad": 1}, True),
        ("max_pool", "float16", [(1, 64, 112, 112)], {"size": 3, "stride": 2, "pad": 1}, False),
        ("global_average_pool", "float16", [(1, 512, 7, 7)], None, False),
        ("topk", "float32", [(32, 1344)], {"k": 100}, False),
        ("topk", "float32", [(8192, 256)], {"k": 16}, True),
        ("topk", "float32", [(32, 50257)], {"k": 100}, True),
        ("topk", "float32", [(1, 1_000_003)], {"k": 1}, False),
        ("few_filter_conv", "float32", [(2, 19, 30, 28), (7, 19, 5, 5), (7,)], {"size": 5, "pad": 2}, False),
        ("few_filter_conv", "float32", [(1, 64, 56, 56), (8, 64, 5, 5), (8,)], {"size": 5, "pad": 2}, True),
        ("batched_matmul", "float32", [(768, 1, 49, 32), (768, 32, 49, 1)], None, False),
        ("batched_matmul", "float32", [(768, 1, 8, 8), (768, 8, 8, 1)], None, True),
        ("conv3x3_half", "float16", [(32, 64, 56, 56), *packed(64, 64)], None, True),
        ("conv3x3_half", "float16", [(1, 64, 56, 56), *packed(64, 64)], None, False),
        ("conv3x3_half", "float16", [(32, 128, 28, 28), *packed(128, 128)], None, True),
        ("conv3x3_half", "float16", [(1, 128, 28, 28), *packed(128, 128)], None, False),
        ("conv3x3_half", "float16", [(32, 128, 64, 64), *packed(128, 128)], None, False),
        ("conv3x3_half", "float16", [(1, 512, 7, 7), *packed(512, 512)], None, True),
        ("conv3x3_half", "float16", [(1, 128, 8, 8), *packed(128, 128)], None, False),
        ("conv3x3_half_add", "float16", [(1, 128, 28, 28), (1, 128, 28, 28), *packed(128, 128)], None, True),
        ("conv3x3_half_add", "float16", [(1, 64, 56, 56), (1, 64, 56, 56), *packed(64, 64)], None, False),
        ("conv3x3_half_concat", "float16", [(32, 32, 56, 56), (32, 32, 56, 56), *packed(64, 64)], None, True),
        ("conv3x3_half_concat", "float16", [(1, 32, 56, 56), (1, 32, 56, 56), *packed(64, 64)], None, False),
        ("conv3x3_half_concat", "float16", [(1, 192, 7, 7), (1, 64, 7, 7), *packed(256, 256)], None, True),
        ("conv3x3_half_concat", "float16", [(32, 128, 64, 64), (32, 128, 64, 64), *packed(256, 128)], None, True),
        ("conv3x3_half_concat", "float16", [(32, 64, 64, 64), (32, 64, 64, 64), *packed(128, 128)], None, False),
        ("conv3x3_half_shuffle", "float16", [(32, 64, 128, 128), *packed(64, 12)], None, True),
        ("conv3x3_half_shuffle", "float16", [(1, 64, 128, 128), *packed(64, 12)], None, False),
        ("conv3x3_half_shuffle", "float16", [(32, 64, 128, 100), *packed(64, 12)], None, False),
        ("conv3x3_half_shuffle", "float16", [(32, 144, 128, 128), *packed(144, 12)], None, False),
        ("transposed_conv2x2_half", "float16", [(32, 64, 128, 128), *packed_squares(64, 32)], None, True),
        ("transposed_conv2x2_half", "float16", [(32, 512, 16, 16), *packed_squares(512, 256)], None, True),
        ("transposed_conv2x2_half", "float16", [(1, 64, 128, 128), *packed_squares(64, 32)], None, False),
    ],
)
def test_what_made_networks_slower_is_left_to_tensorrt(
    name: str, dtype: str, shapes: list[tuple[int, ...]], attributes: dict[str, int] | None, taken: bool
) -> None:
    """Source: the survey of docs/zoo.md, and docs/verify.md.

    Without a source: conv3x3_half_concat has the claims of conv3x3_half, and one for many channels.
    """
    kernel = registry.kernel(name)
    given = {**(CONVOLUTION if name.endswith("conv") else {}), **(attributes or {})}
    if name.endswith(("_half", "_half_add", "_half_concat", "_half_shuffle")):
        given = {"activation": "relu"}
    specialized = kernel.specialize(shapes, [dtype] * len(shapes), given)
    assert claimed(specialized, shapes, [90]) == taken


@pytest.mark.parametrize(
    ("axes", "rows", "alone", "in_group"),
    [
        (2, 8192, False, True),
        (3, 8192, False, True),
        (3, 197, False, True),
        (3, 128, False, True),
        (3, 127, False, False),
        (4, 8192, True, False),
        (4, 197, False, True),
        (5, 8192, True, False),
    ],
)
def test_a_dense_layer_in_halves_is_taken_by_its_axes_in_the_model(
    axes: int, rows: int, alone: bool, in_group: bool
) -> None:
    """Source: the survey of docs/zoo.md, fp16 with attention and dense layers."""
    shape = (1,) * (axes - 2) + (rows, 256)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, (*shape[:-1], 256))
    w, bias = (
        numpy_helper.from_array(np.ones(sizes, np.float16), name) for sizes, name in [((256, 256), "w"), ((256,), "b")]
    )
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Add", ["z", "b"], ["y"])]
    model = helper.make_model(
        helper.make_graph(nodes, "dense", [x], [y], [w, bias]), opset_imports=[helper.make_opsetid("", 17)]
    )
    places, _ = find_places(model, [registry.kernel("linear_half")], [90])
    assert any(place.claimed for place in places) == alone
    assert any(place.grouped for place in places) == in_group


@pytest.mark.parametrize(
    ("rows", "width", "dtype", "in_group"),
    [
        (197, 64, "float16", True),
        (197, 40, "float16", True),
        (197, 42, "float16", False),
        (128, 64, "float16", False),
        (197, 64, "float32", False),
    ],
)
def test_attention_of_one_tensor_is_taken_in_groups_from_192_rows_on(
    rows: int, width: int, dtype: str, in_group: bool
) -> None:
    """Source: docs/zoo.md, transformers in fp16. Heads of 42 numbers would be computed by plain multiply-adds."""
    kernel = registry.kernel("self_attention")
    shape = (1, 1, rows, 1, 1, 3, 3, width)
    specialized = kernel.specialize([shape], [dtype], {"scale": 0.125, "shift": 0})
    assert kernel.in_groups is not None
    assert one_holds((kernel.in_groups,), specialized, [shape], [90], model_axes=3) == in_group


@pytest.mark.parametrize(
    ("architectures", "taken"),
    [((90,), True), ((), False), ((89,), False), ((90, 90), True), ((90, 80), False)],
    ids=str,
)
def test_a_claim_may_be_for_one_architecture(architectures: tuple[int, ...], taken: bool) -> None:
    kernel = replace(DENSE, claims=(ARCHITECTURE.equals(90) & (inputs <= 8),))
    places, _ = find_places(dense_model("n", 8, 4), [kernel], architectures)
    assert [place.kernel for place in places] == [kernel] * taken
    assert find_places(dense_model("n", 9, 4), [kernel], architectures)[0] == []


@pytest.mark.parametrize(("sm", "plugins"), [("9.0", ["many_channel_conv"]), ("8.9", []), (None, [])])
def test_the_gpu_that_a_model_is_for_decides(
    sm: str | None, plugins: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = numpy_helper.from_array(np.ones((64, 64, 3, 3), np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 64, 16, 16]) for name in "xy")
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    graph = helper.make_graph([node], "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "conv.onnx")
    words = ["fuse", str(tmp_path / "conv.onnx"), *(["--sm", sm] if sm else [])]
    assert main([*words, "--json"]) == 0
    assert [done["kernel"] for done in json.loads(capsys.readouterr().out)["replacements"]] == plugins
    if sm:
        assert main([*words, "--embed"]) == (0 if plugins else 1)
        said = capsys.readouterr().err
        assert ("auto takes many_channel_conv only on sm_90\n" in said) == (not plugins)
        assert ("--plugins auto takes no kernel for sm_89: name kernels" in said) == (not plugins)


@pytest.mark.parametrize(
    ("changes", "gpus", "brief"),
    [
        ({"claims": ((inputs <= 8) & ARCHITECTURE.equals(90),)}, (), "only on sm_90"),
        ({"claims": ((inputs <= 4) & ARCHITECTURE.equals(90),)}, (90,), "only where in <= 4 (in = 8)"),
        ({"claims": ((n <= 16) & ARCHITECTURE.equals(90),)}, (86,), "only on sm_90 where n <= 16 (n is not known)"),
        ({"claims": ((n <= 16) & (outputs <= 4), outputs <= 3)}, (), "only where n <= 16 (n is not known)"),
        ({"claims": (sum([inputs] * 20, as_dim(0)) <= 1,)}, (), "only at other sizes"),
        (
            {
                "claims": (size_of("T").equals(2),),
                "beside_plugins": BesidePlugins(sizes=ARCHITECTURE.equals(90)),
                "in_groups": ARCHITECTURE.equals(90) & (outputs <= 3),
            },
            (),
            "only on sm_90 beside plugins",
        ),
        ({"claims": (inputs <= 4,), "in_groups": outputs <= 3}, (), "only where in <= 4 (in = 8)"),
        ({"claims": (size_of("T").equals(2),), "in_groups": outputs <= 3}, (), "only in a group of plugins where out"),
    ],
)
def test_what_is_missing_is_told_in_few_words(changes: dict[str, Any], gpus: tuple[int, ...], brief: str) -> None:
    (refusal,) = find_places(dense_model("n", 8, 4), [replace(DENSE, **changes)], gpus)[1]
    assert refusal.brief is not None
    assert refusal.brief.startswith(f"auto takes dense_bias_relu {brief}")


def test_what_no_size_changes_is_told_of_the_type() -> None:
    kernel = replace(DENSE, claims=(size_of("T").equals(2),))
    (refusal,) = find_places(dense_model("n", 8, 4), [kernel], (90,))[1]
    assert refusal.brief == "auto does not take dense_bias_relu in fp32"


def test_kernels_of_other_types_are_printed_only_where_there_are_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(dense_model("n", 512, 512), tmp_path / "dense.onnx")
    assert main(["fuse", str(tmp_path / "dense.onnx")]) == 0
    said = capsys.readouterr().err
    assert "auto takes linear only on sm_90 where " in said
    assert "linear_half" not in said
    assert said.endswith("--json has every reason in full\n")
    assert main(["fuse", str(tmp_path / "dense.onnx"), "--json"]) == 0
    assert "linear_half" in {entry["kernel"] for entry in json.loads(capsys.readouterr().out)["refusals"]}
    onnx.save(dense_model("n", 512, 512, np.float64), tmp_path / "double.onnx")
    assert main(["fuse", str(tmp_path / "double.onnx")]) == 0
    assert "linear_half has weights of types float64, float64; it is declared for" in capsys.readouterr().err


def test_claims_of_an_open_batch_are_judged_at_its_usual_size() -> None:
    model = dense_model("n", 768, 768)

    def taken(usual: dict[str, int] | None) -> list[str]:
        return [entry.kernel for entry in fuse(model, "auto", [90], usual).replacements]

    assert taken(None) == []
    assert taken({"n": 4096}) == ["linear"]
    assert taken({"n": 16}) == ["dense_bias_relu"]
    reasons = " ".join(entry.reason for entry in fuse(model, "auto", [90], {"n": 16}).refusals)
    assert "a library may be faster for inputs of shapes [16, 768]" in reasons
    fused = fuse(model, "auto", [90], {"n": 4096}).model
    assert [axis.dim_param for axis in fused.graph.input[0].type.tensor_type.shape.dim][:1] == ["n"]
    with pytest.raises(LenetTrtError, match="no input has an open axis rows"):
        fuse(model, "auto", [90], {"rows": 16})


def test_fuse_takes_the_usual_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(dense_model("n", 768, 768), tmp_path / "m.onnx")
    for batch, kernel in (("1:16:64", "dense_bias_relu"), ("1:4096:8192", "linear")):
        given = ["fuse", str(tmp_path / "m.onnx"), "--batch", batch, "--embed", "--sm", "9.0", "--json"]
        assert main(given) == 0
        (taken,) = json.loads(capsys.readouterr().out)["replacements"]
        assert taken["kernel"] == kernel


@pytest.mark.parametrize(("reader", "taken"), [("Relu(s)", True), ("MatMul(s, v)", False)])
def test_a_softmax_that_a_product_reads_is_left_to_attention_in_one_kernel(reader: str, taken: bool) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float16[2, 8, 64, 4096] x, float16[2, 8, 4096, 40] v) => (float16[2, 8, 64, m] y)
        {{ s = Softmax<axis = -1>(x) y = {reader} }}"""
    model = onnx.parser.parse_model(text)
    fused = fuse(model, "auto", [90])
    assert [each.kernel for each in fused.replacements] == ["softmax"] * taken
    assert any("joins its own layer with one that reads s" in each.reason for each in fused.refusals) is not taken
    assert [each.kernel for each in fuse(model, "softmax", [90]).replacements] == ["softmax"]
