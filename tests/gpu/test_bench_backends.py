"""Every backend of the benchmarks on the GPU: the right logits, from GPU and host memory, and rows for all."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from lenet_trt.bench import sweep, ten_thousand
from lenet_trt.bench.backends.listed import NAIVE, backend, backends
from lenet_trt.bench.backends.naive import Naive
from lenet_trt.bench.backends.on_gpu import OnGpu, stream
from lenet_trt.bench.backends.protocol import TOLERANCES, Backend, Session, mnist
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.examples import relative_error

ON_GPU = [each for each in backends() if each.place == "GPU"]
# Of these, a machine may have none; the others need what this toolkit needs on a GPU.
OPTIONAL = ("TensorRT", "ONNX Runtime", f"{NAIVE}, PyCUDA")


def opened(chosen: Backend) -> Session:
    try:
        return chosen.open()
    except LenetTrtError as error:
        if "torch is not installed" not in str(error) and not chosen.name.startswith(OPTIONAL):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("chosen", ON_GPU, ids=lambda each: each.name)
def test_logits_are_right(chosen: Backend) -> None:
    with closing(opened(chosen)) as session:
        # Those that --quick leaves out take seconds for each batch.
        for count in (1, 3, 64, 1000) if chosen.quick else (64,):
            images = mnist(count)
            ready = session.prepare(images)
            assert isinstance(ready, OnGpu)
            ready()
            assert relative_error(ready.logits(), images.exact) <= TOLERANCES[chosen.precision], count
            from_host = ready.from_host()
            assert relative_error(from_host(), images.exact) <= TOLERANCES[chosen.precision], count


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_logits_in_padded_rows(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    images = mnist(7)
    right = torch.from_numpy(images.exact).to(getattr(torch, dtype)).cuda()
    torch.cuda.synchronize()

    def submit() -> torch.Tensor:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream().handle)):
            wide = torch.full((7, 12), 5.0, dtype=right.dtype, device="cuda")
            wide[:, :10] = right
        return wide[:, :10]

    ready = OnGpu(images, submit, None)
    from_host = ready.from_host()
    assert np.array_equal(ready.logits(), right.float().cpu().numpy())
    assert np.array_equal(from_host(), right.cpu().numpy())


@pytest.mark.parametrize("name", [NAIVE, f"{NAIVE}, PyCUDA"])
def test_the_naive_program_waits_most_of_its_time(name: str) -> None:
    with closing(opened(backend(name))) as session:
        ready = session.prepare(mnist(50))
        assert isinstance(ready, Naive)
        assert ready.details["launches"] == 50 * 7
        assert 0.2 < ready.sync_share() < 1
        if name == NAIVE:
            kernels = ready.shares().kernels
            assert set(kernels) == {"conv5x5_relu", "maxpool2x2", "linear_relu", "linear"}
            assert sum(share for share, _ in kernels.values()) == pytest.approx(1)
            assert all(0.5 < us < 100 for _, us in kernels.values())
            assert relative_error(ready.logits(), mnist(50).exact) <= TOLERANCES["fp32"]


def test_the_suites_have_a_row_for_every_backend() -> None:
    chosen = [each for each in backends() if "compile" not in each.name]
    record = ten_thousand.measure_10k(SuiteOptions(quick=True), chosen, 200)
    assert {row.backend for row in record.rows} >= {each.name for each in chosen}
    lying, copied = (record.find("lenet5 kernel", images=place) for place in ("GPU memory", "host memory"))
    assert lying is not None
    assert copied is not None
    assert lying.extra["same_class"] == copied.extra["same_class"] == 200
    assert lying.extra["gpu_alone"]["median_us"] < lying.stats.median_us < copied.stats.median_us
    assert 0 < record.details["naive"][NAIVE]["sync_share"] < 1

    record = sweep.measure_sweep(SuiteOptions(quick=True, batches=(1, 64)), chosen)
    lenet5 = [record.find("lenet5 kernel", batch=n) for n in (1, 64)]
    assert all(row is not None and row.stats is not None for row in lenet5)
    # One launch against seven for each image.
    naive = record.find(NAIVE, batch=64)
    assert naive is not None
    assert naive.stats.median_us > 10 * lenet5[1].stats.median_us
    assert np.isfinite([row.stats.median_us for row in record.timed]).all()
