"""Fuse a model by one kernel's name, and compare it with the plain one; or see that it is left alone."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.runtimes.ort import runner


def fused_alike(model: onnx.ModelProto, kernel: str, x: np.ndarray) -> list[str]:
    """Check that the fused model computes the same from ``x``, and return the operators that it has."""
    fused = fuse(model, [kernel]).model
    (name,) = (value.name for value in model.graph.input)
    (seen,), (wanted,) = (runner(each)({name: x}) for each in (fused, model))
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)
    assert all((node.domain == DOMAIN) == (node.op_type == kernel) for node in fused.graph.node)
    return [node.op_type for node in fused.graph.node]


def check_left_alone(model: onnx.ModelProto, kernel: str) -> None:
    """Check that no kernel takes any node, and that the one asked for by name is refused."""
    before = [node.op_type for node in model.graph.node]
    assert [node.op_type for node in fuse(model, "all").model.graph.node] == before
    with pytest.raises(LenetTrtError, match="the network has no place for it"):
        fuse(model, [kernel])
