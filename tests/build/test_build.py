"""The build stage with the real TensorRT-RTX: engines, sidecars, no-ops, failures that change nothing."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import signal
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from lenet_trt.build import __main__ as build_main
from lenet_trt.build import stage as stage
from lenet_trt.build.request import BuildRequest
from lenet_trt.build.stage import build
from lenet_trt.cli import main
from lenet_trt.cuda.gpus import Gpu
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.tensorrt.flavors import select
from lenet_trt.tensorrt.sidecar import read_sidecar, sidecar_path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(".lock")}


@pytest.fixture
def request_for(tmp_path: Path, lenet5: Path):
    def make(**changes: object) -> BuildRequest:
        return BuildRequest(**{"onnx": lenet5, "output": tmp_path / "out" / "m.engine", **changes})  # type: ignore[arg-type]

    return make


@pytest.fixture
def request_for_small(tmp_path: Path, request_for):
    """The same for one operator: where the network does not matter, no test set is classified."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) { y = Sin(x) }'
    onnx.save(parser.parse_model(text), tmp_path / "small.onnx")
    return partial(request_for, onnx=tmp_path / "small.onnx")


def test_the_main_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["build", "--fp32"]) == 0
    said = capsys.readouterr().out
    assert "99.34% of 10,000 MNIST test images" in said
    assert "from LeNet-5, " in said
    assert "from 1x1x28x28 to 16384x1x28x28, tuned for 64x1x28x28" in said
    assert "pip install" not in said
    assert set(files(tmp_path / "engines")) == {"lenet5-fp32.engine", "lenet5-fp32.engine.onnx", "lenet5-fp32.json"}
    monkeypatch.delattr(stage, "engine_from_onnx")  # nothing is built again
    assert main(["build", "--fp32"]) == 0
    assert "up to date" in capsys.readouterr().out
    assert main(["inspect", "engines/lenet5-fp32.engine"]) == 0
    assert "as its sidecar says" in capsys.readouterr().out


@pytest.mark.parametrize("precision", [None, "fp32", "fp16", "bf16"])
def test_each_precision(request_for, precision: str | None) -> None:
    built = build(request_for(precision=precision, sms=("8.6", "8.9")), command=["lenet-trt", "build"])
    assert not built.reused
    assert built.sidecar == read_sidecar(sidecar_path(built.engine))
    assert built.sidecar.inputs["targets"] == ["8.6", "8.9"]
    assert built.sidecar.tensors["images"] == {
        "io": "input",
        "dtype": "float32",
        "shape": ["n", 1, 28, 28],
        "profile": {"min": [1, 1, 28, 28], "opt": [8, 1, 28, 28], "max": [32, 1, 28, 28]},
    }
    assert built.sidecar.evaluation["correct"] > 9900
    assert built.sidecar.made["command"] == "lenet-trt build"


def test_the_same_again_is_a_no_op_and_a_change_is_not(request_for_small) -> None:
    first = build(request_for_small())
    assert first.sidecar.tensors["x"]["profile"] == {"min": [1, 4], "opt": [8, 4], "max": [32, 4]}
    before = files(first.engine.parent)
    assert build(request_for_small()).reused
    assert files(first.engine.parent) == before
    assert not build(request_for_small(batch="1:2:3")).reused
    assert not build(request_for_small(batch="1:2:3", force=True)).reused


@pytest.mark.parametrize("harm", ["engine", "sidecar", "schema", "gone"])
def test_a_damaged_result_is_built_again(request_for_small, harm: str) -> None:
    built = build(request_for_small())
    sidecar = sidecar_path(built.engine)
    if harm == "engine":
        data = bytearray(built.engine.read_bytes())
        data[100] ^= 1
        built.engine.write_bytes(data)
    elif harm == "sidecar":
        sidecar.write_text(sidecar.read_text()[:200])
    elif harm == "schema":
        sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), "schema": 99}))
    else:
        built.engine.unlink()
    assert main(["inspect", str(built.engine)]) == 1
    assert not build(request_for_small()).reused
    assert main(["inspect", str(built.engine)]) == 0


