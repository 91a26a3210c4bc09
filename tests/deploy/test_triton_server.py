"""A deployed model in a real Triton server on loopback: answers, refusals, load, reloads, and a killed server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from lenet_trt.child import child_environment
from lenet_trt.deploy.triton import TritonOptions, deploy
from lenet_trt.export.lenet5 import lenet5_int8
from lenet_trt.export.mnist import network_input
from lenet_trt.export.mnist import test_set as mnist
from lenet_trt.fuse.stage import fuse
from lenet_trt.onnx_model.precision import convert
from lenet_trt.onnx_model.quantization import in_float8
from lenet_trt.run import load
from triton_server import Server

grpc = pytest.importorskip("tritonclient.grpc", reason="the client is missing: pip install 'tritonclient[grpc]'")
from tritonclient.utils import InferenceServerException  # noqa: E402

pytestmark = pytest.mark.slow
LOAD = Path(__file__).parents[2] / "scripts/triton_load.py"
IMAGES = network_input(mnist()[0][:40])
NAMES = ("lenet5", "fused", "half", "int8", "float8")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, lenet5: Path) -> Iterator[Server]:
    """LeNet-5 as it is, fused, in half precision, in int8 and in float8."""
    folder = tmp_path_factory.mktemp("triton")
    plain = onnx.load(lenet5)
    onnx.save(fuse(plain).model, folder / "fused.onnx")
    onnx.save(convert(plain, "fp16"), folder / "half.onnx")
    onnx.save(lenet5_int8(), folder / "int8.onnx")
    onnx.save(in_float8(lenet5_int8()), folder / "float8.onnx")
    for path in (lenet5, *(folder / f"{name}.onnx" for name in NAMES[1:])):
        deploy(path, folder / "models", "python", TritonOptions(warm_up=True, threads=1))
    names = [f"--load-model={name}" for name in NAMES]
    made = Server(folder / "models", folder, ["--model-control-mode=explicit", *names])
    made.start()
    yield made
    made.stop()


def ask(server: Server, name: str, images: np.ndarray, kind: str = "FP32") -> np.ndarray:
    client = grpc.InferenceServerClient(server.grpc)
    put = grpc.InferInput("images", list(images.shape), kind)
    put.set_data_from_numpy(images)
    return client.infer(name, [put], client_timeout=600).as_numpy("logits")


def answered(server: Server) -> int:
    """Requests that the server's versions of lenet5 have answered since they were loaded."""
    statistics = grpc.InferenceServerClient(server.grpc).get_inference_statistics("lenet5", as_json=True)
    return sum(int(version["inference_stats"]["success"].get("count", 0)) for version in statistics["model_stats"])


def wait_for_answers(server: Server, running: subprocess.Popen[str]) -> None:
    """Wait until some more requests of the load are answered."""
    before = answered(server)
    while answered(server) < before + 20:
        assert running.poll() is None, "the load ended"
        time.sleep(0.1)


def start_load(server: Server, model: Path) -> subprocess.Popen[str]:
    """Send requests until ``finished``; returns when some are answered."""
    words = [sys.executable, str(LOAD), str(model), "--url", server.grpc, "--seconds", "3600", "--json"]
    running = subprocess.Popen(words, env=child_environment(), stdout=subprocess.PIPE, text=True)
    wait_for_answers(server, running)
    return running


def finished(running: subprocess.Popen[str]) -> dict[str, Any]:
    """End a load; returns what it found: of every request the right answer."""
    assert running.poll() is None, "the load had ended before"
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=600)
    found = json.loads(said)
    print({key: found[key] for key in ("requests", "sent_again", "seconds", "median_ms", "p99_ms")})
    assert (running.returncode, found["wrong"], found["lost"]) == (0, 0, 0), found
    assert found["answered"] == found["requests"]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_a_plain_run(server: Server, name: str, lenet5: Path) -> None:
    model = lenet5 if name == "lenet5" else lenet5_beside(server, name)
    wanted = load(model, "ort-cpu")(IMAGES)
    for count in (1, 7, 40):
        found = ask(server, name, IMAGES[:count])
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted[:count], atol=1e-2 if name == "half" else 1e-5)


def lenet5_beside(server: Server, name: str) -> Path:
    return server.scratch / f"{name}.onnx"


@pytest.mark.parametrize(
    ("images", "kind", "message"),
    [
        (IMAGES[:, :, :27], "FP32", "unexpected shape"),
        (IMAGES[:, 0], "FP32", "unexpected shape"),
        (np.zeros((300, 1, 28, 28), np.float32), "FP32", "batch-size must be <= 256"),
        (IMAGES.astype(np.float64), "FP64", "data-type"),
    ],
    ids=["size", "axes", "batch", "type"],
)
def test_what_the_network_does_not_take_is_refused(server: Server, images: np.ndarray, kind: str, message: str) -> None:
    with pytest.raises(InferenceServerException, match=message):
        ask(server, "lenet5", np.ascontiguousarray(images), kind)
    assert ask(server, "lenet5", IMAGES).shape == (40, 10), "and the next one is answered"


def test_under_load_every_answer_is_for_its_own_request(server: Server, lenet5: Path) -> None:
    finished(start_load(server, lenet5))
    client = grpc.InferenceServerClient(server.grpc)
    (statistics,) = client.get_inference_statistics("lenet5", as_json=True)["model_stats"]
    assert int(statistics["execution_count"]) < int(statistics["inference_stats"]["success"]["count"]), (
        "requests were put together into batches"
    )


def test_a_model_is_replaced_under_load_and_nothing_is_lost(server: Server, lenet5: Path) -> None:
    running = start_load(server, lenet5)
    client = grpc.InferenceServerClient(server.grpc)
    for version in (2, 3):
        deploy(lenet5, server.repository, "python", TritonOptions(version=version, threads=1))
        client.load_model("lenet5")
        assert client.is_model_ready("lenet5", str(version))
        assert not client.is_model_ready("lenet5", "1"), "the newest version is the one that answers"
        wait_for_answers(server, running)
    assert finished(running)["sent_again"] == 0


def test_a_server_that_is_killed_and_started_again_answers_all(server: Server, lenet5: Path) -> None:
    running = start_load(server, lenet5)
    server.kill()
    server.start()
    wait_for_answers(server, running)
    assert finished(running)["sent_again"] > 0, "nobody noticed"
