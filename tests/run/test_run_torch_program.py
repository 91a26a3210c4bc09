"""ONNX through torch, against ONNX Runtime: the graph runtime's operators, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from onnx import TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.runtimes.ort import OrtCpu
from networks import images_for, model_of, networks

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[gpu]'")

from lenet_trt.runtimes.graph.torch_program import OPERATORS, TorchProgram  # noqa: E402
from lenet_trt.runtimes.graph.torch_quantize import QUANTIZERS  # noqa: E402

EXPORTED = sorted((Path(__file__).parents[1] / "exported").glob("*.onnx"))
RANDOM = np.random.default_rng(3)


def compare(model: onnx.ModelProto, *inputs: np.ndarray) -> None:
    program = TorchProgram(model, torch.device("cpu"))
    tensors = [torch.from_numpy(array) for array in inputs]
    found = program.run(tensors, {})
    wanted = OrtCpu(model).run(inputs)
    for mine, theirs in zip(found, wanted, strict=True):
        assert str(mine.dtype) == f"torch.{theirs.dtype}"
        assert tuple(mine.shape) == theirs.shape
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=2e-5, atol=2e-5)
        assert all(mine.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr() for tensor in tensors)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def lstm_inputs(directions: int, hidden: int = 5) -> list[np.ndarray | None]:
    weights = [normal(directions, 4 * hidden, size) for size in (3, hidden)]
    return [normal(7, 2, 3), *weights, normal(directions, 8 * hidden)]


X = normal(2, 4, 9, 7)
POSITIVE = np.abs(X) + np.float32(0.1)
# operator, inputs (the first is the network's, the others are constants; None: left out), attributes, operator set
CASES: list[tuple[str, list[np.ndarray | None], dict[str, Any], int]] = [
    ("Conv", [X, normal(6, 2, 3, 3), normal(6)], {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 0]}, 18),
    ("Conv", [X, normal(3, 4, 3, 2)], {"pads": [0, 1, 2, 0], "dilations": [2, 1]}, 18),
    ("Conv", [X, normal(3, 4, 4, 4)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, 18),
    ("Conv", [X, normal(3, 4, 4, 4)], {"auto_pad": "SAME_LOWER"}, 18),
    ("Conv", [X, normal(3, 4, 4, 4)], {"auto_pad": "VALID"}, 18),
    ("Conv", [normal(2, 3, 11), normal(5, 3, 4)], {}, 18),
    ("ConvTranspose", [X, normal(4, 3, 3, 3), normal(3)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}, 18),
    ("MaxPool", [X], {"kernel_shape": [2, 2], "strides": [2, 2]}, 18),
    ("MaxPool", [X], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}, 18),
    ("MaxPool", [X - 9], {"kernel_shape": [3, 2], "pads": [0, 0, 1, 1]}, 18),
    ("AveragePool", [X], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, 18),
    ("AveragePool", [X], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, 18),
    ("AveragePool", [X], {"kernel_shape": [3, 3], "pads": [0, 1, 1, 0]}, 18),
    ("GlobalAveragePool", [X], {}, 18),
    ("GlobalMaxPool", [X], {}, 18),
    ("Gemm", [normal(3, 4), normal(5, 4), normal(5)], {"transB": 1}, 18),
    ("Gemm", [normal(4, 3), normal(4, 5), normal(3, 1)], {"transA": 1, "alpha": 0.5, "beta": 2.0}, 18),
    ("Gemm", [normal(3, 4), normal(4, 5)], {}, 18),
    ("MatMul", [normal(2, 3, 4, 5), normal(3, 5, 1)], {}, 18),
    ("BatchNormalization", [X, normal(4), normal(4), normal(4), np.abs(normal(4)) + 1], {"epsilon": 1e-3}, 18),
    ("InstanceNormalization", [X, normal(4), normal(4)], {}, 18),
    ("LayerNormalization", [X, normal(9, 7), normal(9, 7)], {"axis": 2}, 18),
    ("GroupNormalization", [X, normal(2), normal(2)], {"num_groups": 2}, 18),
    ("GroupNormalization", [X, normal(4), normal(4)], {"num_groups": 2}, 21),
    ("LRN", [X], {"size": 3, "alpha": 0.01, "beta": 0.5, "bias": 2.0}, 18),
    ("Softmax", [X], {}, 18),
    ("Softmax", [X], {"axis": 1}, 11),
    ("LogSoftmax", [X], {"axis": 2}, 18),
    ("Clip", [X, np.array(-0.5, np.float32), np.array(0.5, np.float32)], {}, 18),
    ("Clip", [X, None, np.array(0.5, np.float32)], {}, 18),
    ("Clip", [X], {"min": -0.25}, 7),
    ("PRelu", [X, normal(4, 1, 1)], {}, 18),
    ("LeakyRelu", [X], {"alpha": 0.2}, 18),
    ("HardSigmoid", [X], {}, 18),
    ("Gelu", [X], {"approximate": "tanh"}, 20),
    ("Reshape", [X, ints(0, -1, 7)], {}, 18),
    ("Flatten", [X], {"axis": 2}, 18),
    ("Flatten", [X], {"axis": -1}, 18),
    ("Transpose", [X], {}, 18),
    ("Squeeze", [normal(2, 1, 3, 1), ints(1)], {}, 18),
    ("Squeeze", [normal(2, 1, 3, 1)], {"axes": [3]}, 11),
    ("Unsqueeze", [X, ints(-1, 0)], {}, 18),
    ("Concat", [X, X[:, :2]], {"axis": 1}, 18),
    ("Slice", [X, ints(1, -3), ints(2**62, -1), ints(1, 3), ints(2, 1)], {}, 18),
    ("Slice", [X, ints(-1, 5), ints(-(2**62), 1), ints(1, -1), ints(-1, -2)], {}, 18),
    ("Slice", [X, ints(0), ints(3), ints(1), ints(-1)], {}, 18),
    ("Slice", [X], {"starts": [1], "ends": [3], "axes": [1]}, 9),
    ("Gather", [X, ints(-1, 0)], {"axis": 1}, 18),
    ("GatherElements", [X, ints(*[0, -1, 3, 2] * 9).reshape(2, 1, 9, 2)], {"axis": 1}, 18),
    ("GatherND", [X, ints(1, -1, 0, 0, 1, 8).reshape(2, 3)], {}, 18),
    ("ScatterElements", [normal(3, 5), ints(1, -1, 4, 0).reshape(2, 2), normal(2, 2)], {"axis": 1}, 18),
    *[
        (
            "ScatterElements",
            [normal(3, 5), ints(1, 1, 4, 0).reshape(2, 2), normal(2, 2)],
            {"reduction": how, "axis": 1},
            18,
        )
        for how in ("add", "mul", "max", "min")
    ],
    ("ScatterND", [X, ints(1, -1, 0, 3).reshape(2, 2), normal(2, 9, 7)], {}, 18),
    ("ScatterND", [X, ints(1, 2, 1, 2).reshape(2, 2), normal(2, 9, 7)], {"reduction": "add"}, 18),
    ("Range", [np.array(2, np.int64), np.array(11, np.int64), np.array(3, np.int64)], {}, 18),
    ("DepthToSpace", [normal(2, 12, 3, 5)], {"blocksize": 2}, 18),
    ("DepthToSpace", [normal(2, 12, 3, 5)], {"blocksize": 2, "mode": "CRD"}, 18),
    ("SpaceToDepth", [normal(2, 3, 4, 6)], {"blocksize": 2}, 18),
    ("Trilu", [normal(2, 4, 5)], {}, 18),
    ("Trilu", [normal(2, 4, 5), np.array(-1, np.int64)], {"upper": 0}, 18),
    (
        "Resize",
        [X, None, floats(1, 1, 2, 3)],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        18,
    ),
    ("Resize", [X, None, floats(1, 1, 2, 3)], {}, 18),
    ("Resize", [X, None, floats(2, 1.5)], {"axes": [2, 3], "nearest_mode": "round_prefer_ceil"}, 18),
    ("Resize", [X, floats(), floats(1, 1, 2, 1.5)], {"mode": "linear"}, 11),
    (
        "Resize",
        [X, None, None, ints(2, 4, 4, 13)],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        18,
    ),
    ("Resize", [X, None, None, ints(2, 4, 13, 5)], {"mode": "linear"}, 18),
    ("Resize", [X, None, floats(1, 1, 2, 2)], {"mode": "cubic"}, 18),
    ("LSTM", lstm_inputs(1), {"hidden_size": 5}, 18),
    ("LSTM", lstm_inputs(1), {"hidden_size": 5, "activations": ["Sigmoid", "Tanh", "Tanh"]}, 18),
    ("LSTM", lstm_inputs(1)[:3], {"hidden_size": 5, "direction": "reverse"}, 18),
    (
        "LSTM",
        [*lstm_inputs(2), None, normal(2, 2, 5), normal(2, 2, 5)],
        {"hidden_size": 5, "direction": "bidirectional"},
        18,
    ),
    ("Expand", [normal(3, 1), ints(2, 1, 4)], {}, 18),
    ("Pad", [X, ints(0, 0, 1, 2, 0, 0, 0, 1), np.array(7, np.float32)], {}, 18),
    ("Pad", [X, ints(0, 0, 1, 2, 0, 0, 0, 1)], {"mode": "reflect"}, 18),
    ("Pad", [X], {"pads": [0, 0, 1, 2, 0, 0, 0, 1]}, 10),
    ("Tile", [X, ints(1, 2, 1, 3)], {}, 18),
    ("ReduceMean", [X, ints(1, 3)], {"keepdims": 0}, 18),
    ("ReduceMean", [X], {"axes": [2]}, 13),
    ("ReduceMax", [X], {}, 18),
    ("ReduceL2", [X, ints(-1)], {}, 18),
    ("ReduceSum", [X, ints(2)], {}, 18),
    ("ReduceSum", [X], {"noop_with_empty_axes": 1}, 18),
    ("ArgMax", [X], {"axis": 1, "keepdims": 0}, 18),
    ("ArgMin", [X], {"axis": -1}, 18),
    ("Cast", [X], {"to": TensorProto.INT32}, 18),
    ("Shape", [X], {"start": 1}, 18),
    ("Dropout", [X], {}, 18),
    ("Where", [X > 0, X, np.float32(2) * X], {}, 18),
    ("Max", [X, np.array(0.1, np.float32), normal(7)], {}, 18),
    ("Mean", [X, normal(7)], {}, 18),
    ("Div", [np.array([7, -7, 5]), ints(2, 2, -3)], {}, 18),
    ("Mod", [np.array([7, -7, 5]), ints(2, 2, -3)], {}, 18),
    ("Mod", [X, normal(7)], {"fmod": 1}, 18),
    ("Einsum", [X, normal(4, 7)], {"equation": "bchw,cw->bh"}, 18),
    ("Pow", [POSITIVE, np.array(1.5, np.float32)], {}, 18),
    *[
        (name, [X, normal(7)], {}, 18)
        for name in (
            "Add",
            "Sub",
            "Mul",
            "Div",
            "Min",
            "Sum",
            "Greater",
            "GreaterOrEqual",
            "Less",
            "LessOrEqual",
            "Equal",
        )
    ],
    *[(name, [X > 0, X > 1], {}, 18) for name in ("And", "Or")],
    ("IsNaN", [np.where(X > 0, X, np.float32(np.nan))], {}, 18),
    *[
        (name, [X], {}, 18)
        for name in ("Relu", "Tanh", "Sigmoid", "Elu", "Selu", "Softplus", "Softsign", "Mish", "HardSwish", "Identity")
    ],
    *[
        (name, [X], {}, 18)
        for name in ("Abs", "Neg", "Exp", "Floor", "Ceil", "Round", "Sign", "Sin", "Cos", "Erf", "ReduceMin")
    ],
    *[(name, [POSITIVE], {}, 18) for name in ("Sqrt", "Log", "Reciprocal")],
    ("Not", [X > 0], {}, 18),
]


def one_node(op: str, inputs: list[np.ndarray | None], attributes: dict[str, Any], opset: int) -> onnx.ModelProto:
    names = ["" if array is None else f"in{index}" for index, array in enumerate(inputs)]
    first = inputs[0]
    assert first is not None
    kind = helper.np_dtype_to_tensor_dtype(first.dtype)
    graph = helper.make_graph(
        [helper.make_node(op, names, ["out"], name="node", **attributes)],
        "one",
        [helper.make_tensor_value_info("in0", kind, [f"a{axis}" for axis in range(first.ndim)])],
        [onnx.ValueInfoProto(name="out")],
        [numpy_helper.from_array(array, name) for array, name in zip(inputs[1:], names[1:], strict=True) if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    output = onnx.shape_inference.infer_shapes(model).graph.output[0]
    if not output.type.tensor_type.elem_type:  # ONNX infers nothing of GroupNormalization
        output.type.CopyFrom(model.graph.input[0].type)
    model.graph.output[0].CopyFrom(output)
    return model


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "opset"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_operator(op: str, inputs: list[np.ndarray | None], attributes: dict[str, Any], opset: int) -> None:
    assert inputs[0] is not None
    compare(one_node(op, inputs, attributes, opset), inputs[0])


def test_every_operator_is_tested() -> None:
    elsewhere = {"ConstantOfShape", "Split", "TopK"}  # below: the first takes no data; the others have several outputs
    assert {op for op, *_ in CASES} | elsewhere == set(OPERATORS) - set(QUANTIZERS)


def test_several_outputs_and_constants() -> None:
    nodes = [
        helper.make_node("Split", ["x", "sizes"], ["a", "b"], axis=1),
        helper.make_node("Split", ["x"], ["c", "d", "e"], axis=1, num_outputs=3),
        helper.make_node("Shape", ["a"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["twos"], value=helper.make_tensor("v", 1, [1], [2.0])),
        helper.make_node("Constant", [], ["sizes"], value_ints=[1, 4]),
        helper.make_node("Mul", ["a", "twos"], ["y"]),
    ]
    outs = ("y", "b", "c", "d", "e")
    graph = helper.make_graph(
        [nodes[4], *nodes[:4], nodes[5]],
        "several",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", f"{name}1"]) for name in outs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    compare(model, normal(3, 5))


def test_a_node_of_constants_is_computed_once_and_on_the_host() -> None:
    """A converter to fp16 casts the scales of a Resize; on a GPU they would be data, on which no size may depend."""
    nodes = [
        helper.make_node("Cast", ["halves"], ["scales"], to=TensorProto.FLOAT),
        helper.make_node("Resize", ["x", "", "scales"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "resized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2, 6, 8])],
        [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float16), "halves")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    assert [step.node.op for step in TorchProgram(model, torch.device("cpu")).steps] == ["Resize"]
    compare(model, normal(2, 2, 3, 4))


@pytest.mark.parametrize("largest", [1, 0])
def test_top_k(largest: int) -> None:
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=1, largest=largest)],
        "top",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 9, 4])],
        [
            helper.make_tensor_value_info("values", TensorProto.FLOAT, ["n", 3, 4]),
            helper.make_tensor_value_info("places", TensorProto.INT64, ["n", 3, 4]),
        ],
        [numpy_helper.from_array(ints(3), "k")],
    )
    compare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), normal(2, 9, 4))


@settings(max_examples=60)
@given(networks())
def test_generated_networks(network: Any) -> None:
    model = model_of(network)
    compare(model, images_for(model, 3))


@pytest.mark.parametrize("path", EXPORTED, ids=lambda path: path.stem)
def test_what_exporters_write(path: Path) -> None:
    model = onnx.load(path)
    compare(model, images_for(model, 3))


def test_lenet5_takes_pixels_and_any_batch(lenet5: Path) -> None:
    model = onnx.load(lenet5)
    program = TorchProgram(model, torch.device("cpu"))
    pixels = RANDOM.integers(0, 256, (7, 1, 28, 28), dtype=np.uint8)
    from_pixels = program.run([torch.from_numpy(pixels)], {})[0]
    from_numbers = program.run([torch.from_numpy(pixels / np.float32(255))], {})[0]
    torch.testing.assert_close(from_pixels, from_numbers)
    assert program.run([torch.zeros(0, 1, 28, 28)], {})[0].shape == (0, 10)


def test_what_is_not_known_is_said_with_its_node() -> None:
    model = one_node("Relu", [X], {}, 18)
    model.graph.node[0].op_type = "Hardmax"
    with pytest.raises(LenetTrtError, match=r"node node \(Hardmax\): the graph runtime has no operator Hardmax.*ort"):
        TorchProgram(model, torch.device("cpu"))
    halves = one_node("Resize", [X, None, floats(1, 1, 0.5, 0.5)], {}, 18)
    with pytest.raises(LenetTrtError, match=r"node node \(Resize\): the nearest element by half_pixel"):
        TorchProgram(halves, torch.device("cpu")).run([torch.from_numpy(X)], {})
    lengths = one_node("LSTM", [*lstm_inputs(1), np.array([7, 3], np.int32)], {"hidden_size": 5}, 18)
    with pytest.raises(LenetTrtError, match=r"node node \(LSTM\): sequence_lens"):
        TorchProgram(lengths, torch.device("cpu")).run([torch.zeros(7, 2, 3)], {})
    other = one_node("LSTM", lstm_inputs(1), {"hidden_size": 5, "activations": ["Relu", "Tanh", "Tanh"]}, 18)
    with pytest.raises(LenetTrtError, match=r"node node \(LSTM\): the activations Relu, Tanh, Tanh are not"):
        TorchProgram(other, torch.device("cpu")).run([torch.zeros(7, 2, 3)], {})
    product = one_node("MatMul", [normal(2, 3), normal(3, 4)], {}, 18)
    with pytest.raises(LenetTrtError, match=r"node node \(MatMul\) failed: mat1 and mat2"):
        TorchProgram(product, torch.device("cpu")).run([torch.zeros(2, 5)], {})


def test_plugin_nodes_go_to_our_kernels(lenet5: Path) -> None:
    model = fuse(onnx.load(lenet5), "dense_bias_relu,maxpool2").model
    program = TorchProgram(model, torch.device("cpu"))
    assert sum(step.node.op == "lenet_trt::dense_bias_relu" for step in program.steps) == 3
    with pytest.raises(LenetTrtError, match=r"node maxpool2 \(lenet_trt::maxpool2\): maxpool2 runs on CUDA tensors"):
        program.run([torch.zeros(1, 1, 28, 28)], {})
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "plugin_version":
                attribute.s = b"0"
    with pytest.raises(LenetTrtError, match=r"is for version 0 of .*fuse the model again"):
        TorchProgram(model, torch.device("cpu"))
