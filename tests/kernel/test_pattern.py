"""Patterns: found in what they describe, refused when they cannot be patterns, undone packing checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import onnx
import pytest

from lenet_trt.check.pattern_check import pattern_problems, small_bounds
from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.place_choice import chosen
from lenet_trt.fuse.places import find_places
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.examples import bounds
from lenet_trt.kernel.pattern import DOMAIN, Pattern
from lenet_trt.kernel.tensors import Packing
from networks import LENET5, Network, images_for, model_of
from plain_runtime import run, run_only

NETWORK = Network(convolutions=((2, "Relu", True),), denses=((7, True), (4, False)))
MOST_FLOPS = 10**8  # `lenet-trt check` has all calls


def smallest_first(name: str) -> tuple[list[Bound], list[Bound]]:
    """The smallest call of each pattern and types, and all others that take a CPU little time."""
    calls: dict[object, list[Bound]] = defaultdict(list)
    for bound in small_bounds(bounds(registry.kernel(name))):
        calls[bound.types.name, bound.specialized.attributes].append(bound)
    ordered = [sorted(alike, key=lambda bound: sum(map(prod, bound.input_shapes))) for alike in calls.values()]
    return [alike[0] for alike in ordered], [
        bound for alike in ordered for bound in alike[1:] if bound.flops <= MOST_FLOPS
    ]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if n in ("lenet5", "lenet5_int8") else [])
        for n in sorted(registry.kernels())
    ],
)
def test_every_pattern_is_found_and_computes_the_reference(name: str) -> None:
    calls, _ = smallest_first(name)
    assert calls
    assert list(pattern_problems(calls)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(registry.kernels()))
def test_every_pattern_is_found_in_larger_calls_too(name: str) -> None:
    _, calls = smallest_first(name)
    assert list(pattern_problems(calls)) == []


def test_the_check_tells_a_pattern_that_computes_something_else() -> None:
    kernel = registry.kernel("dense_bias_relu")
    without_relu = Pattern(lambda op, x, w, bias: op.Gemm(x, w, bias, transB=1), {"relu": 1})
    wrong = replace(kernel, patterns=(without_relu,))
    assert any("differs from the reference" in problem for problem in pattern_problems(small_bounds(bounds(wrong))))


def test_the_check_tells_an_operator_that_onnx_has_not() -> None:
    kernel = registry.kernel("maxpool2")
    wrong = replace(kernel, patterns=(Pattern(lambda op, x: op.MaxPol(x, kernel_shape=[2, 2])),))
    problems = list(pattern_problems(small_bounds(bounds(wrong))))
    assert problems
    assert all(
        "no pattern is valid ONNX for the types" in problem and problem.endswith("no operator MaxPol")
        for problem in problems
    )


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (lambda op, x, w: op.Gemm(x, w), "bias"),
        (lambda op, x, w, bias: 7, "cannot be used"),
        (lambda op, x, w, bias: x, "it has no node"),
        (lambda op, x, w, bias: op.Relu(x), "does not use its parameter w, bias"),
        (lambda op, x, w, bias, extra: op.Gemm(x, w, bias), "extra"),
    ],
)
def test_what_is_no_pattern_is_refused_by_name(graph: Callable[..., Any], message: str) -> None:
    kernel = replace(registry.kernel("dense_bias_relu"), patterns=(Pattern(graph),))
    with pytest.raises(LenetTrtError, match=f"dense_bias_relu.*{message}"):
        fuse(model_of(NETWORK), [kernel])


def test_of_two_kernels_for_the_same_nodes_the_preferred_one_is_taken() -> None:
    pool = registry.kernel("maxpool2")
    (pattern,) = pool.patterns
    liked = replace(pool, name="another_maxpool2", patterns=(replace(pattern, preference=1),))
    model = model_of(Network(convolutions=((2, "", True),), denses=()))
    for order in ([pool, liked], [liked, pool]):
        places, _ = find_places(model, order)
        assert {place.kernel.name for place in places} == {"maxpool2", "another_maxpool2"}
        assert [place.kernel.name for place in chosen(places)] == ["another_maxpool2"]
    with pytest.raises(LenetTrtError, match=r"maxpool2: .*another_maxpool2, asked for as well, takes its nodes"):
        fuse(model, [pool, liked])


def transposed(undo: Callable[..., dict[str, Any]]) -> Kernel:
    """The dense kernel with weights stored the other way round, bias doubled."""
    kernel = registry.kernel("dense_bias_relu")
    (w,) = (tensor for tensor in kernel.inputs if tensor.name == "w")
    inputs = tuple(replace(w, shape=w.shape[::-1]) if tensor is w else tensor for tensor in kernel.inputs)

    def pack(plain: Any) -> dict[str, np.ndarray]:
        return {"w": np.ascontiguousarray(plain["w"].T), "bias": plain["bias"] * 2}

    packing = Packing(plain=tuple(t for t in kernel.inputs if t.weight), pack=pack, unpack=undo)
    return replace(kernel, inputs=inputs, packing=packing)


def halved(op: Any, weights: dict[str, str], shapes: dict[str, Any]) -> dict[str, str]:
    half = op.constant(np.array(0.5, dtype=np.float32))
    return {"w": op.Transpose(weights["w"], perm=[1, 0]), "bias": op.Mul(weights["bias"], half)}


@pytest.mark.parametrize("network", [NETWORK, LENET5])
def test_packed_weights_are_unpacked_by_the_function(network: Network) -> None:
    model = model_of(network)
    fused = fuse(model, [transposed(halved)]).model
    used = [node for node in fused.graph.node if node.domain == DOMAIN]
    assert len(used) == len(network.denses)
    images = images_for(model, 3)
    np.testing.assert_allclose(run_only(fused, x=images)[0], run(model, x=images)[0], atol=1e-5)
    onnx.checker.check_model(fused, full_check=True)


def test_packing_that_cannot_be_undone_is_found_when_fusing() -> None:
    def forgets_to_halve(op: Any, weights: dict[str, str], shapes: dict[str, Any]) -> dict[str, str]:
        return {"w": op.Transpose(weights["w"], perm=[1, 0]), "bias": op.Identity(weights["bias"])}

    with pytest.raises(LenetTrtError, match="does not give back the weight bias"):
        fuse(model_of(NETWORK), [transposed(forgets_to_halve)])
