"""The TensorRT plugin's run-time path on a GPU: shapes, then launches on a stream of its own, against the reference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tensorrt_stubs
from declared_kernels import DECLARED, declared
from lenet_trt.kernel import registry


@pytest.mark.skipif(tensorrt_stubs.missing() is not None, reason=str(tensorrt_stubs.missing()))
def test_what_the_plugin_enqueues_computes_the_reference() -> None:
    script = Path(__file__).with_name("python_route_on_gpu.py")
    worst = json.loads(tensorrt_stubs.run_with_bindings(script).splitlines()[-1])
    assert set(worst) == {*registry.kernels(), *DECLARED}
    for name, by_types in worst.items():
        assert set(by_types) == {types.name for types in declared(name).types}
        assert all(error <= 1.0 for error in by_types.values()), (name, by_types)
