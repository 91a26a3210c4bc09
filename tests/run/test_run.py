"""The run verb and ``load`` on real MNIST, with ONNX Runtime on the CPU."""

from __future__ import annotations

import csv
import ctypes
import io
import json
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from lenet_trt.build.request import BuildRequest
from lenet_trt.build.stage import build
from lenet_trt.cli import main
from lenet_trt.cuda.gpus import Gpu, gpus
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.export.cases import ConvCase, conv_onnx
from lenet_trt.export.mnist import network_input, test_set
from lenet_trt.fuse.stage import fuse
from lenet_trt.images.batches import UNKNOWN
from lenet_trt.images.classify import probabilities
from lenet_trt.run.predictions import Classes, Score, predictions
from lenet_trt.runtimes.arrays import DeviceArray, raw_stream
from lenet_trt.runtimes.load import load
from lenet_trt.runtimes.ort import OrtCpu, OrtCuda, _BoundCall, has_cuda
from lenet_trt.tensorrt.flavors import select
from lenet_trt.tensorrt.vouch import gpu_obstacle

test_set.__test__ = False  # type: ignore[attr-defined]
RIGHT = 9934  # of the shipped weights, by ONNX Runtime


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    return test_set()


@pytest.fixture(scope="module")
def fused(lenet5: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fused") / "lenet5.fused.onnx"
    onnx.save(fuse(onnx.load(lenet5)).model, path)
    return path


def test_the_network_is_a_function_that_says_why(lenet5: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    network = load(lenet5, "ort-cpu")
    assert (network.runtime, network.reason) == ("ort", "asked for")
    logits = network(network_input(digits[0][:1000]))
    assert isinstance(logits, np.ndarray)
    assert logits.shape == (1000, 10)
    assert logits.dtype == np.float32
    assert (logits.argmax(axis=1) == digits[1][:1000]).mean() > 0.98
    assert np.array_equal(network(digits[0][:1000, None]), logits)  # pixels as they are
    assert network(network_input(digits[0][:0])).shape == (0, 10)


@pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU, which auto takes")
def test_auto_says_what_it_took(lenet5: Path) -> None:
    network = load(lenet5)
    assert network.runtime == "ort"
    assert "on the CPU" in network.where
    assert "there is no GPU" in network.reason
    with pytest.raises(LenetTrtError, match=r"graph runtime needs torch|sees no CUDA GPU"):
        load(lenet5, "graph")


def test_a_fused_model_gives_the_same(lenet5: Path, fused: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    images = digits[0][:200, None]
    wanted = load(lenet5, "ort-cpu")(images)
    assert np.linalg.norm(load(fused, "ort-cpu")(images) - wanted) <= 1e-6 * np.linalg.norm(wanted)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), r"takes 1 inputs \(images\), not 0"),
        (
            (np.zeros((1, 28, 28), np.float32),),
            r"images has shape \[1, 28, 28\]; wanted images float32 \[n, 1, 28, 28\]: add",
        ),
        ((np.zeros((1, 1, 28, 28)),), "images is float64; wanted images float32 .* or uint8 images: convert it"),
        ((np.zeros((1, 1, 32, 32), np.uint8),), r"has shape \[1, 1, 32, 32\]"),
    ],
)
def test_what_the_network_does_not_take(lenet5: Path, given: tuple[np.ndarray, ...], told: str) -> None:
    with pytest.raises(LenetTrtError, match=told):
        load(lenet5, "ort-cpu")(*given)


