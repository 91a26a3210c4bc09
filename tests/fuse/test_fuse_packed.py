"""A kernel that rearranges its weights: the fused file has them packed, and its function unpacks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.onnx_function import unpacked
from lenet_trt.fuse.stage import Fused, fuse
from lenet_trt.kernel import Kernel, Packing, Tensor, registry
from lenet_trt.kernel.examples import bounds, plain_inputs
from lenet_trt.kernel.pattern import DOMAIN
from plain_runtime import run_only

RANDOM = np.random.default_rng(0)
Weights = Mapping[str, np.ndarray]


def transposed(weights: Weights) -> dict[str, np.ndarray]:
    return {"packed": np.ascontiguousarray(weights["w"].T), "bias": weights["bias"]}


def back(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    assert all(len(shapes[name]) == rank for name, rank in (("w", 2), ("bias", 1)))
    return {"w": op.Transpose(weights["packed"], perm=[1, 0]), "bias": weights["bias"]}


def dense(pack: Callable[[Weights], dict[str, np.ndarray]] = transposed, unpack: Callable[..., Any] = back) -> Kernel:
    """``dense_bias_relu`` with its matrix stored the other way round."""
    kernel = registry.kernel("dense_bias_relu")
    x, w, bias = kernel.inputs
    packed = Tensor("packed", tuple(reversed(w.shape)), w.dtype, "w, transposed", weight=True)
    return replace(kernel, inputs=(x, packed, bias), packing=Packing((w, bias), pack, unpack))


def two_layers(first: int = 4, second: int = 3, opset: int = 17) -> onnx.ModelProto:
    tensors = {
        "w1": RANDOM.normal(size=(first, 5)),
        "b1": RANDOM.normal(size=first),
        "w2": RANDOM.normal(size=(second, first)),
        "b2": RANDOM.normal(size=second),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], name="first", transB=1),
        helper.make_node("Relu", ["h"], ["a"], name="relu"),
        helper.make_node("Gemm", ["a", "w2", "b2"], ["y"], name="second", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", second])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def computed(model: onnx.ModelProto) -> np.ndarray:
    (result,) = run_only(model, x=np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32))
    return result


def used(fused: Fused) -> list[str]:
    return [node.op_type for node in fused.model.graph.node if node.domain == DOMAIN]


@pytest.mark.parametrize("opset", [7, 11, 17, 23])
def test_packed_weights_compute_the_same(opset: int) -> None:
    model = two_layers(opset=opset)
    fused = fuse(model, [dense()])
    assert used(fused) == ["dense_bias_relu"] * 2
    onnx.checker.check_model(fused.model, full_check=True)
    np.testing.assert_allclose(computed(fused.model), computed(model), rtol=0, atol=2e-6)
    stored = {tensor.name: tuple(tensor.dims) for tensor in fused.model.graph.initializer}
    plugins = [node for node in fused.model.graph.node if node.domain == DOMAIN]
    assert [stored[node.input[1]] for node in plugins] == [(5, 4), (4, 3)]
    assert "w1" not in stored


def test_weights_that_do_not_come_back_are_refused() -> None:
    def altered(op: Any, weights: Mapping[str, str], shapes: Any) -> dict[str, str]:
        matrix = op.Transpose(weights["packed"], perm=[1, 0])
        return {"w": op.Add(matrix, op.constant(np.array(1e-5, np.float32))), "bias": weights["bias"]}

    with pytest.raises(LenetTrtError, match="unpack does not give back the weight w"):
        fuse(two_layers(), [dense(unpack=altered)])

    def as_stored(op: Any, weights: Mapping[str, str], shapes: Any) -> dict[str, str]:
        return {"w": weights["packed"], "bias": weights["bias"]}

    with pytest.raises(LenetTrtError, match="unpack does not give back the weight w"):
        fuse(two_layers(), [dense(unpack=as_stored)])


def test_weights_may_be_stored_as_two_halves() -> None:
    """Two fp16 numbers hold a float to 2e-7 of the largest, which is not held against the declaration."""

    def rounded(weights: Weights) -> dict[str, np.ndarray]:
        high = weights["w"].astype(np.float16).astype(np.float32)
        low = (weights["w"] - high).astype(np.float16).astype(np.float32)
        return {"packed": np.ascontiguousarray((high + low).T), "bias": weights["bias"]}

    assert used(fuse(two_layers(), [dense(pack=rounded)])) == ["dense_bias_relu"] * 2


def test_places_that_need_different_functions_do_not_share_one() -> None:
    """Where the nodes that unpack depend on the shape, places of another shape are left, with the reason."""

    def by_shape(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
        matrix = op.Transpose(weights["packed"], perm=[1, 0])
        return {"w": op.Reshape(matrix, op.ints(*shapes["w"])), "bias": weights["bias"]}

    model = two_layers(first=4, second=3)
    del model.graph.node[1]  # so that both have the same attributes
    model.graph.node[1].input[0] = "h"
    fused = fuse(model, [dense(unpack=by_shape)])
    assert used(fused) == ["dense_bias_relu"]
    assert ["they share one function" in refusal.reason for refusal in fused.refusals] == [True]
    np.testing.assert_allclose(computed(fused.model), computed(model), rtol=0, atol=2e-6)


def test_a_function_of_an_earlier_run_is_not_overwritten() -> None:
    model = two_layers()
    once = fuse(model, [replace(dense(), version="1")])
    assert len(once.replacements) == 2
    rest = two_layers()
    rest.functions.extend(once.model.functions)
    rest.opset_import.add(domain=DOMAIN, version=1)
    assert used(fuse(rest, [dense()])) == ["dense_bias_relu"] * 2  # the same function
    with pytest.raises(LenetTrtError, match="another body for it from an earlier run: fuse the original file"):
        fuse(rest, "dense_bias_relu")


@pytest.mark.parametrize("opset", [11, 13, 23])
@pytest.mark.parametrize("name", [name for name, kernel in registry.kernels().items() if kernel.packing is not None])
def test_every_kernel_unpacks_in_every_opset(name: str, opset: int) -> None:
    """What undoes a packing is ONNX of that opset, and gives the weights back."""
    kernel = registry.kernel(name)
    assert kernel.packing is not None
    bound = next(bounds(kernel))
    drawn = plain_inputs(bound, np.random.default_rng(0))
    by_name = {tensor.name: array for tensor, array in zip(kernel.plain_inputs, drawn, strict=True)}
    weights = {tensor.name: by_name[tensor.name] for tensor in kernel.plain_inputs if tensor.weight}
    nodes, names = unpacked(kernel, {key: array.shape for key, array in weights.items()}, opset)
    given = {**{key: array for key, array in by_name.items() if key not in weights}, **kernel.packing.pack(weights)}
    ports = [
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype), array.shape)
        for key, array in given.items()
    ]
    graph = helper.make_graph(nodes, "unpack", ports, [onnx.ValueInfoProto(name=each) for each in names.values()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=6)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    for (key, _), seen in zip(names.items(), ReferenceEvaluator(model).run(None, given), strict=True):
        np.testing.assert_allclose(seen.astype(np.float64), weights[key].astype(np.float64), rtol=0, atol=1e-5)
