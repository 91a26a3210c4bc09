"""The MatMul and Conv cases against NumPy, at odd sizes, and the options that make no sense."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from lenet_trt.errors import UsageError
from lenet_trt.export import ConvCase, MatMulCase, conv_onnx, matmul_onnx
from lenet_trt.export.cases import conv_weights


def shape_of(path: Path, name: str) -> list[int | str]:
    graph = onnx.load(path).graph
    (value,) = (value for value in (*graph.input, *graph.output) if value.name == name)
    return [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]


def run(path: Path, **inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def conv_reference(case: ConvCase, images: NDArray[np.float32]) -> NDArray[np.float64]:
    weights = {name: value.astype(np.float64) for name, value in conv_weights(case).items()}
    windows = sliding_window_view(images[:, 0].astype(np.float64), (case.kernel, case.kernel), axis=(1, 2))
    features = np.einsum("nyxij,fij->nfyx", windows, weights["conv.weight"][:, 0])
    features += weights["conv.bias"][:, None, None]
    if case.activation != "none":
        features = np.tanh(features) if case.activation == "tanh" else np.maximum(features, 0)
    if case.pool:
        n, filters, height, width = features.shape
        even = features[:, :, : height // 2 * 2, : width // 2 * 2]
        features = even.reshape(n, filters, height // 2, 2, width // 2, 2).max(axis=(3, 5))
    return features


def test_default_sizes_are_the_write_ups(tmp_path: Path) -> None:
    matmul_onnx(tmp_path / "m.onnx")
    assert shape_of(tmp_path / "m.onnx", "a") == [600, 200, 8, 1, 64]
    assert shape_of(tmp_path / "m.onnx", "b") == [600, 1, 8, 64, 1]
    assert shape_of(tmp_path / "m.onnx", "c") == [600, 200, 8, 1, 1]
    conv_onnx(tmp_path / "c.onnx")
    assert shape_of(tmp_path / "c.onnx", "images") == [10_000, 1, 28, 28]
    assert shape_of(tmp_path / "c.onnx", "features") == [10_000, 50, 24, 24]
    assert max(path.stat().st_size for path in tmp_path.iterdir()) < 10_000


@pytest.mark.parametrize("dims", [(1, 1, 1, 1, 1), (3, 4, 5, 1, 64), (2, 7, 3, 5, 9)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_matmul(tmp_path: Path, dims: tuple[int, int, int, int, int], dynamic: bool) -> None:
    path = tmp_path / "m.onnx"
    matmul_onnx(path, MatMulCase(dims, dynamic))
    assert shape_of(path, "a")[0] == shape_of(path, "b")[0] == ("n" if dynamic else dims[0])
    random = np.random.default_rng(3)
    d0, d1, d2, d3, d4 = (dims[0] + dynamic, *dims[1:])
    a = random.standard_normal((d0, d1, d2, d3, d4), dtype=np.float32)
    b = random.standard_normal((d0, 1, d2, d4, 1), dtype=np.float32)
    c = run(path, a=a, b=b)
    assert c.shape == (d0, d1, d2, d3, 1)
    np.testing.assert_allclose(c, np.matmul(a.astype(np.float64), b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "case",
    [
        ConvCase(batch=1),
        ConvCase(batch=None, activation="relu"),
        ConvCase(batch=None, activation="tanh", pool=True),
        ConvCase(batch=3, filters=1, kernel=1, activation="relu", pool=True),
        ConvCase(batch=2, filters=7, kernel=28, seed=5),
        ConvCase(batch=2, filters=3, kernel=4, pool=True),  # an odd width before the pool
    ],
)
def test_conv(tmp_path: Path, case: ConvCase) -> None:
    path = tmp_path / "c.onnx"
    conv_onnx(path, case)
    images = np.random.default_rng(4).random((case.batch or 5, 1, 28, 28), dtype=np.float32)
    features = run(path, images=images)
    wanted = conv_reference(case, images)
    assert shape_of(path, "features") == [case.batch or "n", *wanted.shape[1:]]
    np.testing.assert_allclose(features, wanted, rtol=1e-5, atol=1e-5)


def test_bytes_depend_on_the_case_alone(tmp_path: Path) -> None:
    for name, case in (("a", ConvCase()), ("b", ConvCase()), ("c", ConvCase(seed=1))):
        conv_onnx(tmp_path / name, case)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (ConvCase(batch=0), "batch is 0; wanted at least 1"),
        (ConvCase(filters=0), "filters are 0; wanted 1 to 65536"),
        (ConvCase(kernel=29), "kernel is 29; wanted 1 to 28"),
        (ConvCase(kernel=28, pool=True), "kernel is 28; wanted 1 to 27"),
        (ConvCase(activation="gelu"), "'gelu' is not known; known are none, relu, tanh"),
        (ConvCase(seed=-1), "seed is -1"),
        (ConvCase(batch=10**6, filters=1000), "wanted at most 2147483647"),
    ],
)
def test_conv_refuses(tmp_path: Path, case: ConvCase, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        conv_onnx(tmp_path / "c.onnx", case)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dims", [(0, 1, 1, 1, 1), (1, 1, 1, 1), (600, 200, 80, 10, 64)])
def test_matmul_refuses(tmp_path: Path, dims: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="wanted"):
        matmul_onnx(tmp_path / "m.onnx", MatMulCase(dims))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
