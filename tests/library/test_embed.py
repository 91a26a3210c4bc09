"""The TensorRT copy of a fused model: one operator, all that its kernels need, and what parsers from 8.5 on take."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from lenet_trt.cli import main
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.export import mnist
from lenet_trt.export.lenet5 import lenet5_int8
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.kernel.dims import axes
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.inferred import declared_types
from lenet_trt.onnx_model.plugin_nodes import holds_kernel, plugin_nodes
from lenet_trt.onnx_model.precision import convert
from lenet_trt.runtimes.ort import runner
from lenet_trt.tensorrt.capabilities import capabilities
from lenet_trt.tensorrt.library.embed import embedded
from lenet_trt.tensorrt.library.encode import IMAGES
from lenet_trt.tensorrt.library.sizes import KnownSizes
from lenet_trt.tensorrt.library.targets import targets_for
from lenet_trt.tensorrt.readable import readable

UNFUSED = "conv5x5_bias,maxpool2,dense_bias_relu"
n, c = axes("n c")


def data_in(node: onnx.NodeProto) -> bytes:
    return next(attribute.t.raw_data for attribute in node.attribute if attribute.name == "data")


def images_in(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """The architecture, the hash and the bytes of each listed image."""
    count, images_at = struct.unpack_from("<I", data, 12)[0], struct.unpack_from("<Q", data, 24)[0]
    sections = [struct.unpack_from("<IIQQ", data, 64 + 24 * i) for i in range(count)]
    at = next(offset for kind, _, offset, _ in sections if kind == IMAGES)
    (images,) = struct.unpack_from("<H", data, at)
    found = []
    for i in range(images):
        entry = struct.unpack_from("<BBHIQQ32s", data, at + 2 + 56 * i)
        _, _, sm, cuda, offset, size, digest = entry
        assert cuda == 13000
        found.append((sm, digest, data[images_at + offset : images_at + offset + size]))
    return found


@pytest.fixture(scope="module")
def copy(lenet5: Path) -> onnx.ModelProto:
    return embedded(fuse(onnx.load(lenet5), "lenet5").model, ["sm_90"])


def test_every_plugin_node_becomes_the_one_operator_under_its_kernels_name(lenet5: Path) -> None:
    fused = fuse(onnx.load(lenet5), UNFUSED).model
    result = embedded(fused, ["sm_86"])
    ours = [node for node in result.graph.node if holds_kernel(node)]
    assert [node.name for node in ours] == list(plugin_nodes(fused))
    assert {(node.domain, node.op_type) for node in ours} == {("trt.plugins", "Kernel")}
    for node, before in zip(ours, (node for node in fused.graph.node if node.domain == DOMAIN), strict=True):
        assert (node.input, node.output) == (before.input, before.output)
        texts = {a.name: a.s for a in node.attribute if a.type == onnx.AttributeProto.STRING}
        assert texts == {"plugin_version": b"1", "plugin_namespace": DOMAIN.encode()}
        (tensor,) = (a.t for a in node.attribute if a.type == onnx.AttributeProto.TENSOR)
        assert tensor.data_type == TensorProto.INT8
        assert before.name.encode() in data_in(node)
        assert before.op_type.encode() in data_in(node)


def test_functions_go_and_opset_and_version_are_those_of_older_parsers(lenet5: Path, copy: onnx.ModelProto) -> None:
    fused = fuse(onnx.load(lenet5), "lenet5").model
    assert fused.functions
    assert not copy.functions
    assert {entry.domain: entry.version for entry in copy.opset_import}[""] <= 17
    assert copy.ir_version <= 8
    assert copy.graph.initializer == fused.graph.initializer
    assert embedded(fused, ["sm_90"]) == copy, "the same file each time"


def test_images_stand_once_with_their_hash_and_without_the_sources_path(copy: onnx.ModelProto) -> None:
    data = data_in(copy.graph.node[0])
    images = images_in(data)
    assert len({digest for _, digest, _ in images}) == len(images)
    for sm, digest, image in images:
        assert sm == 90
        assert image[:4] == b"\x7fELF"
        assert hashlib.sha256(image).digest() == digest
        assert data.count(image) == 1
        assert b".cu\0" not in image
        assert b".version" not in image, "the text of PTX, which line information brings"


def test_only_the_variants_of_the_target_are_there(lenet5: Path) -> None:
    fused = fuse(onnx.load(lenet5), "lenet5").model
    old = data_in(embedded(fused, ["sm_75"]).graph.node[0])
    assert b"lenet5_portable" in old
    assert b"cluster" not in old
    both = data_in(embedded(fused, ["sm_75", "sm_90"]).graph.node[0])
    assert {sm for sm, _, _ in images_in(both)} == {75, 90}


def one_matvec(shapes: list[list[int | str]]) -> onnx.ModelProto:
    make = helper.make_tensor_value_info
    inputs = [make(name, TensorProto.FLOAT16, shape) for name, shape in zip(("a", "x"), shapes, strict=True)]
    node = helper.make_node("batched_matvec", ["a", "x"], ["y"], domain=DOMAIN, name="product")
    graph = helper.make_graph([node], "g", inputs, [make("y", TensorProto.FLOAT16, [None] * 5)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(
    ("shapes", "has_bulk"),
    [
        ([["o", 200, 8, 1, 64], ["o", 1, 8, 64, 1]], True),
        ([["o", "b", "i", "r", 64], ["o", 1, "i", 64, 1]], True),  # not decided
        ([["o", 200, 8, 1, 32], ["o", 1, 8, 32, 1]], False),
        ([["o", 200, 3, 1, 64], ["o", 1, 3, 64, 1]], False),  # 16 is no multiple of inner * rows
        ([[600, 200, 8, 1, 64], [600, 1, 8, 64, 1]], True),
    ],
)
def test_a_variant_that_the_known_sizes_rule_out_is_not_embedded(shapes, has_bulk: bool) -> None:
    data = data_in(embedded(one_matvec(shapes), ["sm_90"]).graph.node[0])
    assert (b"\x04\x00bulk" in data) is has_bulk
    assert b"\x05\x00lanes" in data


def test_conditions_are_decided_as_far_as_sizes_are_known() -> None:
    sizes = KnownSizes({"c": 8}, {})
    assert sizes.decided((c <= 8) & (c > 1)) is True
    assert sizes.decided((c <= 8) & (n > 1)) is None
    assert sizes.decided((n > 1) & (c > 8)) is False
    assert sizes.decided(None) is True
    assert str(sizes.simplified((c <= 8) & (n > c) & (c > 1) & (n < 9))) == "8 < n & n < 9"
    assert sizes.simplified(c <= 8) is None


@pytest.mark.parametrize("precision", ["fp16", pytest.param("bf16", marks=pytest.mark.slow)])
def test_other_precisions_are_embedded_in_their_types(lenet5: Path, precision: str) -> None:
    fused = fuse(convert(onnx.load(lenet5), precision), "dense_bias_relu").model
    result = embedded(fused, ["sm_86"])
    assert sum(node.op_type == "Kernel" for node in result.graph.node) == 3


def test_a_model_without_plugin_nodes_and_a_copy_of_a_copy_are_refused(lenet5: Path, copy: onnx.ModelProto) -> None:
    with pytest.raises(LenetTrtError, match="has no plugin node: fuse it first"):
        embedded(onnx.load(lenet5), ["sm_90"])
    with pytest.raises(LenetTrtError, match="a TensorRT copy already"):
        embedded(copy, ["sm_90"])


def test_fuse_embed_writes_both_files_and_leaves_the_portable_one_as_it_is(
    lenet5: Path, tmp_path: Path, capsys
) -> None:
    plain, both = tmp_path / "plain.onnx", tmp_path / "both.onnx"
    assert main(["fuse", str(lenet5), "-o", str(plain), "--plugins", "lenet5"]) == 0
    command = ["fuse", str(lenet5), "-o", str(both), "--plugins", "lenet5", "--embed", "--sm", "9.0", "--json"]
    capsys.readouterr()
    assert main(command) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["tensorrt"] == str(tmp_path / "both.trt.onnx")
    assert both.read_bytes() == plain.read_bytes()
    assert onnx.load(answer["tensorrt"]).graph.node[0].op_type == "Kernel"
    assert main(["inspect", answer["tensorrt"], "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert (seen["plugins"], seen["precision"]) == (["lenet_trt::lenet5"], ["fp32"])
    # A file that is fused already needs no further plugin.
    assert (
        main(["fuse", str(plain), "-o", str(tmp_path / "again.onnx"), "--plugins", "none", "--embed", "--sm", "9.0"])
        == 0
    )
    assert (tmp_path / "again.trt.onnx").read_bytes() == (tmp_path / "both.trt.onnx").read_bytes()


@pytest.mark.parametrize(
    ("sms", "targets"),
    [(["9.0"], ["sm_90"]), (["sm_90", "90"], ["sm_90"]), (["12.0", "8.6", "8.6"], ["sm_86", "sm_120"])],
)
def test_targets_are_compute_capabilities(sms: list[str], targets: list[str]) -> None:
    assert targets_for(sms) == targets


def test_progress_is_told_on_standard_error_alone(lenet5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fused = fuse(onnx.load(lenet5), "maxpool2").model
    for progress in (False, True):
        embedded(fused, ["sm_86"], progress=progress)
        said = capsys.readouterr()
        assert not said.out
        assert ("Compiling kernels" in said.err) == progress


@pytest.mark.parametrize("sm", ["9", "9.1", "7.0", ""])
def test_what_is_no_target_names_those_that_are(sm: str) -> None:
    with pytest.raises(UsageError, match=r"kernels are compiled for 7\.5, 8\.0"):
        targets_for([sm])


def test_shapes_between_plugin_nodes_come_from_the_declaration(lenet5: Path) -> None:
    fused = fuse(onnx.load(lenet5), UNFUSED).model
    del fused.graph.value_info[:]
    del fused.functions[:]  # without which ONNX infers nothing of a plugin's outputs
    wanted = embedded(fuse(onnx.load(lenet5), UNFUSED).model, ["sm_86"])
    assert embedded(fused, ["sm_86"]).graph.node == wanted.graph.node


def test_the_copy_has_what_onnx_runtimes_tensorrt_provider_wants(lenet5: Path) -> None:
    fused = fuse(onnx.load(lenet5), UNFUSED).model
    told = embedded(fused, ["sm_86"])
    del fused.graph.value_info[:]
    result = embedded(fused, ["sm_86"])
    assert {entry.domain for entry in result.opset_import} == {"", "trt.plugins"}
    # It takes the types of a plugin's outputs from the file, and refuses a node without them.
    types = declared_types(result.graph)
    outputs = [name for node in result.graph.node if holds_kernel(node) for name in node.output]
    assert len(outputs) == 7
    for name in outputs:
        tensor = types[name].tensor_type
        assert tensor.elem_type == TensorProto.FLOAT
        known = declared_types(told.graph)[name].tensor_type
        assert [dim.dim_value for dim in tensor.shape.dim] == [dim.dim_value for dim in known.shape.dim]


@pytest.mark.parametrize(("names", "weights"), [(["lenet5_int8"], [1]), (["conv_int8", "dense_int8"], [2] * 4)])
def test_weights_of_8_bits_are_words_of_int32(names: list[str], weights: list[int]) -> None:
    fused = fuse(lenet5_int8(), names).model
    before = {tensor.name: numpy_helper.to_array(tensor) for tensor in fused.graph.initializer}
    result = embedded(fused, ["sm_90"])
    after = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    kernels = [node for node in fused.graph.node if node.domain == DOMAIN]
    copies = [node for node in result.graph.node if holds_kernel(node)]
    for fused_node, node, index in zip(kernels, copies, weights, strict=True):
        told = before[fused_node.input[index]]
        words = after[node.input[index]]
        assert (words.dtype, words.shape) == (np.int32, (-(-told.size // 4),))
        assert words.tobytes().ljust(told.size, b"?")[: told.size] == told.tobytes()
        assert not any(words.tobytes()[told.size :])
        others = [i for i in range(len(node.input)) if i != index]
        assert [node.input[i] for i in others] == [fused_node.input[i] for i in others]
        # The data wants what the node has: int32, and as many words.
        tensor = data_in(node).split(told_name(fused_node, index))[1]
        assert tensor[0] == 4
        assert struct.pack("<q", words.size) in tensor[:64]
    assert not any(array.dtype == np.int8 and array.ndim for name, array in after.items() if "weight_Q" in name)


def convolution(w: np.ndarray) -> onnx.ModelProto:
    """A convolution of 16 channels with these filters."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> layer (float[2, 16, 8, 8] x) => (float[2, 16, 8, 8] y) '
        "{ y = Conv <pads = [1, 1, 1, 1]> (x, w) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return model


