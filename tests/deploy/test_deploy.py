"""What ``deploy triton`` writes: read by Triton's published schema, and refused where Triton could not serve it."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from lenet_trt.cli import main
from lenet_trt.deploy.config import ModelConfig, TritonTensor
from lenet_trt.deploy.triton import TritonOptions, deploy
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.export.lenet5 import SHIPPED_INT8
from lenet_trt.files import sha256_file
from lenet_trt.tensorrt.sidecar import FileRecord, Sidecar

ENGINE = struct.pack("<4sI16x4B", b"ftrt", 0, 10, 13, 3, 9) + bytes(range(256))


def read(path: Path) -> Any:
    """A configuration, as Triton reads it."""
    schema = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="pip install 'tritonclient[grpc]'")
    from google.protobuf import text_format

    return text_format.Parse(path.read_text(), schema.ModelConfig())


def tensors(found: Any) -> list[tuple[str, int, list[int]]]:
    return [(each.name, each.data_type, list(each.dims)) for each in found]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, lenet5: Path) -> Path:
    """The header of an engine of full TensorRT, which builds on a GPU alone, and the sidecar that a build writes."""
    folder = tmp_path_factory.mktemp("engine")
    path = folder / "net.engine"
    path.write_bytes(ENGINE)
    profile = {key: [size, 1, 28, 28] for key, size in (("min", 1), ("opt", 8), ("max", 64))}
    sidecar = Sidecar(
        engine=FileRecord.of(path.name, ENGINE),
        onnx=FileRecord.of("net.engine.onnx", lenet5.read_bytes()),
        inputs={
            "flavor": "tensorrt",
            "flavor_version": "10.13.3.9",
            "targets": [],
            "gpu": None,
            "precision": "fp32",
            "options": {"tf32": False},
        },
        origin="a test",
        plugins=[],
        tensors={
            "images": {"io": "input", "dtype": "float32", "shape": ["n", 1, 28, 28], "profile": profile},
            "logits": {"io": "output", "dtype": "float32", "shape": ["n", 10]},
        },
        evaluation={
            **dict.fromkeys(("correct", "correct_before", "total", "difference")),
            "method": "none",
            "problem": "a test",
        },
        made={},
    )
    path.with_suffix(".json").write_text(sidecar.to_json())
    return path


def with_library(engine: Path, folder: Path, route: str) -> Path:
    """The same engine as if its plugin had come by a route, with a library beside it."""
    library = folder / "liblenet_trt_plugins.so"
    library.write_bytes(b"\x7fELF")
    copy = folder / "net.engine"
    copy.write_bytes(ENGINE)
    sidecar = json.loads(engine.with_suffix(".json").read_text())
    entry = {"node": "a", "kernel": "lenet5", "types": "fp32", "replaced": [], "route": route, "source_sha256": "x"}
    sidecar["plugins"] = [entry]
    if route == "library":
        sidecar["library"] = {"name": library.name, "sha256": sha256_file(library), "size_bytes": 4}
    copy.with_suffix(".json").write_text(json.dumps(sidecar))
    return copy


def test_an_engine_is_served_as_it_says(engine: Path, tmp_path: Path) -> None:
    options = TritonOptions(name="digits", gpus=(0, 2), instances=2, queue_delay_us=50, warm_up=True)
    done = deploy(engine, tmp_path / "models", options=options)
    assert (tmp_path / "models/digits/1/model.plan").read_bytes() == ENGINE
    found = read(tmp_path / "models/digits/config.pbtxt")
    assert (found.name, found.backend, found.max_batch_size) == ("digits", "tensorrt", 64)
    assert tensors(found.input) == [("images", 11, [1, 28, 28])]
    assert tensors(found.output) == [("logits", 11, [10])]
    assert found.dynamic_batching.max_queue_delay_microseconds == 50
    (group,) = found.instance_group
    assert (group.count, group.kind, list(group.gpus)) == (2, group.KIND_GPU, [0, 2])
    assert [warm.batch_size for warm in found.model_warmup] == [1, 64]
    assert found.model_warmup[0].inputs["images"].zero_data
    assert list(found.model_warmup[0].inputs["images"].dims) == [1, 28, 28]
    assert done.command == f"tritonserver --model-repository={tmp_path / 'models'}"
    assert done.tensorrt == "10.13.3.9"


def test_the_command_for_a_container_asks_for_gpus_where_the_model_has_some(lenet5: Path, tmp_path: Path) -> None:
    for gpus, wanted in ((None, False), ((), True), ((1,), True)):
        done = deploy(lenet5, tmp_path / str(gpus), "python", options=TritonOptions(name="net", gpus=gpus))
        assert ("--gpus all" in done.in_container) == wanted


def test_the_plugin_library_goes_with_its_engine(
    engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = with_library(engine, tmp_path, "library")
    assert main(["deploy", "triton", str(copy), "-o", str(tmp_path / "models")]) == 0
    library = tmp_path / "models/net/liblenet_trt_plugins.so"
    assert library.read_bytes() == b"\x7fELF"
    said = capsys.readouterr().out
    assert f"tritonserver --model-repository={tmp_path}/models --backend-config=tensorrt,plugins={library}" in said
    assert "--backend-config=tensorrt,plugins=/models/net/liblenet_trt_plugins.so" in said
    assert "a server with TensorRT 10.13.3.9" in said


def test_an_engine_that_needs_python_is_refused_and_ptx_is_not(engine: Path, tmp_path: Path) -> None:
    with pytest.raises(LenetTrtError, match=r"needs Python in the process .* one of ptx, library"):
        deploy(with_library(engine, tmp_path, "python"), tmp_path / "models")
    assert not (tmp_path / "models").exists()
    deploy(with_library(engine, tmp_path, "ptx"), tmp_path / "models")


def test_an_engine_of_trtexec_takes_its_tensors_from_the_onnx(tmp_path: Path, lenet5: Path) -> None:
    path = tmp_path / "own.engine"
    path.write_bytes(ENGINE)
    with pytest.raises(LenetTrtError, match=r"has no sidecar own\.json"):
        deploy(path, tmp_path / "models")
    with pytest.raises(UsageError, match="add --max-batch"):
        deploy(path, tmp_path / "models", shapes=lenet5)
    deploy(path, tmp_path / "models", options=TritonOptions(max_batch=32), shapes=lenet5)
    found = read(tmp_path / "models/own/config.pbtxt")
    assert (found.max_batch_size, tensors(found.input)) == (32, [("images", 11, [1, 28, 28])])


def test_a_batch_that_the_engine_does_not_take_is_refused(engine: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes batches up to 64"):
        deploy(engine, tmp_path / "models", options=TritonOptions(max_batch=65))
    deploy(engine, tmp_path / "models", options=TritonOptions(max_batch=4))
    assert read(tmp_path / "models/net/config.pbtxt").max_batch_size == 4


def test_an_engine_of_tensorrt_rtx_is_refused(lenet5: Path, tmp_path: Path) -> None:
    path = tmp_path / "rtx.engine"
    path.write_bytes(b"vtrt" + ENGINE[4:])
    with pytest.raises(LenetTrtError, match="was built by TensorRT-RTX"):
        deploy(path, tmp_path / "models")
    with pytest.raises(UsageError, match="is an ONNX file"):
        deploy(lenet5, tmp_path / "models")


def test_any_server_gets_the_onnx_and_a_program(lenet5: Path, tmp_path: Path) -> None:
    deploy(lenet5, tmp_path, "python", TritonOptions(threads=2))
    found = read(tmp_path / "lenet5/config.pbtxt")
    assert (found.backend, found.max_batch_size) == ("python", 256)
    assert found.instance_group[0].kind == found.instance_group[0].KIND_CPU
    assert found.parameters["threads"].string_value == "2"
    onnx.checker.check_model(onnx.load(tmp_path / "lenet5/1/model.onnx"))
    compile((tmp_path / "lenet5/1/model.py").read_text(), "model.py", "exec")


def test_quantized_networks_are_optimized_by_the_basic_rules_alone(tmp_path: Path) -> None:
    """ONNX Runtime's other rules change their answers."""
    deploy(SHIPPED_INT8, tmp_path, "python", TritonOptions(name="int8"))
    assert read(tmp_path / "int8" / "config.pbtxt").parameters["optimize"].string_value == "basic"


