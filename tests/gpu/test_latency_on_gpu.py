"""The latency path and the kernel that stays on the GPU: right answers, a clean end, and no harm to other work."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[gpu]'")

from lenet_trt.child import child_environment  # noqa: E402
from lenet_trt.cuda.driver import current_context  # noqa: E402
from lenet_trt.cuda.gpus import gpus  # noqa: E402
from lenet_trt.errors import LenetTrtError, UsageError  # noqa: E402
from lenet_trt.export.lenet5 import SHIPPED  # noqa: E402
from lenet_trt.fuse.stage import fuse  # noqa: E402
from lenet_trt.kernel.examples import relative_error  # noqa: E402
from lenet_trt.kernel.registry import plugins_dir  # noqa: E402
from lenet_trt.onnx_model.precision import convert  # noqa: E402
from lenet_trt.runtimes.graph.runtime import GraphRuntime  # noqa: E402
from lenet_trt.runtimes.network import Network  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU")
HERE = Path(__file__).parent
SECONDS = 60


def network(precision: str = "fp32", kernels: tuple[str, ...] = ("lenet5",)) -> Network:
    model = onnx.load(SHIPPED)
    model = model if precision == "fp32" else convert(model, precision)
    return Network(GraphRuntime(fuse(model, kernels).model if kernels else model), "a test")


def images(count: int, batch: int = 1) -> np.ndarray:
    return np.random.default_rng(count).random((count, batch, 1, 28, 28), dtype=np.float32)


LAYERS = ("conv5x5_bias_relu_pool2", "dense_bias_relu")


@pytest.mark.parametrize("batch", [1, 3, 32])
@pytest.mark.parametrize(
    ("precision", "kernels", "steps"),
    [
        ("fp32", ("lenet5",), "one launch of lenet5"),
        ("fp16", ("lenet5",), "one launch of lenet5"),
        ("fp32", LAYERS, "one CUDA graph"),
        ("fp32", (), "one CUDA graph"),
    ],
)
def test_the_path_answers_as_the_network(precision: str, kernels: tuple[str, ...], steps: str, batch: int) -> None:
    ours = network(precision, kernels)
    with ours.latency_path(images(1, batch)[0]) as path:
        assert path.steps == steps
        for given in images(200, batch):
            found, wanted = path(given), ours(given)
            if kernels == ("lenet5",):
                np.testing.assert_array_equal(found, wanted)
            else:  # another capture may choose other algorithms
                assert relative_error(found, wanted) <= 1e-5
        pixels = (255 * images(1, batch)[0]).astype(np.uint8)
        np.testing.assert_allclose(path(pixels), ours(pixels), rtol=1e-5, atol=1e-5)
        undefined = np.full_like(images(1, batch)[0], np.nan)
        assert np.isnan(path(undefined)).all()


def resident_obstacle() -> str | None:
    return None if gpus().devices and current_context().sm >= 90 else "it needs sm_90 or newer"


@pytest.mark.skipif(resident_obstacle() is not None, reason="it needs sm_90 or newer")
@pytest.mark.parametrize("alone", [False, True], ids=["beside others", "alone"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_resident_kernel_answers_as_the_network(precision: str, alone: bool) -> None:
    ours = network(precision)
    with ours.resident(images(1)[0], alone=alone, life_ms=200) as path:
        for given in images(5000):
            assert relative_error(path(given), ours(given)) <= 1e-6
        assert path.ring.runs > 1, "no run ended meanwhile"
        ones = np.full((1, 1, 28, 28), 0xFFFFFFFF, np.uint32).view(np.float32)
        assert np.isnan(path(ones)).all(), "a request of words that look missing"
        assert relative_error(path(images(1)[0]), ours(images(1)[0])) <= 1e-6


@pytest.mark.skipif(resident_obstacle() is not None, reason="it needs sm_90 or newer")
def test_it_ends_when_the_host_is_silent_and_begins_again() -> None:
    ours = network()
    with ours.resident(images(1)[0], silent_ms=20) as path:
        assert not path.stays
        path(images(1)[0])
        assert path.stays
        until = time.monotonic() + 30
        while path.stays and time.monotonic() < until:
            time.sleep(0.01)
        assert not path.stays
        torch.cuda.synchronize()  # nothing runs
        assert relative_error(path(images(2)[1]), ours(images(2)[1])) <= 1e-6
        path.end()
        assert not path.stays


@pytest.mark.skipif(resident_obstacle() is not None, reason="it needs sm_90 or newer")
def test_what_has_no_resident_form_is_refused() -> None:
    with pytest.raises(LenetTrtError, match="no form that stays on the GPU"):
        network(kernels=LAYERS).resident(images(1)[0])
    with pytest.raises(LenetTrtError, match="no form that stays on the GPU"):
        network().resident(images(1, 2)[0])
    with pytest.raises(UsageError, match="silent_ms is 0: wanted 1 to 60000"):
        network().resident(images(1)[0], silent_ms=0)


@pytest.mark.skipif(resident_obstacle() is not None, reason="it needs sm_90 or newer")
@pytest.mark.parametrize("what", ["load_a_kernel", "allocate", "free", "load_by_torch", "synchronize"])
def test_other_work_goes_on_beside_it(what: str) -> None:
    command = [sys.executable, HERE / "beside_resident.py", what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=child_environment())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert "ms" in found, done.stderr
    assert found["wrong"] == 0, found
    assert found["requests"] >= 2000, found


@pytest.mark.skipif(resident_obstacle() is not None, reason="it needs sm_90 or newer")
def test_a_killed_caller_leaves_the_gpu_free() -> None:
    command = [sys.executable, HERE / "beside_resident.py", "killed"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment())
    assert child.stdout is not None
    pid = json.loads(child.stdout.readline())["pid"]
    time.sleep(0.2)
    child.send_signal(signal.SIGKILL)
    assert child.wait(SECONDS) == -signal.SIGKILL
    child.stdout.close()
    query = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    assert str(pid) not in subprocess.run(query, capture_output=True, text=True, timeout=SECONDS).stdout.split()
    # What would wait behind a kernel that is still there.
    ours = network()
    with ours.resident(images(1)[0], alone=True) as path:
        assert relative_error(path(images(1)[0]), ours(images(1)[0])) <= 1e-6


def test_requests_of_a_program_in_cpp_are_right(tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not here")
    if current_context().sm < 90:
        pytest.skip("the kernel that stays needs sm_90")
    program = tmp_path / "resident_waits"
    options = ["-O3", "-std=c++17", f"-arch=sm_{current_context().sm}", "-I", plugins_dir()]
    subprocess.run(["nvcc", *options, "-o", program, HERE / "resident_waits.cu"], check=True)
    done = subprocess.run([program, "20000"], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20000 requests, 0 wrong" in done.stdout
