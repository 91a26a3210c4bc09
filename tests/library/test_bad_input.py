"""Models for TensorRT whose plugin nodes are wrong, given to a real parser and builder: refused with the node's name.

The refusals come from TensorRT-RTX, the one TensorRT that reads models without a GPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from lenet_trt.cli import main
from lenet_trt.kernel import registry
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.tensorrt.library.embed import embedded
from library_probes import HERE, one_node

Change = Callable[[onnx.ModelProto], object]
VERSION_AT = 8  # encode.py owns the format


def data_tensor(model: onnx.ModelProto) -> TensorProto:
    return next(attribute.t for attribute in model.graph.node[0].attribute if attribute.name == "data")


def with_data(change: Callable[[bytes], bytes]) -> Change:
    def changed(model: onnx.ModelProto) -> None:
        tensor = data_tensor(model)
        tensor.raw_data = change(tensor.raw_data)
        tensor.dims[0] = len(tensor.raw_data)

    return changed


def with_input(change: Callable[[onnx.TypeProto.Tensor], object]) -> Change:
    return lambda model: change(model.graph.input[0].type.tensor_type)


# What is done to a good model, how far TensorRT gets with it, and what is said.
CASES: dict[str, tuple[Change, str, str]] = {
    "nothing": (lambda model: None, "engine", ""),
    "data that is cut": (with_data(lambda data: data[:-1]), "model", "bytes instead of"),
    "data of a newer format": (
        with_data(lambda data: data[:VERSION_AT] + b"\2" + data[VERSION_AT + 1 :]),
        "model",
        "has version 2; this library reads version 1: use a newer plugin library",
    ),
    "a damaged image": (
        with_data(lambda data: data[:-1] + bytes([data[-1] ^ 1])),
        "model",
        "an image for sm_86 is damaged: its hash is another one; copy the file again, or make it again",
    ),
    "other data": (with_data(lambda data: b"something else"), "model", "it begins with other bytes; copy the file"),
    "no data": (lambda model: model.graph.node[0].attribute.pop(), "model", "make the model with lenet-trt fuse --emb"),
    "another size": (
        with_input(lambda tensor: setattr(tensor.shape.dim[2], "dim_value", 27)),
        "model",
        "x has shape [3, 6, 27, 12]; conv5x5_bias wants [n, c, h, w]: 12 there, not 27",
    ),
    "another rank": (
        with_input(lambda tensor: tensor.shape.dim.pop()),
        "model",
        "x has shape [3, 6, 12]; conv5x5_bias wants [n, c, h, w]: it has 3 dimensions",
    ),
    "another type": (
        with_input(lambda tensor: setattr(tensor, "elem_type", TensorProto.FLOAT16)),
        "network",
        "x has element type float16; conv5x5_bias (fp32) wants float32: convert the model before it is fused",
    ),
    "an input less": (lambda model: model.graph.node[0].input.pop(), "model", "the node has 2 inputs instead of 3"),
    "nothing again": (lambda model: None, "engine", ""),
}


@pytest.fixture(scope="module")
def good() -> onnx.ModelProto:
    return embedded(one_node(registry.kernel("conv5x5_bias"), "fp32", open_axes=False), ["sm_86"])


@pytest.fixture(scope="module")
def answers(library, good: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """How far each case gets, and what the plugin library says of it."""
    folder = tmp_path_factory.mktemp("bad")
    files = []
    for number, (change, _, _) in enumerate(CASES.values()):
        model = onnx.ModelProto()
        model.CopyFrom(good)
        change(model)
        files.append(folder / f"{number}.onnx")
        files[-1].write_bytes(model.SerializeToString())
    script = HERE / "rtx_refusals.py"
    done = subprocess.run([sys.executable, script, library("10.16"), *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reached = [json.loads(line)["reached"] for line in done.stdout.splitlines() if line.startswith("{")]
    said = done.stderr.split(f"{SEPARATOR}\n")[1:]
    return dict(zip(CASES, zip(reached, said, strict=True), strict=True))


SEPARATOR = "-- next model"  # as rtx_refusals.py writes it


@pytest.mark.parametrize("case", CASES)
def test_a_model_whose_plugin_node_is_wrong_is_refused_with_the_nodes_name(answers, case: str) -> None:
    _, wanted, why = CASES[case]
    reached, said = answers[case]
    assert reached == wanted
    assert why in said
    assert ("plugin node node" in said) is bool(why), said


@pytest.mark.slow
def test_a_library_from_headers_of_tensorrt_11_says_in_tensorrt_rtx_what_is_wrong(
    library, good: onnx.ModelProto, tmp_path: Path
) -> None:
    """TensorRT-RTX hands over its log in the way of TensorRT 10."""
    model = onnx.ModelProto()
    model.CopyFrom(good)
    model.graph.node[0].input.pop()
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    command = [sys.executable, HERE / "rtx_refusals.py", library("11.1"), tmp_path / "m.onnx"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "plugin node node (conv5x5_bias (fp32), getOutputShapes): the node has 2 inputs instead of 3" in done.stderr


def test_two_plugin_libraries_that_both_have_the_plugin_are_refused(library, tmp_path: Path) -> None:
    """One comes in behind our back, as when a program loads its own copy."""
    other = tmp_path / "copy.so"
    other.write_bytes(library("10.16").read_bytes() + b"\0")
    program = (
        "import sys; from pathlib import Path; from lenet_trt.tensorrt.flavors import select\n"
        "from lenet_trt.tensorrt.routes.library import load_library\n"
        "rtx = select('rtx')\n"
        "assert rtx.trt.get_plugin_registry().load_library(sys.argv[1]) is not None\n"
        "load_library(rtx, Path(sys.argv[2]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(library("10.16")), str(other)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert f"does not load the plugin library {other}: another library has registered" in done.stderr
    assert f"{DOMAIN}::Kernel already" in done.stderr


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (with_input(lambda tensor: setattr(tensor.shape.dim[1], "dim_value", 7)), "c is 6 here and 7 in x"),
        (with_input(lambda tensor: setattr(tensor, "elem_type", TensorProto.FLOAT16)), "float16"),
        (lambda model: model.graph.node[0].input.pop(), "inputs"),
    ],
)
def test_fuse_embeds_no_kernel_for_a_node_that_does_not_fit_it(tmp_path: Path, capsys, change: Change, why) -> None:
    model = one_node(registry.kernel("conv5x5_bias"), "fp32", open_axes=False)
    change(model)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    command = ["fuse", str(path), "-o", str(tmp_path / "out.onnx"), "--plugins", "none", "--embed", "--sm", "8.6"]
    assert main(command) == 1
    assert why in capsys.readouterr().err
    assert not (tmp_path / "out.trt.onnx").exists()
