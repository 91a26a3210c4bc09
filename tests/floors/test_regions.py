"""The nodes in regions of TensorRT's compiler: names and tensors as engines of TensorRT 8.6.0 have them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import numpy_helper, parser

from lenet_trt.floors.engine import engine_work
from lenet_trt.floors.regions import region_nodes
from lenet_trt.floors.work import NodeWork, work_of
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor

WIDTH, WORDS, TOKENS = 64, 1000, 16
TABLE, WEIGHT = WIDTH * WORDS, WIDTH * WIDTH


@pytest.fixture
def nodes() -> list[NodeWork]:
    """An embedding, a product, a Conv, and a product with a bias, whose sum TensorRT gives no name of the model."""
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        text (int64[{TOKENS}] tokens) => (float[1, {WIDTH}, {TOKENS}] logits)
        <int64[1] zero = {{0}}>
        {{
            embedded = Gather(words, tokens)
            dense = MatMul(embedded, first)
            rows = Transpose<perm = [1, 0]>(dense)
            whole = Unsqueeze(rows, zero)
            filtered = Conv(whole, filter)
            sums = Add(filtered, shift)
            logits = Tanh(sums)
        }}"""
    )
    for node in model.graph.node:
        node.name = f"/{node.op_type}"
    shapes = {"words": (WORDS, WIDTH), "first": (WIDTH, WIDTH), "filter": (WIDTH, WIDTH, 1), "shift": (WIDTH, 1)}
    for name, shape in shapes.items():
        model.graph.initializer.append(numpy_helper.from_array(np.zeros(shape, np.float32), name))
    return work_of(model, {})


def tensor(name: str, elements: int, dtype: str = "float32") -> LayerTensor:
    return LayerTensor(name, (elements,), dtype)


SIZE = WIDTH * TOKENS
BEFORE = EngineLayer(
    "{ForeignNode[words...(Unnamed Layer* 9) [Shuffle]]}",
    "Myelin",
    inputs=(tensor("tokens", TOKENS, "int32"),),
    outputs=(tensor("Reformatted Output Tensor 0 to it", SIZE, "float16"),),
)
COPY = EngineLayer(
    "Reformatting CopyNode for Output Tensor 0 to it",
    "Reformat",
    inputs=BEFORE.outputs,
    outputs=(tensor("whole", SIZE),),
)
CONV = EngineLayer("/Conv", "CaskConvolution", "", ("/Conv",), (tensor("whole", SIZE),), (tensor("unnamed", SIZE),))
AFTER = EngineLayer(
    "{ForeignNode[(Unnamed Layer* 12) [Constant]...(Unnamed Layer* 14) [Activation]]}",
    "Myelin",
    inputs=(tensor("unnamed", SIZE),),
    outputs=(tensor("logits", SIZE),),
)


def names(found: Sequence[NodeWork]) -> list[str]:
    return [entry.node for entry in found]


def test_a_region_has_the_nodes_between_its_tensors(nodes: list[NodeWork]) -> None:
    found = region_nodes([BEFORE, COPY, CONV, AFTER], nodes)
    assert names(found[BEFORE.node]) == ["/Gather", "/MatMul", "/Transpose", "/Unsqueeze"]
    assert names(found[AFTER.node]) == ["/Add", "/Tanh"], "a layer that names its node ends the region"


def test_two_regions_do_not_share_a_node(nodes: list[NodeWork]) -> None:
    found = region_nodes([BEFORE, COPY, AFTER], nodes)
    assert names(found[AFTER.node]) == ["/Conv", "/Add", "/Tanh"], "what stands before belongs to the other region"


def test_a_region_whose_tensors_the_model_does_not_have_is_left_out(nodes: list[NodeWork]) -> None:
    assert region_nodes([CONV, AFTER], nodes[:3]) == {}
    assert region_nodes([BEFORE], []) == {}


def test_the_work_of_a_region_is_that_of_its_nodes_in_its_own_type(nodes: list[NodeWork]) -> None:
    before, _, after = engine_work([BEFORE, COPY, CONV, AFTER], nodes)
    assert before.op == "Gather + MatMul + Transpose + Unsqueeze"
    assert before.arithmetic == "fp16", "tokens are whole numbers, and say nothing of the products"
    assert before.work.flops == 2 * TOKENS * WEIGHT
    # Of the table, the rows of the tokens; the weights of the product; both in two bytes.
    assert before.work.read_bytes == pytest.approx(4 * TOKENS + 2 * (SIZE + WEIGHT))
    assert before.work.written_bytes == 2 * SIZE
    assert after.holds == ("/Add", "/Tanh")
