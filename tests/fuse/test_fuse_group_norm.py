"""Group norms are found in the ways that exporters and ONNX write them, and norms of instances as such."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import convert
from plain_runtime import run
from torch_export import exported_module

NAME, HALF, ADDS, TOKENS = "group_norm", "group_norm_half", "add_group_norm_half", "group_norm_half_tokens"
SHAPE = (2, 6, 4, 5)
AS_TORCH = """
    groups = Reshape(x, inside)
    instances = InstanceNormalization<epsilon = 1e-3>(groups, ones, zeros)
    back = Reshape(instances, shape)
    product = Mul(back, scale)
    y = Add(product, bias)
"""


def model_of(
    body: str = AS_TORCH,
    *,
    opset: int = 17,
    inside: str = "{0, 3, -1}",
    ones: str = "{1, 1, 1}",
    weights: tuple[int, ...] = (6, 1, 1),
    outputs: str = "float[2, 6, 4, 5] y",
) -> onnx.ModelProto:
    """Return y = GroupNormalization(x) of an x [2, 6, 4, 5] with three groups, in the nodes of ``body``."""
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": {opset}]>
        g (float[2, 6, 4, 5] x) => ({outputs})
        <int64[3] inside = {inside}, int64[4] shape = {{2, 6, 4, 5}}, float[3] ones = {ones},
         float[3] zeros = {{0, 0, 0}}> {{
            {body}
        }}
    """)
    rng = np.random.default_rng(1)
    for name in ("scale", "bias"):
        value = rng.normal(size=weights).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model


def attributes_of(model: onnx.ModelProto) -> dict[str, Any]:
    """Return the plugin's attributes; the fused model computes what the plain one does."""
    fused = fuse(model, [NAME]).model
    (name,) = plugin_nodes(fused)
    x = np.random.default_rng(2).normal(3.0, 2.0, SHAPE).astype(np.float32)
    for seen, wanted in zip(run(fused, x), run(model, x), strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)
    node = next(node for node in fused.graph.node if node.name == name)
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


@pytest.mark.parametrize("weights", [(6, 1, 1), (1, 6, 1, 1)])
def test_the_nodes_of_torchs_exporter_are_one_kernel(weights: tuple[int, ...]) -> None:
    found = attributes_of(model_of(weights=weights))
    assert found["group"] == 3
    assert found["epsilon"] == np.float32(1e-3)


@pytest.mark.parametrize(("opset", "weights"), [(18, (3,)), (21, (6,))])
def test_the_node_of_onnx_is_one_kernel(opset: int, weights: tuple[int, ...]) -> None:
    body = "y = GroupNormalization<num_groups = 3>(x, scale, bias)"
    found = attributes_of(model_of(body, opset=opset, weights=weights))
    assert found["group"] == 3
    assert found["epsilon"] == np.float32(1e-5)


