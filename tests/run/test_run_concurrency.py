"""One model used by several threads and processes at once, with ONNX Runtime on the CPU: loaded, called, closed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

from lenet_trt.build.request import BuildRequest
from lenet_trt.build.stage import build
from lenet_trt.errors import LenetTrtError
from lenet_trt.export.mnist import network_input
from lenet_trt.export.mnist import test_set as mnist_test_set
from lenet_trt.fuse.stage import fuse
from lenet_trt.runtimes.load import load

THREADS = 2
PIXELS = mnist_test_set()[0]


@pytest.fixture(scope="module")
def fused(lenet5: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fused") / "lenet5.fused.onnx"
    onnx.save(fuse(onnx.load(lenet5)).model, path)
    return path


def at_once(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Run work(0), work(1), ... in threads that begin together; what one raises is raised here."""
    begin = threading.Barrier(threads)

    def run(number: int) -> None:
        begin.wait(timeout=600)
        work(number)

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(run, number) for number in range(threads)]:
            done.result(timeout=600)


def close_to(found: np.ndarray, wanted: np.ndarray) -> bool:
    """ONNX Runtime may share a batch out otherwise while others compute, and add in another order."""
    return found.shape == wanted.shape and bool(np.allclose(found, wanted, rtol=1e-4, atol=1e-5))


def test_two_threads_share_a_network_with_other_shapes_and_types(fused: Path) -> None:
    network = load(fused, "ort-cpu")
    counts = [1, 7, 64, 200]
    wanted = {count: network(PIXELS[:count, None]) for count in counts}

    def work(number: int) -> None:
        random = np.random.default_rng(number)
        for _ in range(100):
            count = int(random.choice(counts))
            given = PIXELS[:count, None] if number % 2 else network_input(PIXELS[:count])
            assert close_to(network(given), wanted[count])

    at_once(work)


def test_two_threads_with_two_inputs_get_their_own_answers(fused: Path) -> None:
    """An answer of the other thread's images would be another one by far."""
    network = load(fused, "ort-cpu")
    parts = [PIXELS[:50, None], PIXELS[50:100, None]]
    wanted = [network(part) for part in parts]
    assert not close_to(wanted[0], wanted[1])

    def work(number: int) -> None:
        for _ in range(200):
            assert close_to(network(parts[number]), wanted[number])

    at_once(work)


def test_what_one_thread_does_wrong_does_not_disturb_the_other(fused: Path) -> None:
    network = load(fused, "ort-cpu")
    images = PIXELS[:20, None]
    wanted = network(images)

    def work(number: int) -> None:
        for _ in range(200):
            if number:
                with pytest.raises(LenetTrtError, match="has shape"):
                    network(images[:, :, 1:])
            else:
                assert close_to(network(images), wanted)

    at_once(work)
    assert close_to(network(images), wanted)


def test_threads_that_load_call_and_close_one_file(fused: Path) -> None:
    images = PIXELS[:30, None]
    wanted = load(fused, "ort-cpu")(images)
    staying = load(fused, "ort-cpu")

    def work(number: int) -> None:
        for _ in range(10):
            network = load(fused, "ort-cpu")
            assert close_to(network(images), wanted)
            network.close()
            assert close_to(staying(images), wanted)

    at_once(work, threads=4)


PROGRAM = """
import sys
import numpy as np
from lenet_trt.export.mnist import test_set
from lenet_trt.run import load
images = test_set()[0][:500, None]
print("ready", flush=True)
sys.stdin.readline()
network = load(sys.argv[1], "ort-cpu")
logits = [network(images[at : at + 50]) for at in range(0, 500, 50)]
print(*np.concatenate(logits).argmax(axis=1), network.reason, flush=True)
"""


def in_processes(path: Path, count: int = 2) -> list[str]:
    """Load a file in several processes at the same moment; what each says."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=600)[0] for process in running]
    assert [process.returncode for process in running] == [0] * count
    return answers


def test_two_processes_load_one_model(fused: Path) -> None:
    first, second = in_processes(fused)
    assert first == second
    labels = mnist_test_set()[1][:500]
    found = np.array(first.split()[:500], int)
    assert (found == labels).mean() > 0.98


def test_two_processes_load_one_engine(tmp_path: Path) -> None:
    """Each checks the engine against its sidecar, and runs what it was built from where TensorRT cannot run."""
    engine = build(BuildRequest(batch="1:8:64", output=tmp_path / "lenet5.engine")).engine
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    first, second = in_processes(engine)
    assert first == second
    assert "the ONNX from which lenet5.engine was built" in first
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_model_that_is_replaced_while_others_load_it(fused: Path, lenet5: Path, tmp_path: Path) -> None:
    """Files are written whole: a reader gets the old one or the new one, and both give the same answers."""
    from lenet_trt.files import write_atomic

    path = tmp_path / "changing.onnx"
    versions = [lenet5.read_bytes(), fused.read_bytes()]
    write_atomic(path, versions[0])
    images = PIXELS[:10, None]
    wanted = load(path, "ort-cpu")(images)
    stop = threading.Event()

    def work(number: int) -> None:
        if number:
            turn = 0
            while not stop.is_set():
                turn += 1
                write_atomic(path, versions[turn % 2])
        else:
            try:
                for _ in range(20):
                    assert close_to(load(path, "ort-cpu")(images), wanted)
            finally:
                stop.set()

    at_once(work)