def test_a_full_disk_keeps_the_engine_before(request_for_small, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build(request_for_small())
    before = files(built.engine.parent)
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if ".engine." in path.name and not path.name.startswith(".m.engine.onnx"):
            write(path, data[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(LenetTrtError, match="No space left on device"):
        build(request_for_small(batch="1:2:4"))
    assert files(built.engine.parent) == before


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, lenet5: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LenetTrtError, match="cannot write in"):
        build(BuildRequest(onnx=lenet5, output=tmp_path / "file" / "m.engine"))


def test_a_terminal_is_told_of_the_comparison(request_for_small, capsys: pytest.CaptureFixture[str]) -> None:
    told = "comparing with ONNX Runtime on the CPU\n"
    for changes, progress, compared in (
        ({"precision": "fp16"}, True, True),
        ({"precision": "fp16", "force": True}, False, False),
        ({"precision": None, "plugins": "none"}, True, False),  # there is nothing to compare
    ):
        built = build(request_for_small(**changes), progress=progress)
        assert (told in capsys.readouterr().err) == compared
        assert (built.sidecar.evaluation["difference"] is not None) == (changes["precision"] is not None)


def test_interrupting_keeps_the_engine_before(request_for_small, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build(request_for_small())
    before = files(built.engine.parent)
    real = stage.engine_from_onnx

    def interrupted(*arguments: object, **keywords: object) -> bytes:
        """Send Ctrl-C as soon as TensorRT takes its first step."""
        from tqdm import tqdm

        step = tqdm.update

        def update(bar: tqdm, n: float = 1) -> bool | None:
            signal.raise_signal(signal.SIGINT)
            return step(bar, n)

        monkeypatch.setattr(tqdm, "update", update)
        return real(*arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(stage, "engine_from_onnx", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(request_for_small(batch="1:2:4"))
    assert files(built.engine.parent) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _build_in(folder: str, model: str, batch: str) -> bool:
    return build(BuildRequest(onnx=Path(model), output=Path(folder) / "m.engine", batch=batch)).reused


@pytest.mark.slow
def test_builds_at_once_do_not_harm_each_other(tmp_path: Path, lenet5: Path) -> None:
    jobs = [(str(tmp_path), str(lenet5), batch) for batch in ("1:2:4", "1:2:8") * 2]
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.starmap(_build_in, jobs)
    sidecar = read_sidecar(tmp_path / "m.json")
    assert sidecar.mismatch(tmp_path / "m.engine") is None
    assert set(files(tmp_path)) == {"m.engine", "m.engine.onnx", "m.json"}


def test_accuracy_that_falls_too_far_fails_unless_allowed(tmp_path: Path, lenet5: Path) -> None:
    """Weights so large that fp16 overflows: right in fp32, NaN in fp16."""
    model = onnx.load(lenet5)
    for tensor in model.graph.initializer:
        if tensor.name.startswith("conv1"):  # logits grow by a factor that no later layer undoes
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1e5), tensor.name))
    onnx.save(model, tmp_path / "large.onnx")
    request = BuildRequest(onnx=tmp_path / "large.onnx", precision="fp16", output=tmp_path / "m.engine")
    with pytest.raises(LenetTrtError, match=r"costs .* points of accuracy; .* --max-drop 100"):
        build(request)
    assert not request.engine.exists()
    built = build(BuildRequest(onnx=request.onnx, precision="fp16", output=request.output, max_drop=100))
    assert built.sidecar.evaluation["correct"] < built.sidecar.evaluation["correct_before"]


def test_a_model_with_fixed_shapes_and_external_weights(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((64, 32), dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 32])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    request = BuildRequest(onnx=path, output=tmp_path / "m.engine")
    assert not build(request).reused
    assert build(request).reused
    data = bytearray((tmp_path / "weights.bin").read_bytes())
    data[1] ^= 1
    (tmp_path / "weights.bin").write_bytes(data)
    assert not build(request).reused
    with pytest.raises(UsageError, match="fixed"):
        build(BuildRequest(onnx=path, output=tmp_path / "n.engine", batch="1:2:3"))


def test_fp32_of_a_narrow_model_is_refused(tmp_path: Path, request_for) -> None:
    built = build(request_for(precision="fp16"))
    narrow = built.engine.with_name(built.sidecar.onnx.name)
    with pytest.raises(UsageError, match="fp16 already"):
        build(BuildRequest(onnx=narrow, precision="fp32", output=tmp_path / "n.engine"))


def status_of(words: list[str]) -> object:
    """Return the status of the program; argparse ends it with its own errors."""
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code


def test_an_engine_for_other_gpus_says_so(request_for, monkeypatch: pytest.MonkeyPatch) -> None:
    sidecar = build(request_for(sms=("8.6",))).sidecar
    for sm, told in ((86, None), (89, "with --sm 8.9"), (90, "--flavor tensorrt")):
        monkeypatch.setattr(build_main, "first_gpu", lambda sm=sm: Gpu(0, "a GPU", sm, 1 << 30))
        note = build_main._here(sidecar)
        assert note is None if told is None else told in note


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty; wanted an ONNX file"),
        (b"\x80PK not a model", "is not an ONNX file"),
        (None, "does not exist"),
    ],
)
@pytest.mark.parametrize("name", ["m.onnx", "m.json", "m.textproto"])
def test_what_is_no_onnx_file_is_named(tmp_path: Path, content: bytes | None, told: str, name: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LenetTrtError, match=told):
        build(BuildRequest(onnx=path, output=tmp_path / "n.engine"))


