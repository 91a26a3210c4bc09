"""What a kernel may have at most to be written as data, and which opset the TensorRT copy has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from lenet_trt.cuda.gpus import first_gpu
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.kernel import Axis, Kernel, Launch, Tensor, TensorMap, Types, Variant
from lenet_trt.kernel.dims import Constant, axes
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.tensorrt.library.embed import embedded
from lenet_trt.tensorrt.library.encode import EncodedVariant, code_of, encode
from lenet_trt.tensorrt.library.sizes import sizes_of
from lenet_trt.tensorrt.library.targets import targets_for

(n,) = axes("n")
LAUNCH = Launch((1, 1, 1), (32, 1, 1), extras=())
VARIANT = Variant("portable", LAUNCH, "any", source=Path(__file__).name)


def written(
    axis_count: int = 1,
    rank: int = 1,
    inputs: int = 1,
    variants: int = 1,
    extras: int = 0,
    launches: int = 1,
    maps: int = 0,
) -> bytes:
    names = [f"a{index}" for index in range(axis_count)]
    first = tuple(axes(" ".join(names)))
    more = [Tensor(f"x{index}", (first[0],), "T", "") for index in range(1, inputs)]
    launch = replace(LAUNCH, extras=(first[0],) * extras)
    variant = replace(VARIANT, launch=LAUNCH, then=(launch,) * (launches - 1))
    if launches == 1:
        variant = replace(VARIANT, launch=launch)
    more_extras = [replace(variant, name="last")] if extras or launches > 1 else []
    if maps:
        mapped = replace(LAUNCH, maps=(TensorMap("sa0", (first[0],), (8,)),) * maps)
        more_extras = [replace(VARIANT, name="mapped", launch=mapped, min_sm=90)]
    kernel = Kernel(
        name="many",
        doc="y = x",
        axes=tuple(Axis(name, "") for name in names),
        inputs=(*(Tensor(f"s{name}", (axis,), "T", "") for name, axis in zip(names, first, strict=True)), *more),
        outputs=(Tensor("y", (first[0],) * rank, "T", ""),),
        types=(Types("fp32", {"T": "float32"}, 0.0),),
        variants=(VARIANT, *(replace(variant, name=f"v{index}") for index in range(1, variants)), *more_extras),
        reference=abs,
        examples=(dict.fromkeys(names, 1),),
        flops=0,
        source_dir=Path(__file__).parent,
    )
    specialized = kernel.specialize([(-1,)] * len(kernel.inputs), ["float32"] * len(kernel.inputs))
    sizes = sizes_of(specialized, [(-1,)] * len(kernel.inputs))
    encoded = [EncodedVariant(each, ((),) * len(each.parts)) for each in kernel.variants]
    return encode("node", specialized, sizes, encoded, 13000)


@pytest.mark.parametrize(
    ("most", "more", "said"),
    [
        ({"inputs": 63}, {"inputs": 64}, r"inputs and outputs \(at most 64\)"),
        ({"rank": 8}, {"rank": 9}, r"dimensions \(at most 8\)"),
        ({"axis_count": 31}, {"axis_count": 32}, r"axes \(at most 31\)"),
        ({"variants": 64}, {"variants": 65}, r"variants \(at most 64\)"),
        ({"extras": 32}, {"extras": 33}, r"extras of a launch \(at most 32\)"),
        ({"maps": 4}, {"maps": 5}, r"tensor maps of a launch \(at most 4\)"),
        ({"launches": 4}, {"launches": 5}, r"launches of a call \(at most 4\)"),
        ({"launches": 3, "extras": 32}, {"launches": 3, "extras": 33}, r"extras of a launch \(at most 32\)"),
    ],
)
def test_a_kernel_with_more_than_the_library_has_room_for_is_refused(
    most: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    assert written(**most).startswith(b"LENETTRT")
    with pytest.raises(LenetTrtError, match=f"many has more {said} than the plugin library has room for"):
        written(**more)


@pytest.mark.parametrize(
    ("number", "fits"), [(2**63 - 1, True), (2**63, False), (-(2**63), True), (-(2**63) - 1, False)]
)
def test_a_number_of_more_than_64_bits_is_refused(number: int, fits: bool) -> None:
    if fits:
        assert code_of(Constant(number), ())[1:] == number.to_bytes(8, "little", signed=True)
    else:
        with pytest.raises(LenetTrtError, match="more than 64 bits"):
            code_of(Constant(number), ())


@pytest.mark.skipif(first_gpu() is not None, reason="there is a GPU here")
@pytest.mark.parametrize("sms", [[], ["current"]])
def test_without_a_gpu_the_targets_have_to_be_named(sms: list[str]) -> None:
    with pytest.raises(UsageError, match="there is no GPU here: name those that will run it"):
        targets_for(sms)


def pooled(opset: int, ir_version: int, op_type: str = "Relu", function: bool = False) -> onnx.ModelProto:
    """A plugin node for MaxPool, and an operator of ONNX after it."""
    make = helper.make_tensor_value_info
    nodes = [
        helper.make_node(
            "maxpool2", ["x"], ["p"], domain=DOMAIN, name="pool", plugin_version="1", plugin_namespace=DOMAIN
        ),
        helper.make_node(op_type, ["p"], ["y"], domain="theirs" if function else ""),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [make("x", TensorProto.FLOAT, ["n", 2, 8, 8])],
        [make("y", TensorProto.FLOAT, ["n", 2, "h", "w"])],
        value_info=[make("p", TensorProto.FLOAT, ["n", 2, 4, 4])],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1), helper.make_opsetid("theirs", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    if function:
        inner = [helper.make_node("Relu", ["a"], ["b"])]
        model.functions.append(helper.make_function("theirs", op_type, ["a"], ["b"], inner, [opsets[0]]))
    return model


@pytest.mark.parametrize(
    ("opset", "op_type", "wanted"),
    [
        (13, "Relu", 13),
        (17, "Relu", 17),
        (18, "Relu", 17),
        (21, "Relu", 17),
        (18, "ReduceMax", 18),  # whose axes are an input from 18 on
        (20, "Gelu", 20),  # which there is from 20 on
    ],
)
def test_the_opset_is_older_where_no_operator_is_another_in_it(opset: int, op_type: str, wanted: int) -> None:
    result = embedded(pooled(opset, 10, op_type), ["sm_86"])
    assert {entry.domain: entry.version for entry in result.opset_import}[""] == wanted
    assert result.ir_version == 8


def test_functions_of_others_stay_with_the_format_that_they_need() -> None:
    result = embedded(pooled(17, 10, "mine", function=True), ["sm_86"])
    assert [function.domain for function in result.functions] == ["theirs"]
    assert result.ir_version == 10
    assert embedded(pooled(17, 7), ["sm_86"]).ir_version == 7
