"""Fusing: every dialect is recognised, what is taken out computes the same, and all else stays as it was."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.export import mnist
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes, recorded
from lenet_trt.onnx_model.precision import convert
from networks import DENSES, FLATTENINGS, LENET5, Network, images_for, in_dialect, model_of, networks
from plain_runtime import run

SOME = settings(max_examples=40)


def assert_same(left: onnx.ModelProto, right: onnx.ModelProto, *inputs: np.ndarray) -> None:
    for one, other in zip(run(left, *inputs), run(right, *inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 * max(1.0, float(np.abs(other).max())))


def kernels_used(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


@pytest.fixture(scope="module")
def shipped(lenet5: Path) -> onnx.ModelProto:
    return onnx.load(lenet5)


@SOME
@given(networks(), st.sampled_from([1, 3]))
def test_any_network_in_any_dialect_computes_the_same_when_fused(network: Network, batch: int) -> None:
    model = model_of(network)
    fused = fuse(model, "all")  # "auto" leaves dense layers of many inputs to TensorRT while the batch is open
    onnx.checker.check_model(fused.model, full_check=True)
    used = kernels_used(fused.model)
    convolutions = sum(name.startswith("conv5x5") for name in used)
    assert convolutions == len(network.convolutions)
    assert used.count("dense_bias_relu") == len(network.denses)
    left = {node.op_type for node in fused.model.graph.node} & {"Conv", "Gemm", "MatMul", "Add"}
    assert not left
    assert_same(fused.model, model, images_for(model, batch, network.seed))


@SOME
@given(networks(), st.sets(st.sampled_from(["conv5x5_bias", "dense_bias_relu", "maxpool2"]), min_size=1))
def test_a_fused_file_fused_again_is_the_same_file(network: Network, names: set[str]) -> None:
    model = model_of(network)
    try:
        once = fuse(model, sorted(names)).model
    except LenetTrtError as error:
        if "no place" not in str(error):  # such as no dense layer in this network
            raise
        return
    twice = fuse(once, sorted(names))
    assert twice.replacements == ()
    assert twice.model.SerializeToString() == once.SerializeToString()


@pytest.mark.parametrize("dense", DENSES)
@pytest.mark.parametrize("flatten", FLATTENINGS)
@pytest.mark.parametrize("channels_last", [False, True])
def test_the_whole_network_is_one_kernel_in_every_dialect(dense: str, flatten: str, channels_last: bool) -> None:
    model = model_of(in_dialect(LENET5, dense=dense, flatten=flatten, channels_last=channels_last))
    fused = fuse(model, "auto").model
    assert [node.op_type for node in fused.graph.node] == ["lenet5", "Identity"]
    assert_same(fused, model, images_for(model, 2))


@pytest.mark.parametrize(
    "plugins",
    ["auto", "dense_bias_relu", "conv5x5_bias_relu_pool2,dense_bias_relu", "conv5x5_bias,maxpool2"],
)
def test_ten_thousand_digits_come_out_the_same(shipped: onnx.ModelProto, plugins: str) -> None:
    images, _ = mnist.test_set()
    assert len(images) == 10_000
    assert_same(fuse(shipped, plugins).model, shipped, mnist.network_input(images))


def test_half_precision_with_its_casts_is_one_kernel_and_the_same(shipped: onnx.ModelProto) -> None:
    half = convert(shipped, "fp16")
    fused = fuse(half, "auto")
    assert [node.op_type for node in fused.model.graph.node] == ["lenet5"]
    assert fused.replacements[0].types == "fp16_io_fp32"
    images, _ = mnist.test_set()
    pixels = mnist.network_input(images[:500])
    (plain,), (plugin,) = run(half, pixels), run(fused.model, pixels)
    np.testing.assert_allclose(plugin, plain, rtol=0, atol=2e-2)  # ORT may round between other layers
    assert (plugin.argmax(1) == plain.argmax(1)).mean() > 0.99


def test_what_is_not_replaced_keeps_every_byte(shipped: onnx.ModelProto) -> None:
    fused = fuse(shipped, "dense_bias_relu").model
    before = {node.name: node.SerializeToString() for node in shipped.graph.node}
    kept = [node for node in fused.graph.node if node.domain != DOMAIN]
    assert [node.name for node in kept] == [node.name for node in shipped.graph.node][: len(kept)]
    assert all(node.SerializeToString() == before[node.name] for node in kept)
    weights = {tensor.name: tensor.SerializeToString() for tensor in shipped.graph.initializer}
    assert {t.name: t.SerializeToString() for t in fused.graph.initializer} == weights
    assert fused.graph.input == shipped.graph.input
    assert fused.graph.output == shipped.graph.output


def test_nodes_carry_what_tensorrts_parser_needs_and_the_choice_is_recorded(shipped: onnx.ModelProto) -> None:
    fused = fuse(shipped, "auto")
    (node,) = fused.model.graph.node
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    assert attributes["plugin_version"] == registry.kernel("lenet5").version.encode()
    assert attributes["plugin_namespace"] == DOMAIN.encode()
    (entry,) = recorded(fused.model)
    assert entry["kernel"] == "lenet5"
    assert len(entry["replaced"]) == len(shipped.graph.node)
    assert {"conv5x5_bias_relu_pool2", "dense_bias_relu"} <= set(entry["instead_of"])


def test_onnx_reference_runs_the_fused_file_as_well(shipped: onnx.ModelProto) -> None:
    fused = fuse(shipped, "conv5x5_bias_relu_pool2,dense_bias_relu").model  # with ReLU and without: an If in the body
    images, _ = mnist.test_set()
    pixels = mnist.network_input(images[:3])
    (seen,) = ReferenceEvaluator(fused).run(None, {shipped.graph.input[0].name: pixels})
    np.testing.assert_allclose(seen, run(shipped, pixels)[0], rtol=0, atol=1e-4)


def test_an_intermediate_that_is_an_output_stops_the_replacement(shipped: onnx.ModelProto) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(shipped)
    inner = next(node for node in model.graph.node if node.op_type == "Relu").output[0]
    model.graph.output.append(helper.make_tensor_value_info(inner, TensorProto.FLOAT, ["n", "c", "h", "w"]))
    with pytest.raises(LenetTrtError, match=f"{inner}, which lies inside, is an output"):
        fuse(model, "lenet5")
    rest = fuse(model, "auto")
    assert "lenet5" not in kernels_used(rest.model)
    assert any(refusal.kernel == "lenet5" for refusal in rest.refusals)
    images, _ = mnist.test_set()
    assert_same(rest.model, model, mnist.network_input(images[:2]))


def test_an_intermediate_that_is_used_elsewhere_stops_the_replacement(shipped: onnx.ModelProto) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(shipped)
    relu = [node for node in model.graph.node if node.op_type == "Relu"][-1]
    last = model.graph.output[0].name
    model.graph.node.append(helper.make_node("ReduceMax", relu.output[:1], ["peak"], name="spy", keepdims=0))
    model.graph.output.append(helper.make_tensor_value_info("peak", TensorProto.FLOAT, []))
    with pytest.raises(LenetTrtError, match="is also used by ReduceMax spy"):
        fuse(model, "lenet5")
    images, _ = mnist.test_set()
    fused = fuse(model, "auto").model
    assert last in {name for node in fused.graph.node for name in node.output}
    assert_same(fused, model, mnist.network_input(images[:2]))


def test_weights_that_are_computed_or_overridable_stay(shipped: onnx.ModelProto) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(shipped)
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "fc1.weight")
    model.graph.input.append(helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims))
    assert kernels_used(fuse(model, "auto").model).count("dense_bias_relu") == 2  # fc2 and fc3
    with pytest.raises(LenetTrtError, match=r"fc1\.weight is an input of the network, .* remove it"):
        fuse(model, "lenet5")


def test_subgraphs_that_read_an_intermediate_are_seen() -> None:
    model = model_of(Network())
    relu = next(node for node in model.graph.node if node.op_type == "Relu")
    branches = [
        helper.make_graph(
            [helper.make_node(op, [relu.output[0]], [f"{op}_out"])],
            op,
            [],
            [helper.make_tensor_value_info(f"{op}_out", TensorProto.FLOAT, None)],
        )
        for op in ("Neg", "Abs")
    ]
    condition = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    model.graph.initializer.append(condition)
    model.graph.node.append(
        helper.make_node("If", ["yes"], ["extra"], name="spy", then_branch=branches[0], else_branch=branches[1])
    )
    model.graph.output.append(helper.make_tensor_value_info("extra", TensorProto.FLOAT, ["n", "c", "h", "w"]))
    fused = fuse(model, "auto").model
    assert "conv5x5_bias_relu_pool2" not in kernels_used(fused)
    assert "conv5x5_bias" in kernels_used(fused)
    assert_same(fused, model, images_for(model, 2))


@pytest.mark.parametrize(
    ("a", "x", "fits"),
    [
        ((6, 5, 8, 1, 16), (6, 1, 8, 16, 1), True),
        ((3, 4, 7), (7, 1), True),
        ((3, 4, 7), (3, 7, 1), True),
        (("n", 4, 7), ("n", 7, 1), True),
        (("n", 2, 3, 4, 7), (3, 7, 1), True),
        ((2, 3, 2, 4, 7), (1, 3, 1, 7, 1), False),
        ((4, 7), (3, 7, 1), False),
        ((3, 4, 7), (3, 7, 2), False),
    ],
)
def test_matmul_with_a_column_is_folded_to_five_dimensions(a, x, fits: bool) -> None:
    make = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["a", "x"], ["y"], name="product")]
    graph = helper.make_graph(
        nodes,
        "matmul",
        [make("a", TensorProto.FLOAT, a), make("x", TensorProto.FLOAT, x)],
        [make("y", TensorProto.FLOAT, [f"y{index}" for index in range(max(len(a), len(x)))])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    fused = fuse(model, "auto").model
    used = [name for name in kernels_used(fused) if name != "batched_matmul"]  # which takes more columns than one
    assert used == (["batched_matvec"] if fits else [])
    shapes = [[5 if size == "n" else size for size in shape] for shape in (a, x)]
    values = [np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in shapes]
    assert_same(fused, model, *values)
    if fits:
        assert run(fused, *values)[0].shape == run(model, *values)[0].shape
        # The function computes a product of any rank; the kernel itself gets five dimensions.
        inferred = onnx.shape_inference.infer_shapes(fused, data_prop=True).graph
        ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in [*inferred.input, *inferred.value_info]}
        (plugin,) = (node for node in inferred.node if node.domain == DOMAIN)
        assert [ranks[name] for name in plugin.input] == [5, 5]


def test_convolutions_that_only_look_alike_are_left() -> None:
    for changed in ({"pads": [2, 2, 2, 2]}, {"strides": [2, 2]}, {"dilations": [2, 2]}, {"group": 2}):
        model = model_of(Network(channels=2, convolutions=((2, "Relu", True),), denses=()))
        conv = next(node for node in model.graph.node if node.op_type == "Conv")
        for name, value in changed.items():
            kept = [entry for entry in conv.attribute if entry.name != name]
            del conv.attribute[:]
            conv.attribute.extend([*kept, helper.make_attribute(name, value)])
        used = kernels_used(fuse(model, "auto").model)
        assert not any(name.startswith("conv5x5") for name in used), changed


def test_pooling_windows_that_only_look_alike_are_left() -> None:
    for changed in ({"strides": [1, 1]}, {"pads": [1, 1, 1, 1]}, {"ceil_mode": 1}, {"kernel_shape": [3, 3]}):
        model = model_of(Network(convolutions=((2, "Relu", True),), denses=()))
        pool = next(node for node in model.graph.node if node.op_type == "MaxPool")
        for name, value in changed.items():
            kept = [entry for entry in pool.attribute if entry.name != name]
            del pool.attribute[:]
            pool.attribute.extend([*kept, helper.make_attribute(name, value)])
        used = kernels_used(fuse(model, "auto").model)
        assert used in (["conv5x5_bias"], ["conv5x5_bias", "max_pool"]), changed
        assert ("max_pool" in used) == ("ceil_mode" not in changed)


def test_a_bias_that_differs_by_row_is_none_of_a_dense_layer() -> None:
    make = helper.make_tensor_value_info
    weights = [numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")]
    weights.append(numpy_helper.from_array(np.array([[1], [2], [3]], dtype=np.float32), "c"))
    for nodes in (
        [helper.make_node("Gemm", ["x", "w", "c"], ["y"])],
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "c"], ["y"])],
    ):
        ends = [make("x", TensorProto.FLOAT, [3, 3])], [make("y", TensorProto.FLOAT, [3, 3])]
        graph = helper.make_graph(nodes, "g", *ends, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        fused = fuse(model, "auto").model
        assert [node.op_type for node in fused.graph.node][-1] in ("Gemm", "Add")
        assert_same(fused, model, np.ones((3, 3), dtype=np.float32))


def test_pooling_whose_indices_are_wanted_is_left() -> None:
    model = model_of(Network(convolutions=((2, "Relu", True),), denses=()))
    pool = next(node for node in model.graph.node if node.op_type == "MaxPool")
    pool.output.append("where")
    model.graph.output.append(helper.make_tensor_value_info("where", TensorProto.INT64, ["n", "c", "h", "w"]))
    fused = fuse(model, "auto").model
    assert kernels_used(fused) == ["conv5x5_bias"]
    assert_same(fused, model, images_for(model, 2))


def test_a_shape_that_something_else_reads_as_well_is_that_of_the_input() -> None:
    model = model_of(in_dialect(LENET5, flatten="gather"))
    shape = next(node for node in model.graph.node if node.op_type == "Shape")
    model.graph.node.append(helper.make_node("Size", [shape.output[0]], ["rank"], name="spy"))
    model.graph.output.append(helper.make_tensor_value_info("rank", TensorProto.INT64, []))
    fused = fuse(model, "auto").model
    assert kernels_used(fused) == ["lenet5"]
    assert_same(fused, model, images_for(model, 2))


def test_none_and_unknown_names(shipped: onnx.ModelProto) -> None:
    assert fuse(shipped, "none").model is shipped
    with pytest.raises(UsageError, match="dense_bias_relu"):
        fuse(shipped, "dense_bias_rely")
    with pytest.raises(LenetTrtError, match="no such layers"):
        fuse(model_of(Network(denses=())), "dense_bias_relu")


def test_the_verb_writes_the_file_says_what_it_did_and_leaves_a_fused_file_alone(
    lenet5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    assert main(["fuse", str(lenet5), "-o", str(first), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["output"] == str(first)
    assert [entry["kernel"] for entry in answer["replacements"]] == ["lenet5"]
    assert main(["fuse", str(first), "-o", str(second)]) == 0
    assert str(second) in capsys.readouterr().out
    assert second.read_bytes() == first.read_bytes()
    assert plugin_nodes(onnx.load(second)) == {"lenet5": "lenet5"}
    assert main(["fuse", str(lenet5), "--plugins", "nothing_like_it", "-o", str(tmp_path / "x.onnx")]) == 2
    assert not (tmp_path / "x.onnx").exists()


def test_the_shipped_output_name(lenet5: Path, tmp_path: Path) -> None:
    copy = tmp_path / "net.onnx"
    copy.write_bytes(lenet5.read_bytes())
    assert main(["fuse", str(copy)]) == 0
    assert recorded(onnx.load(tmp_path / "net.fused.onnx"))


def test_a_float_model_is_converted_and_fused(lenet5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(lenet5.read_bytes())
    assert main(["fuse", str(model), "--fp16"]) == 0
    written = tmp_path / "net.fp16.fused.onnx"
    assert [entry["types"] for entry in recorded(onnx.load(written))] == ["fp16_io_fp32"]
    images = images_for(onnx.load(model), 5)
    (half,), (plain,) = run(onnx.load(written), images), run(onnx.load(model), images)
    assert half.dtype == plain.dtype
    np.testing.assert_allclose(half, plain, rtol=0, atol=0.02 * np.abs(plain).max())
    assert not np.array_equal(half, plain)

    assert main(["fuse", str(model), "--fp16", "--plugins", "none", "-o", str(tmp_path / "half.onnx")]) == 0
    capsys.readouterr()
    for file, said in ((written, "has plugin nodes already (lenet5)"), (tmp_path / "half.onnx", "in fp16 already")):
        assert main(["fuse", str(file), "--fp16", "-o", str(tmp_path / "x.onnx")]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "x.onnx").exists()
