"""Ceilings are measured once for each GPU and kept; the kernels that measure compile for every architecture."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lenet_trt.cuda.compile import compile_variant
from lenet_trt.cuda.gpus import gpus
from lenet_trt.errors import LenetTrtError
from lenet_trt.floors import ceilings
from lenet_trt.floors.ceilings_kernels import CHAINS, FMA, KERNELS, MMA, MMA8, measure, ways
from lenet_trt.floors.floor import Ceilings
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.examples import bounds

FIRST = Ceilings("a GPU", "measured", 4e12, 3.9e12, 3.8e12, {"fp32": 60e12}, 2.5, details={"origins": {"fp32": "FMA"}})
IDENTITY = {"gpu": "a GPU", "uuid": "1", "driver": "580.1", "kernels": "abc"}


class Gpu:
    """Stands for the GPU: counts how often it is measured, and may be exchanged for another one."""

    def __init__(self) -> None:
        self.identity: dict[str, Any] = dict(IDENTITY)
        self.measured = 0

    def measure(self, name: str) -> Ceilings:
        self.measured += 1
        return replace(FIRST, gpu=name, launch_us=2.5 + self.measured)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gpu:
    gpu = Gpu()
    monkeypatch.setenv("LENET_TRT_CACHE", str(tmp_path))
    monkeypatch.setattr(ceilings, "_identity", lambda: gpu.identity)
    monkeypatch.setattr(measure, "measure_gpu", gpu.measure)
    return gpu


def test_a_gpu_is_measured_once(here: Gpu) -> None:
    first = ceilings.measured_ceilings()
    assert first.details["identity"] == IDENTITY
    assert first.details["origins"] == {"fp32": "FMA"}
    assert ceilings.measured_ceilings() == first
    assert here.measured == 1


@pytest.mark.parametrize("what", ["gpu", "uuid", "driver", "kernels"])
def test_anything_that_decides_the_figures_asks_for_a_new_measurement(here: Gpu, what: str) -> None:
    first = ceilings.measured_ceilings()
    here.identity[what] = "another"
    assert ceilings.measured_ceilings() != first
    here.identity[what] = IDENTITY[what]
    assert ceilings.measured_ceilings() == first  # both are kept
    assert here.measured == 2


def test_refresh_measures_again_and_keeps_that(here: Gpu) -> None:
    first = ceilings.measured_ceilings()
    second = ceilings.measured_ceilings(refresh=True)
    assert second.launch_us > first.launch_us
    assert ceilings.measured_ceilings() == second


@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b"[1]", b'{"schema": 99}', b"\xff\xfe"])
def test_what_is_damaged_is_measured_again(here: Gpu, damage: bytes, tmp_path: Path) -> None:
    ceilings.measured_ceilings()
    (file,) = (tmp_path / "ceilings").iterdir()
    file.write_bytes(damage)
    assert ceilings.measured_ceilings().launch_us == 4.5
    assert json.loads(file.read_text())["launch_us"] == 4.5


def test_a_cache_that_cannot_be_written_is_no_obstacle(here: Gpu, tmp_path: Path) -> None:
    (tmp_path / "ceilings").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="are not kept"):
        found = ceilings.measured_ceilings()
    assert found.gpu == "a GPU"


def test_without_a_gpu_it_says_so() -> None:
    if gpus().devices:
        pytest.skip("there is a GPU here")
    with pytest.raises(LenetTrtError, match="GPU"):
        ceilings.measured_ceilings()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize(
    "target", ["sm_75", "sm_90", "compute_75", *(pytest.param(t, marks=pytest.mark.slow) for t in ("sm_80", "sm_120"))]
)
def test_every_kernel_compiles_for_every_architecture(kernel: Kernel, target: str) -> None:
    for bound in bounds(kernel):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert compile_variant(bound.specialized, kernel.variants[0], target).image


def test_the_references_compute_what_the_kernels_say() -> None:
    x, a = np.array([0.5, -2.0]), np.array([-0.999, -0.995])
    chains = FMA.reference(x, a, steps=3)
    wanted = [sum(((((v + c) * f + v) * f + v) * f + v) for c in range(CHAINS)) for v, f in zip(x, a, strict=True)]
    np.testing.assert_allclose(chains, wanted)
    left, right = np.ones((1, 32, 16)), np.full((1, 16, 32), 2.0)
    assert (np.asarray(MMA.reference(left, right, steps=5)) == 5 * 32).all()
    columns = np.full((1, 32, 32), 127, np.int8)
    assert (np.asarray(MMA8.reference(columns, -columns, steps=1024)) == -1024 * 32 * 127 * 127).all()


def test_operations_are_counted_a_call() -> None:
    threads = FMA.bind_axes({"n": 1000}, FMA.types[0])
    assert threads.flops == 1000 * CHAINS * 2 * int(threads.attributes["steps"])
    warps = MMA.bind_axes({"warps": 3}, MMA.types[0])
    assert warps.flops == 3 * 2 * 32 * 32 * 16 * int(warps.attributes["steps"])
    warps = MMA8.bind_axes({"warps": 3}, MMA8.types[0])
    assert warps.flops == 3 * 2 * 32 * 32 * 32 * int(warps.attributes["steps"])


def test_chains_stay_bounded_and_in_motion() -> None:
    """Values that settle would switch fewer transistors, and clock higher than real work does."""
    factors = ways.bounded_factors(np.random.default_rng(1).standard_normal(1000).astype(np.float32))
    assert (factors > -1).all()
    assert (factors < -0.99).all()


def test_what_is_missing_without_torch_is_said() -> None:
    assert "pip install torch" in measure._without_cublas("torch is not installed", 90)
    assert "pip install torch" not in measure._without_cublas("torch is not installed", 89)