def fused_convolution(held_as: str) -> onnx.ModelProto:
    """A fused convolution whose packed filters are an initializer, a Constant node or computed."""
    w = np.random.default_rng(3).standard_normal((16, 16, 3, 3), np.float32)
    fused = fuse(convolution(w), ["many_channel_conv"]).model
    (filters,) = (each for each in fused.graph.initializer if each.data_type == TensorProto.FLOAT16)
    if held_as != "initializer":
        fused.graph.initializer.remove(filters)
        name = filters.name if held_as == "node" else "constant"
        fused.graph.node.insert(0, helper.make_node("Constant", [], [name], value=filters))
    if held_as == "computed":
        fused.graph.node.insert(1, helper.make_node("Neg", [name], [filters.name]))
    return fused


def test_packed_weights_of_a_constant_node_are_words_too() -> None:
    told = [
        [numpy_helper.to_array(each) for each in embedded(fused_convolution(held_as), ["sm_90"]).graph.initializer]
        for held_as in ("initializer", "node")
    ]
    assert sorted(array.tobytes() for array in told[0]) == sorted(array.tobytes() for array in told[1])
    assert any(array.dtype == np.int32 for array in told[1])


def test_packed_weights_that_are_computed_are_refused() -> None:
    with pytest.raises(LenetTrtError, match="filters is computed in the network; make it a constant"):
        embedded(fused_convolution("computed"), ["sm_90"])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_not_packed(value: float) -> None:
    w = np.ones((16, 16, 3, 3), np.float32)
    w[3, 4, 1, 1] = value
    with pytest.raises(LenetTrtError, match="the weight w has NaN or infinity"):
        fuse(convolution(w), ["many_channel_conv"])


def told_name(node: onnx.NodeProto, index: int) -> bytes:
    """A kernel's input, as its data names it."""
    name = registry.kernel(node.op_type).inputs[index].name.encode()
    return struct.pack("<H", len(name)) + name


def test_a_zero_point_that_the_file_leaves_out_is_written() -> None:
    model = lenet5_int8()
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear":
            del node.input[2:]
    old, new = (readable(model, capabilities("tensorrt", version)) for version in ("8.6.0", "10.0.0"))
    assert new is model
    for made in (old, embedded(fuse(model, ["dense_int8"]).model, ["sm_90"])):
        onnx.checker.check_model(made)
        tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
        nodes = [node for node in made.graph.node if node.op_type == "DequantizeLinear"]
        assert nodes
        for node in nodes:
            zeros = tensors[node.input[2]]
            assert zeros.dtype == np.int8
            assert zeros.shape == tensors[node.input[1]].shape
            assert not zeros.any()
    x = mnist.network_input(mnist.test_set()[0][:20])
    (wanted,), (found,) = (runner(each)({"images": x}) for each in (model, old))
    assert (found == wanted).all()
