"""Kernels compiled by the NVRTC of CUDA 12, beside that of CUDA 13, for drivers that load nothing newer."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from lenet_trt.cli import main
from lenet_trt.cuda import nvrtc
from lenet_trt.cuda.compile import architectures, nvrtc_version
from lenet_trt.cuda.gpus import Gpu, Gpus
from lenet_trt.tensorrt.library import targets

HAS_12 = any(path.name == "libnvrtc.so.12" for path in nvrtc._candidates())
needs_12 = pytest.mark.skipif(not HAS_12, reason="NVRTC 12 is not here: pip install 'lenet-trt[nvrtc12]'")


@pytest.fixture
def pooling(tmp_path: Path) -> Path:
    """A model that the small kernel maxpool2 computes."""
    make = helper.make_tensor_value_info
    node = helper.make_node("MaxPool", ["x"], ["y"], name="pool", kernel_shape=[2, 2], strides=[2, 2])
    shapes = [make(name, TensorProto.FLOAT, ["n", 3, size, size]) for name, size in (("x", 8), ("y", 4))]
    graph = helper.make_graph([node], "g", shapes[:1], shapes[1:])
    path = tmp_path / "pool.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def embed(model: Path, *words: str) -> bytes:
    """The data of the one plugin node."""
    output = model.with_name("out.onnx")
    command = ["fuse", str(model), "-o", str(output), "--plugins", "maxpool2", "--embed", "--sm", "8.6", "--overwrite"]
    assert main([*command, *words]) == 0
    (node,) = onnx.load(output.with_suffix(".trt.onnx")).graph.node
    return next(attribute.t.raw_data for attribute in node.attribute if attribute.name == "data")


@needs_12
def test_the_data_says_that_a_cuda_12_driver_loads_it(pooling: Path) -> None:
    usual, older = embed(pooling), embed(pooling, "--nvrtc", "12")
    newest = f"NVRTC {nvrtc_version()}"
    with nvrtc.compiling_by("12"):
        version = nvrtc_version()
    assert version.startswith("12.")
    assert newest == f"NVRTC {nvrtc_version()}", "the usual one is back"
    major, minor = map(int, version.split("."))
    number = (1000 * major + 10 * minor).to_bytes(4, "little")
    assert number in older
    assert number not in usual
    assert (13000).to_bytes(4, "little") in usual
    assert b"\x7fELF" in older
    assert embed(pooling) == usual


@needs_12
def test_the_targets_are_those_of_the_compiler_that_was_asked_for(pooling: Path) -> None:
    usual = architectures()
    with nvrtc.compiling_by("12"):
        assert architectures() != usual
        assert 86 in architectures()
    assert architectures() == usual


@needs_12
@pytest.mark.parametrize("driver", ["12.4", "13.0"])
def test_a_gpu_here_with_an_older_driver_gets_kernels_that_it_loads(pooling: Path, monkeypatch, driver: str) -> None:
    gpu = Gpu(0, "a GPU", 86, 8 << 30)
    monkeypatch.setattr(targets, "first_gpu", lambda: gpu)
    monkeypatch.setattr(targets, "gpus", lambda: Gpus((gpu,), driver, None))
    assert ((13000).to_bytes(4, "little") in embed(pooling)) is (driver == "13.0")


def test_an_nvrtc_that_is_not_here_says_what_to_install(pooling: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(()))
    assert main(["fuse", str(pooling), "--plugins", "maxpool2", "--embed", "--sm", "8.6", "--nvrtc", "12"]) == 1
    said = capsys.readouterr().err
    assert "NVRTC 12 is not here" in said
    assert "pip install 'lenet-trt[nvrtc12]'" in said


def test_nvrtc_without_embed_is_bad_usage(pooling: Path, capsys) -> None:
    assert main(["fuse", str(pooling), "--nvrtc", "12"]) == 2
    assert "add --embed" in capsys.readouterr().err
