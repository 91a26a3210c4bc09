"""Half an hour of service in one loop: calls, prepared calls, changing shapes, loading, streaming; nothing grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[gpu]'")

from lenet_trt.export.lenet5 import SHIPPED  # noqa: E402
from lenet_trt.export.mnist import network_input  # noqa: E402
from lenet_trt.export.mnist import test_set as mnist_test_set  # noqa: E402
from lenet_trt.fuse.stage import fuse  # noqa: E402
from lenet_trt.run.throughput import measure_throughput  # noqa: E402
from lenet_trt.runtimes.load import load  # noqa: E402
from own_gpu_memory import device_bytes, kept_by_torch_a_capture, resident_bytes  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU")

# At one request in 18 ms, which a small camera makes, 100,000 are half an hour.
CALLS = 100_000
CHECKS = 10
# What allocators may keep or hand out in another order; a leak of 100 bytes a call would be more.
HOST_SLACK = 8 << 20
DEVICE_SLACK = 8 << 20


def in_use() -> tuple[int, int]:
    """Bytes of the GPU and of the host's memory that this process uses, freed memory given back."""
    return device_bytes(), resident_bytes()


@pytest.fixture(scope="module")
def kept_a_capture() -> float:
    found = kept_by_torch_a_capture()
    print(f"torch keeps {found / 1024:.1f} KiB a capture")
    return found


def check_growth(what: str, once: Callable[[], None], times: int, allowed: float = 0.0) -> None:
    """Run it so often; between the first tenth, which fills caches, and the end, nothing may grow.

    ``allowed``: bytes of the host a time that are not ours.
    """
    seen = []
    for _ in range(CHECKS):
        for _ in range(times // CHECKS):
            once()
        seen.append(in_use())
    host_slack = HOST_SLACK + 1.5 * allowed * times
    for index, (name, slack) in enumerate((("device", DEVICE_SLACK), ("host", host_slack))):
        values = [each[index] for each in seen]
        print(f"{what}, {times:,} times: {name} {', '.join(f'{value / 2**20:.1f}' for value in values)} MiB")
        grown = values[-1] - values[0]
        assert grown <= slack, f"{what}: {name} memory grew by {grown / 2**20:.1f} MiB: {values}"


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("growth") / "lenet5.fused.onnx"
    onnx.save(fuse(onnx.load(SHIPPED)).model, path)
    return path


def test_calls_on_the_same_and_on_changing_memory(fused: Path) -> None:
    network = load(fused, "graph")
    steady = torch.rand(1, 1, 28, 28, device="cuda")
    others = [torch.rand(1, 1, 28, 28, device="cuda") for _ in range(50)]  # more addresses than are kept
    wanted = network(steady).clone()

    def once() -> None:
        for x in others:
            network(steady)
            network(x)

    check_growth("network(x)", once, CALLS // 100)
    assert torch.equal(network(steady), wanted)
    network.close()


def test_prepared_calls(fused: Path, kept_a_capture: float) -> None:
    network = load(fused, "graph")
    x = torch.rand(1, 1, 28, 28, device="cuda")

    def once() -> None:
        prepared = network.prepare(x)
        for _ in range(500):
            prepared()

    check_growth("prepare() and 500 calls", once, CALLS // 500, kept_a_capture)
    network.close()


@pytest.mark.parametrize("plain", [False, True], ids=["fused", "plain"])
def test_shapes_that_change_all_the_time(fused: Path, plain: bool, kept_a_capture: float) -> None:
    network = load(SHIPPED if plain else fused, "graph")
    pixels, _ = mnist_test_set()
    sizes = iter(np.random.default_rng(1).integers(1, 200, 4096).tolist() * 10)  # far more than are kept

    def once() -> None:
        network(pixels[: next(sizes), None])

    check_growth(f"a new shape, {'plain' if plain else 'fused'}", once, 600, kept_a_capture)
    network.close()


def test_loading_and_closing(fused: Path, kept_a_capture: float) -> None:
    images = network_input(mnist_test_set()[0][:16])

    def once() -> None:
        network = load(fused, "graph")
        network(images)
        network.close()

    check_growth("load, call and close", once, 200, kept_a_capture)


def test_streaming(fused: Path) -> None:
    network = load(fused, "graph")
    pixels, _ = mnist_test_set()
    network(pixels[:100, None])
    seen = []
    for _ in range(3):  # each of about five seconds: some ten million images
        measure_throughput(network, pixels[:, None], 1000)
        seen.append(in_use())
    assert seen[-1][0] - seen[0][0] <= DEVICE_SLACK
    assert seen[-1][1] - seen[0][1] <= HOST_SLACK
    network.close()