def test_a_network_of_fixed_or_open_shapes(tmp_path: Path) -> None:
    def network(shape: list[int | str], name: str) -> Path:
        ports = [helper.make_tensor_value_info(port, TensorProto.INT64, shape) for port in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", ports[:1], ports[1:])
        path = tmp_path / f"{name}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        return path

    deploy(network([4, 5], "fixed"), tmp_path / "m", "python", TritonOptions(warm_up=True))
    found = read(tmp_path / "m/fixed/config.pbtxt")
    assert (found.max_batch_size, tensors(found.input)) == (0, [("x", 9, [4, 5])])
    assert not found.HasField("dynamic_batching"), "Triton has nothing to batch"
    assert len(found.model_warmup) == 1
    deploy(network(["n", "k"], "open"), tmp_path / "m", "python")
    found = read(tmp_path / "m/open/config.pbtxt")
    assert (found.max_batch_size, tensors(found.input)) == (256, [("x", 9, [-1])])
    with pytest.raises(LenetTrtError, match="nothing to warm up"):
        deploy(network(["n", "k"], "open2"), tmp_path / "m", "python", TritonOptions(warm_up=True))
    assert not (tmp_path / "m/open2").exists()


def test_every_letter_and_type_comes_back(tmp_path: Path) -> None:
    kinds = ("bool", "uint8", "int8", "int32", "int64", "float16", "float32", "float64", "bfloat16")
    inputs = tuple(TritonTensor(f'a"\\{kind}:0', kind, (2, -1)) for kind in kinds)
    (tmp_path / "c").write_text(ModelConfig("a.b-c", "python", 0, inputs, (), None).text())
    assert [each.name for each in read(tmp_path / "c").input] == [each.name for each in inputs]
    with pytest.raises(LenetTrtError, match="float8_e4m3fn; Triton takes"):
        ModelConfig("a", "python", 0, (TritonTensor("x", "float8_e4m3fn", ()),), (), None).text()


def test_nothing_of_another_is_overwritten(lenet5: Path, tmp_path: Path) -> None:
    (tmp_path / "lenet5").mkdir()
    (tmp_path / "lenet5/config.pbtxt").write_text('name: "theirs"')
    with pytest.raises(LenetTrtError, match="this command did not make it"):
        deploy(lenet5, tmp_path, "python")
    assert [path.name for path in (tmp_path / "lenet5").iterdir()] == ["config.pbtxt"]
    deploy(lenet5, tmp_path, "python", overwrite=True)
    deploy(lenet5, tmp_path, "python", TritonOptions(version=2))  # its own it may replace
    assert {path.name for path in (tmp_path / "lenet5").iterdir()} == {"config.pbtxt", "1", "2"}


def test_a_file_whose_name_is_no_model_name_needs_another(
    lenet5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(shutil.copy(lenet5, tmp_path / "le né.onnx"))
    words = ["deploy", "triton", str(model), "-o", str(tmp_path / "out"), "--backend", "python"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert f"error: the name of {model} is no model name, 'le né': wanted letters" in said
    assert "give another with --name NAME" in said
    assert main([*words, "--name", "le_ne"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--name", "a/b"], "--name a/b: wanted letters"),
        (["--gpus", "0,x"], "--gpus 0,x"),
        (["--library", "x.so"], "are for engines"),
        (["--onnx", "x.onnx"], "are for engines"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    words: list[str], message: str, lenet5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deploy", "triton", str(lenet5), "-o", str(tmp_path), "--backend", "python", *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
