"""How a loaded network is called from Python: scalars, and inputs that are not passed one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.load import load
from lenet_trt.runtimes.network import Network

X = np.array([1, -2, 3], np.float32)


@pytest.fixture
def scaled(tmp_path: Path) -> Network:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x, float c) => (float[3] y) { y = Mul(x, c) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "scaled.onnx")
    return load(tmp_path / "scaled.onnx", runtime="ort-cpu")


@pytest.mark.parametrize("factor", [np.float32(2), np.array(2, np.float32)])
def test_a_scalar_stays_one(scaled: Network, factor: Any) -> None:
    assert np.array_equal(scaled(X, factor), 2 * X)


def test_other_arrays_are_laid_out_in_order(scaled: Network) -> None:
    assert np.array_equal(scaled(np.repeat(X, 2)[::2], np.float32(2)), 2 * X)


@pytest.mark.parametrize(
    ("batch", "seen"), [(([X, np.float32(2)],), "1"), (({"x": X, "c": np.float32(2)},), "a dict"), ((), "0")]
)
def test_inputs_that_are_not_passed_one_by_one(scaled: Network, batch: tuple[Any, ...], seen: str) -> None:
    told = rf"takes 2 inputs \(x, c\), not {seen}: pass them in this order, as network\(x, c\)"
    with pytest.raises(LenetTrtError, match=told):
        scaled(*batch)


def test_a_dict_for_a_network_of_one_input(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Abs(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "one.onnx")
    with pytest.raises(LenetTrtError, match=r"takes 1 inputs \(x\), not a dict: .* as network\(x\)"):
        load(tmp_path / "one.onnx", runtime="ort-cpu")({"x": X})