def test_a_norm_of_instances_is_one_of_groups_of_one_channel() -> None:
    body = "y = InstanceNormalization(x, scale, bias)"
    found = attributes_of(model_of(body, weights=(6,)))
    assert found["group"] == 6
    assert found["epsilon"] == np.float32(1e-5)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"ones": "{1, 2, 1}"}, id="instances are scaled"),
        pytest.param({"weights": (4, 5)}, id="weights of pixels"),
        pytest.param({"weights": (1,)}, id="one weight for all"),
        pytest.param({"inside": "{4, 3, -1}"}, id="images are mixed"),
        pytest.param(
            {"body": AS_TORCH + " z = Identity(back)", "outputs": "float[2, 6, 4, 5] y, float[2, 6, 4, 5] z"},
            id="another reader",
        ),
    ],
)
def test_of_what_is_no_group_norm_instances_alone_are_taken(changed: dict[str, Any]) -> None:
    model = model_of(**changed)
    fused = fuse(model, [NAME]).model
    assert {node.op_type for node in fused.graph.node} >= {NAME, "Mul", "Add"}
    x = np.random.default_rng(2).normal(3.0, 2.0, SHAPE).astype(np.float32)
    for seen, wanted in zip(run(fused, x), run(model, x), strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(("name", "precision"), [(NAME, "fp32"), (NAME, "fp16"), (HALF, "fp16")])
def test_a_norm_of_torch_is_one_kernel_with_its_activation(axes: int, name: str, precision: str) -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Norms(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(4, 8)
            nn.init.normal_(self.norm.weight)
            nn.init.normal_(self.norm.bias)

        def forward(self, x: Any) -> Any:
            return torch.relu(nn.functional.silu(self.norm(x)))

    shape = (2, 8, *[6] * axes)
    model = exported_module(Norms(), torch.zeros(shape), 17)
    if precision == "fp16":
        model = convert(model, "fp16")
    fused = fuse(model, [name]).model
    operators = {node.op_type for node in fused.graph.node}
    assert {name, "Relu"} <= operators <= {name, "Relu", "Cast", "Reshape", "Shape"}
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    (seen,), (wanted,) = (run(each, x) for each in (fused, model))
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=2e-5 if precision == "fp32" else 2e-2)


@pytest.mark.parametrize("added_first", [False, True])
def test_what_is_added_to_channels_is_taken_too(added_first: bool) -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.step = nn.Linear(8, 16)
            self.norm = nn.GroupNorm(4, 16)
            self.filters = nn.Conv2d(8, 16, 3)

        def forward(self, x: Any) -> Any:
            y, step = self.filters(x), self.step(x.mean((2, 3)))[:, :, None, None]
            return nn.functional.silu(self.norm(step + y if added_first else y + step))

    shape = (2, 8, 6, 5)
    model = convert(exported_module(Block(), torch.zeros(shape), 17), "fp16")
    fused = fuse(model, [ADDS]).model
    assert list(plugin_nodes(fused).values()) == [ADDS]
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    (seen,), (wanted,) = (run(each, x) for each in (fused, model))
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=2e-2)


def test_a_residual_connection_is_no_number_of_a_channel() -> None:
    body = AS_TORCH.replace("Reshape(x, inside)", "Reshape(sum, inside)")
    model = convert(model_of(f"sum = Add(x, x) {body}"), "fp16")
    with pytest.raises(LenetTrtError, match="which is no number for each channel"):
        fuse(model, [ADDS])


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("way", ["pixels", "flattened", "sequence"])
def test_tokens_behind_a_norm_are_its_results(way: str, opset: int) -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Norm(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(4, 16)
            nn.init.normal_(self.norm.weight)
            nn.init.normal_(self.norm.bias)

        def forward(self, x: Any) -> Any:
            n, channels = x.shape[:2]
            y = self.norm(x)
            if way == "pixels":
                y = y.permute(0, 2, 3, 1).reshape(n, -1, channels)
            elif way == "flattened":
                y = y.flatten(2).transpose(1, 2)
            else:
                y = y.transpose(1, 2)
            return y.exp()

    shape = (2, 16, 30) if way == "sequence" else (2, 16, 6, 5)
    model = convert(exported_module(Norm(), torch.zeros(shape), opset), "fp16")
    fused = fuse(model, [TOKENS]).model
    assert list(plugin_nodes(fused).values()) == [TOKENS]
    assert "Transpose" not in {node.op_type for node in fused.graph.node}
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    (seen,), (wanted,) = (run(each, x) for each in (fused, model))
    assert seen.shape == wanted.shape
    np.testing.assert_allclose(seen, wanted, rtol=2e-2, atol=2e-2)


def test_channels_that_come_elsewhere_are_no_tokens() -> None:
    body = AS_TORCH.replace("y = Add", "sum = Add") + " y = Transpose<perm = [0, 3, 2, 1]>(sum)"
    model = convert(model_of(body, outputs="float[2, 5, 4, 6] y"), "fp16")
    with pytest.raises(LenetTrtError, match="the network has no place for it"):
        fuse(model, [TOKENS])
