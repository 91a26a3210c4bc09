"""Layers of which shape inference does not know some sizes: the fused file computes the same, or says why not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run

# The sizes of ``seen`` are those of ``like``, which shape inference cannot follow: as behind MobileViT's attention.
VIEWED = "seen = Reshape(x, like)"
NORM = "LayerNormalization<axis = -1>({}, scale, bias)"


def model_of(body: str, inputs: str, outputs: str) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : 17]> network ({inputs}) => ({outputs}) {{ {body} }}'
    model = parser.parse_model(text)
    for name, value in (("scale", 2.0), ("bias", 1.0)):
        model.graph.initializer.append(numpy_helper.from_array(np.full(8, value, np.float32), name))
    onnx.checker.check_model(model)
    return model


@pytest.mark.parametrize(
    ("body", "outputs", "kernel"),
    [
        (f"{VIEWED} y = {NORM.format('seen')}", "float[a, b, c] y", "layer_norm"),
        (
            f"{VIEWED} s = Add(seen, seen) y = {NORM.format('s')}",
            "float[a, b, c] y, float[a, b, c] s",
            "add_layer_norm",
        ),
    ],
)
@pytest.mark.parametrize("rank", [2, 3])
def test_the_length_of_a_norm_is_that_of_its_scale(body: str, outputs: str, kernel: str, rank: int) -> None:
    given = "a, b, c" if rank == 3 else "a, c"
    model = model_of(body, f"float[n, 8] x, int64[{rank}] like", outputs.replace("a, b, c", given))
    fused = fuse(model, "all").model
    used = [node.op_type for node in fused.graph.node if node.domain == DOMAIN]
    like = np.array([2, 3, 8][3 - rank :], np.int64)
    feeds = {"x": np.random.default_rng(0).normal(size=(like[:-1].prod(), 8)).astype(np.float32), "like": like}
    for got, wanted in zip(run(fused, **feeds), run(model, **feeds), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-5)
    assert used == [kernel]


def test_a_kernel_that_is_asked_for_by_name_says_which_sizes_are_open() -> None:
    model = model_of("y = Softmax<axis = -1>(x)", "float[2, n, m] x", "float[2, n, m] y")
    with pytest.raises(LenetTrtError, match=r"more than one size of \[2, -1, -1\] is not known: give open axes sizes"):
        fuse(model, ["softmax"])
