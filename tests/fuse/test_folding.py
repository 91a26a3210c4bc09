"""What is computed of sizes is a constant, so that nothing reads a layer for them alone."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import parser

from lenet_trt.fuse.normal_form import plain_form
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run

# The pads of a convolution whose result has half as many pixels, rounded up, as TorchScript's exporter writes them.
SAME = """
  sizes = Shape(x)
  {amounts}
  sides = Concat<axis = 0>(none_before, right, none_before, below)
  wide = ConstantOfShape<value = int64[1] {{0}}>(four)
  turned = Concat<axis = 0>(sides, wide)
  pairs = Reshape(turned, as_pairs)
  from_last = Slice(pairs, last, farthest, nought, last)
  back = Transpose<perm = [1, 0]>(from_last)
  pads = Reshape(back, last)
  padded = Pad(x, pads, zero)
  y = Conv<strides = [2, 2]>(padded, w)
"""
OF_A_SIDE = """
  size_{to} = Gather(sizes, {axis}) float_{to} = Cast<to = 1>(size_{to})
  half_{to} = Div(float_{to}, two) {rounded}
  less_{to} = Sub(results_{to}, one) steps_{to} = Mul(less_{to}, two) reach_{to} = Add(steps_{to}, three)
  missing_{to} = Sub(reach_{to}, float_{to}) int_{to} = Cast<to = 7>(missing_{to})
  most_{to} = {clipped} {to} = Unsqueeze(most_{to}, nought)
"""
CEIL = "results_{to} = Ceil(half_{to})"
FLOOR = "minus_{to} = Neg(half_{to}) floor_{to} = Floor(minus_{to}) results_{to} = Neg(floor_{to})"


def padded_model(rounded: str, clipped: str, height: int, width: int) -> onnx.ModelProto:
    amounts = " ".join(
        OF_A_SIDE.format(to=to, axis=axis, rounded=rounded.format(to=to), clipped=clipped.format(to=to))
        for to, axis in (("below", "second"), ("right", "third"))
    )
    constants = {"second": np.array(2), "third": np.array(3), "none_before": np.array([0]), "four": np.array([4])}
    constants |= {"as_pairs": np.array([-1, 2]), "last": np.array([-1]), "farthest": np.array([-(2**63) + 1])}
    constants |= {"nought": np.array([0]), "zero": np.float32(0), "none": np.array(0)}
    constants |= {name: np.float32(number) for name, number in (("one", 1), ("two", 2), ("three", 3))}
    constants["w"] = np.random.default_rng(0).normal(size=(16, 16, 3, 3)).astype(np.float32)
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[2, 16, {height}, {width}] x) => (float[2, 16, h, v] y) {{ {SAME.format(amounts=amounts)} }}""")
    read = {name for node in model.graph.node for name in node.input}
    tensors = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    model.graph.initializer.extend(tensor for tensor in tensors if tensor.name in read)
    onnx.checker.check_model(model)
    return model


@pytest.mark.parametrize(("height", "width"), [(8, 7), (11, 12)])
@pytest.mark.parametrize("clipped", ["Clip(int_{to}, none)", "Max(int_{to}, none)"])
@pytest.mark.parametrize("rounded", [CEIL, FLOOR])
def test_pads_that_are_computed_of_sizes(rounded: str, clipped: str, height: int, width: int) -> None:
    model = padded_model(rounded, clipped, height, width)
    form = plain_form(model)
    assert [node.op_type for node in form.nodes] == ["Pad", "Conv"]
    assert form.shape("y") == (2, 16, -(-height // 2), -(-width // 2))
    fused = fuse(model, ["many_channel_conv"]).model
    assert [node.op_type for node in fused.graph.node if node.domain == DOMAIN] == ["many_channel_conv"]
    x = np.random.default_rng(1).normal(size=(2, 16, height, width)).astype(np.float32)
    np.testing.assert_allclose(run(fused, x)[0], run(model, x)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int64])
@pytest.mark.parametrize(
    ("computed", "wanted"),
    [
        ("Clip(a)", -2.5),
        ("Clip(a, low)", -1),
        ("Clip(a, , low)", -2.5),
        ("Clip(b, , high)", 4),
        ("Clip(b, low, high)", 4),
        ("Max(a, low, high)", 4),
        ("Min(b, high)", 4),
        ("Ceil(a)", -2),
        ("Floor(a)", -3),
    ],
)
def test_single_numbers(computed: str, wanted: float, dtype: np.dtype[np.generic]) -> None:
    whole = np.issubdtype(dtype, np.integer)
    if whole and computed.startswith(("Ceil", "Floor")):
        pytest.skip("of floats only")
    kind = onnx.TensorProto.DataType.Name(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))).lower()
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        g ({kind}[3] x) => ({kind}[3] y) {{ number = {computed} y = Add(x, number) }}""")
    for name, value in (("a", -2.5), ("b", 7), ("low", -1), ("high", 4)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value, dtype), name))
    onnx.checker.check_model(model)
    (add,) = plain_form(model).nodes
    value = plain_form(model).constants[add.inputs[1]]
    assert (value.dtype, float(value)) == (np.dtype(dtype), int(wanted) if whole else wanted)


@pytest.mark.parametrize("computed", ["Clip(x, low)", "Max(x, low)", "Ceil(x)", "Clip(many, low)"])
def test_what_is_no_single_number_is_not_computed(computed: str) -> None:
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[3] x) => (float[3] y) <float low = {{0}}, float[3] many = {{-1, 0, 1}}> {{
          number = {computed} y = Add(x, number) }}""")
    assert [node.op_type for node in plain_form(model).nodes] == [computed.split("(")[0], "Add"]