def test_weights_that_are_not_beside_the_model_are_named(tmp_path: Path, lenet5: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.load(lenet5), path, save_as_external_data=True, location="m.data", size_threshold=0)
    (tmp_path / "m.data").unlink()
    with pytest.raises(LenetTrtError, match=r"keeps the weights '.*' in 'm\.data', which is not there"):
        build(BuildRequest(onnx=path, output=tmp_path / "m.engine"))


def test_what_to_type_next_can_be_typed(
    tmp_path: Path, lenet5: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(lenet5, "my net.onnx")
    assert main(["build", "my net.onnx"]) == 0
    said = capsys.readouterr().out
    assert "lenet-trt run 'engines/my net.engine'\n" in said
    assert "--loadEngine='engines/my net.engine'" in said


def test_shapes_that_contradict_are_named(tmp_path: Path, lenet5: Path) -> None:
    model = onnx.load(lenet5)
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == "fc1.weight")
    tensor.CopyFrom(numpy_helper.from_array(np.zeros((120, 255), np.float32), "fc1.weight"))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(LenetTrtError, match="not valid ONNX"):
        build(BuildRequest(onnx=tmp_path / "m.onnx", output=tmp_path / "m.engine"))


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["build", "--fp32", "--fp16"], 2, "not allowed with"),
        (["build", "--sm", "9.9"], 2, "builds for 7.5"),
        (["build", "--sm", "7.5"], 2, "no fp32 matrix product"),
        (["build", "--sm", "7.5", "--bf16"], 2, "no bf16 on compute capability 7.5"),
        (["build", "--batch", "0"], 2, "--batch 0"),
        (["build", "--minShapes", "images:1x1x28x28"], 2, "needs --optShapes, --maxShapes"),
        (["build", "-o", "x.json"], 2, "sidecar has the suffix .json"),
        (["build", "-o", "x.onnx"], 2, ".onnx is the suffix of a model"),
        (["build", "--fp16", "-o", "."], 2, "such as lenet5-fp16.engine"),
        (["build", "none.onnx"], 1, "does not exist"),
        (["build", "--flavor", "other"], 2, "invalid choice"),
        (["build", "--flavor", "tensorrt"], 1, "TensorRT is not installed: pip install 'lenet-trt[tensorrt]'"),
        (["build", "--timing-cache", "t.cache"], 2, "does not time kernels while it builds"),
        (["build", "--plugins", "dense"], 2, "did you mean dense_int8?"),
        (["build", "--plugins", "LENET5"], 2, "did you mean lenet5?"),
        (["build", "--plugins", "auto,lenet5"], 2, "--plugins auto,lenet5: auto cannot be combined with names"),
        (["build", "--plugin-route", "ptx"], 2, "takes plugins by python, library"),
        (["inspect", "none.engine"], 1, "does not exist"),
        (["inspect"], 2, "required"),
        (["nothing"], 2, "invalid choice"),
        ([], 2, "required"),
    ],
)
def test_bad_usage_is_told_with_its_status(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of(arguments) == status
    answer = capsys.readouterr()
    assert told in answer.err
    assert answer.out == ""
    assert not list(tmp_path.glob("**/*.engine"))


@pytest.mark.parametrize(
    ("precision", "sms"),
    [
        ("fp32", ("7.5",)),
        ("fp32", ("8.0", "8.6", "8.9", "12.0", "12.1")),
        ("fp16", ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")),
    ],
)
def test_plugins_become_plugin_layers_for_every_target(request_for, precision: str, sms: tuple[str, ...]) -> None:
    """FP32 on 7.5 too, where TensorRT-RTX has no matrix product of its own."""
    built = build(request_for(precision=precision, sms=sms, plugins="conv5x5_bias_relu_pool2,dense_bias_relu"))
    assert built.sidecar.inputs["targets"] == list(sms)
    kernels = [entry["kernel"] for entry in built.sidecar.plugins]
    assert sorted(kernels) == ["conv5x5_bias_relu_pool2"] * 2 + ["dense_bias_relu"] * 3
    assert {entry["types"] for entry in built.sidecar.plugins} == {precision}
    assert built.sidecar.evaluation["correct"] > 9900
    assert main(["inspect", str(built.engine)]) == 0


def test_a_plugin_that_became_something_else_is_found_out(request_for, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its creator TensorRT inlines the fallback function, and the build must not pass for one with plugins."""
    from lenet_trt.tensorrt.routes import python

    registry = select("rtx").trt.get_plugin_registry()
    for creator in list(python._creators.values()):
        registry.deregister_creator(creator)
    python._creators.clear()  # so that later tests register them again
    monkeypatch.setattr(python, "register_creators", lambda trt, kernels: ())
    with pytest.raises(LenetTrtError, match="TensorRT made 0 plugin layers"):
        build(request_for(plugins="dense_bias_relu"))


def test_a_model_that_is_fused_already_brings_its_plugins(tmp_path: Path, lenet5: Path) -> None:
    assert main(["fuse", str(lenet5), "--plugins", "lenet5", "-o", str(tmp_path / "fused.onnx")]) == 0
    request = BuildRequest(onnx=tmp_path / "fused.onnx", output=tmp_path / "m.engine")
    (entry,) = build(request).sidecar.plugins
    assert entry["kernel"] == "lenet5"
    assert entry["route"] == "python"
    assert len(entry["replaced"]) == 12
    assert build(request).reused
    with pytest.raises(UsageError, match="plugin nodes already"):
        build(BuildRequest(onnx=request.onnx, output=request.output, precision="fp16"))

    model = onnx.load(tmp_path / "fused.onnx")
    model.metadata_props[0].value = "damaged"
    onnx.save(model, tmp_path / "damaged.onnx")
    with pytest.raises(LenetTrtError, match="is not JSON"):
        build(BuildRequest(onnx=tmp_path / "damaged.onnx", output=tmp_path / "n.engine"))


def test_a_build_says_where_no_plugin_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) { y = Sin(x) }'
    onnx.save(parser.parse_model(text), tmp_path / "sin.onnx")
    for plugins, told in (("auto", 1), ("none", 0)):
        words = ["build", str(tmp_path / "sin.onnx"), "--plugins", plugins, "-o", str(tmp_path / f"{plugins}.engine")]
        assert main(words) == 0
        assert capsys.readouterr().out.count("none: --plugins auto takes no kernel for this network") == told


def test_a_copy_for_tensorrt_is_for_no_other_verb(lenet5: Path, tmp_path: Path, capsys) -> None:
    words = ["fuse", str(lenet5), "--plugins", "lenet5", "--embed", "--sm", "8.6", "-o", str(tmp_path / "f.onnx")]
    assert main(words) == 0
    copy = str(tmp_path / "f.trt.onnx")
    verbs = (["fuse", copy], ["roofline", copy, "--datasheet", "RTX 4090"], ["optimize", copy, "--runtime", "ort-cpu"])
    for words in (["build", copy, "-o", str(tmp_path / "e.engine")], ["run", copy], *verbs):
        assert main(words) == 2
        assert "f.trt.onnx is a copy for TensorRT, " in capsys.readouterr().err


def test_an_unknown_plugin_is_bad_usage(request_for) -> None:
    with pytest.raises(UsageError, match="there is no kernel 'dense': did you mean dense_int8"):
        build(request_for(plugins="dense"))