def test_a_failure_inside_names_the_node_and_leaves_the_network_usable(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"], name="the_sum")],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [axis]) for name, axis in (("a", "n"), ("b", "m"))],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, ["k"])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "m.onnx")
    network = load(tmp_path / "m.onnx", "ort-cpu")
    with pytest.raises(LenetTrtError, match=r"^ONNX Runtime failed: [A-Z].*the_sum"):
        network(np.zeros(3, np.float32), np.zeros(2, np.float32))
    assert network(np.ones(3, np.float32), np.ones(3, np.float32)).tolist() == [2, 2, 2]


def test_one_network_in_several_threads(lenet5: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    network = load(lenet5, "ort-cpu")
    wanted = network(digits[0][:, None])
    answers: dict[int, np.ndarray] = {}

    def work(number: int) -> None:
        part = slice(number * 2500, (number + 1) * 2500)
        answers[number] = np.concatenate([network(digits[0][part, None][at : at + 100]) for at in range(0, 2500, 100)])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(np.concatenate([answers[n] for n in range(4)]), wanted, rtol=1e-4, atol=1e-5)


def test_two_processes_at_once(lenet5: Path) -> None:
    command = [sys.executable, "-m", "lenet_trt.run", str(lenet5), "--runtime", "ort-cpu", "--json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [json.loads(process.communicate(timeout=600)[0]) for process in running]
    assert answers[0] == answers[1]
    assert answers[0]["correct"] == RIGHT


def test_the_test_set_is_summed_up(lenet5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(lenet5), "--runtime", "ort"]) == 0
    said = capsys.readouterr().out
    assert f"accuracy 99.34% ({RIGHT:,} of 10,000 right)" in said
    assert len(said.splitlines()) < 25


def test_every_form_tells_the_same(
    lenet5: Path, digits: tuple[np.ndarray, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = []
    for index in range(30):
        names.append(str(tmp_path / f"{index:02}.png"))
        Image.fromarray(digits[0][index]).save(names[-1])
    (tmp_path / "labels.txt").write_text("".join(f"{label}\n" for label in digits[1][:30]))
    arguments = ["run", str(lenet5), str(tmp_path), "--labels", str(tmp_path / "labels.txt"), "--batch", "7"]
    assert main(arguments) == 0
    table = capsys.readouterr().out
    assert "... and 10 more" in table
    assert "accuracy 100.00% (30 of 30 right)" in table
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["image"] for entry in found["images"]] == names
    assert [entry["class"] for entry in found["images"]] == digits[1][:30].tolist()
    assert all(abs(sum(entry["probabilities"]) - 1) < 1e-4 for entry in found["images"])
    assert (found["count"], found["correct"], found["accuracy"]) == (30, 30, 1.0)
    assert np.trace(found["confusion"]) == 30
    assert main([*arguments, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [int(row["class"]) for row in rows] == digits[1][:30].tolist()
    for row, entry in zip(rows, found["images"], strict=True):
        assert float(row["probability"]) == pytest.approx(entry["probability"], abs=1e-5)
        assert float(row[f"p{row['class']}"]) == float(row["probability"])


def test_a_network_of_fixed_size_takes_a_last_batch_that_is_smaller(
    lenet5: Path, digits: tuple[np.ndarray, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load(lenet5)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 4
    del model.graph.value_info[:]
    onnx.save(model, tmp_path / "four.onnx")
    np.save(tmp_path / "ten.npy", digits[0][:10])
    assert main(["run", str(tmp_path / "four.onnx"), str(tmp_path / "ten.npy"), "--json"]) == 0
    assert [entry["class"] for entry in json.loads(capsys.readouterr().out)["images"]] == digits[1][:10].tolist()


def test_what_is_no_classifier_of_grey_images(lenet5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conv_onnx(tmp_path / "conv.onnx", ConvCase(batch=None, filters=2))
    assert main(["run", str(tmp_path / "conv.onnx")]) == 1
    assert "it is no classifier" in capsys.readouterr().err
    with pytest.raises(UsageError, match="is not an engine: build one"):
        load(lenet5, "tensorrt")
    with pytest.raises(UsageError, match="wanted one of auto, tensorrt, graph"):
        load(lenet5, "cuda")
    with pytest.raises(LenetTrtError, match="does not exist"):
        load(tmp_path / "nothing.onnx")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(BuildRequest(batch="1:8:64", output=tmp_path_factory.mktemp("engine") / "lenet5.engine")).engine


@pytest.mark.skipif(bool(gpus().devices), reason="there is a GPU, which may run the engine")
def test_where_an_engine_cannot_run_the_onnx_that_it_was_built_from_does(
    engine: Path, digits: tuple[np.ndarray, np.ndarray]
) -> None:
    network = load(engine)
    assert network.runtime == "ort"
    assert "lenet5.engine was built, since the engine does not run here (there is no GPU" in network.reason
    assert network.reason.count("there is no GPU") == 1
    assert (network(digits[0][:100, None]).argmax(axis=1) == digits[1][:100]).mean() > 0.98
    for trust in (False, True):
        with pytest.raises(LenetTrtError, match=r"lenet5\.engine cannot run here: there is no GPU"):
            load(engine, "tensorrt", trust=trust)


def test_an_engine_that_nobody_vouches_for_is_not_touched(engine: Path, tmp_path: Path) -> None:
    for name in (engine.name, "lenet5.json", f"{engine.name}.onnx"):
        (tmp_path / name).write_bytes((engine.parent / name).read_bytes())
    copy = tmp_path / engine.name
    changed = bytearray(copy.read_bytes())
    changed[1000] ^= 1
    copy.write_bytes(changed)
    with pytest.raises(LenetTrtError, match=r"SHA-256 differs.*an engine can contain code.*--trust"):
        load(copy)
    copy.write_bytes(engine.read_bytes())
    assert load(copy, "ort-cpu").reason.startswith("the ONNX from which lenet5.engine was built")
    onnx.save(onnx.ModelProto(), tmp_path / f"{engine.name}.onnx")
    with pytest.raises(LenetTrtError, match="is missing or was changed"):
        load(copy, "ort-cpu")
    (tmp_path / "lenet5.json").unlink()
    with pytest.raises(LenetTrtError, match=r"the content of its engine is unknown.*--trust"):
        load(copy)
    with pytest.raises(UsageError, match="--trust runs the engine itself"):
        load(copy, "ort", trust=True)


@pytest.mark.skipif(has_cuda(), reason="ONNX Runtime has its CUDA provider")
def test_onnx_runtime_without_its_cuda_provider_says_what_to_install(lenet5: Path) -> None:
    with pytest.raises(
        LenetTrtError,
        match="has no CUDA provider: pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu",
    ):
        OrtCuda(onnx.load(lenet5))


def test_bound_memory_is_read_and_written_each_time(lenet5: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    """How the GPU is bound, on the host's memory."""
    network = OrtCpu(onnx.load(lenet5))
    pixels = network_input(digits[0][:20])
    array = DeviceArray(pixels.ctypes.data, pixels.shape, "float32", pixels)
    call = _BoundCall(network._session, network.inputs, network.outputs, [array], None, None, device="cpu")
    (output,) = call.outputs
    memory = np.ctypeslib.as_array((ctypes.c_float * 200).from_address(output.pointer)).reshape(output.shape)
    for _ in range(3):
        call._run()
        np.testing.assert_allclose(memory, network.run([pixels])[0], rtol=1e-4, atol=1e-5)
        pixels[:] = pixels[::-1].copy()


def test_what_an_engine_is_for() -> None:
    inputs = {"flavor": "rtx", "flavor_version": select("rtx").version, "targets": ["8.6"], "gpu": None}
    for changed, sm, told in (
        ({}, 86, None),
        ({}, 89, "with --sm 8.9"),
        ({}, 90, "--flavor tensorrt"),
        ({"targets": []}, 120, None),
        ({"targets": [], "gpu": "another (8.6)"}, 86, "build it again here"),
    ):
        described = SimpleNamespace(inputs={**inputs, **changed})
        found = gpu_obstacle(described, select("rtx"), Gpu(0, "a GPU", sm, 1 << 30))
        assert found is None if told is None else told in str(found)


@pytest.mark.slow
def test_throughput_on_the_cpu_says_what_it_is(
    lenet5: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "few.npy", np.zeros((100, 28, 28), np.uint8))  # each part of a round runs all images
    command = ["run", str(lenet5), str(tmp_path / "few.npy"), "--runtime", "ort-cpu", "--throughput", "--batch", "20"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["limit"] == "CPU"
    assert found["batch"] == 20
    assert 0 < found["slowest"] <= found["images_per_s"] <= found["fastest"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "limit: the host: everything is computed on the CPU" in said
    assert main([*command, "--csv"]) == 2


def test_nan_is_no_class_and_wrong() -> None:
    shares = probabilities(np.array([[0, 5, 0], [np.nan, 1, 2], [0.2, 0.2, 0.6]], np.float32))
    labels = np.array([1, 1, UNKNOWN])
    first, second, third = predictions(["a", "b", "c"], labels, shares)
    assert (first.predicted, second.predicted, third.predicted, third.label) == (1, None, 2, None)
    assert json.loads(json.dumps(second.as_dict(Classes()), allow_nan=False))["probability"] is None
    score = Score()
    score.add(labels, shares)
    assert (score.images, score.labelled, score.correct) == (3, 2, 1)
    assert score.confusion == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    with pytest.raises(LenetTrtError, match="there is a label 3; the network has the classes 0 to 2"):
        score.add(np.array([3]), shares[:1])


def test_probabilities_stay_as_they_are() -> None:
    given = np.array([[0.25, 0.75], [1, 0]])
    assert np.array_equal(probabilities(given), given)
    large = probabilities(np.array([[1000.0, 999.0]]))
    assert large[0, 0] == pytest.approx(1 / (1 + np.exp(-1)))


def test_streams_of_every_library() -> None:
    class Torch:
        cuda_stream = 11

    class CuPy:
        ptr = 12

    class Numba:
        class handle:  # noqa: N801
            value = None

    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 13

    assert [raw_stream(stream) for stream in (7, Torch(), CuPy(), Numba(), Protocol())] == [7, 11, 12, 0, 13]
    with pytest.raises(LenetTrtError, match="stream is a str; wanted a stream of torch"):
        raw_stream("default")
