"""The kernels that measure this GPU compute what they say, and what was measured is plausible, and kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.check.gpu_checks import Rig
from lenet_trt.cuda.driver import Buffer, Stream
from lenet_trt.cuda.launch import prepare
from lenet_trt.floors import ceilings
from lenet_trt.floors.ceilings_kernels import CHECKED, FMA, READ
from lenet_trt.floors.ceilings_kernels.ways import bounded_factors
from lenet_trt.floors.datasheet import entry_for
from lenet_trt.floors.floor import Ceilings
from lenet_trt.kernel.examples import ExampleCase, bounds, plain_inputs

# What is measured is below the peak of the data sheet; clocks above the stated boost clock may pass it by a little.
LEAST_SHARE, LARGEST_SHARE = 0.5, 1.05
# mma.sync alone reaches less of the peak from sm_90 on.
LEAST_SHARE_WITHOUT_LIBRARY = 0.3


@pytest.fixture(scope="module")
def found() -> Ceilings:
    return ceilings.measured_ceilings(refresh=True)


@pytest.mark.parametrize("kernel", [kernel for kernel in CHECKED if kernel is not READ], ids=lambda kernel: kernel.name)
def test_each_kernel_computes_what_its_reference_does(kernel) -> None:  # type: ignore[no-untyped-def]
    for bound in bounds(kernel):
        plain = plain_inputs(bound, np.random.default_rng(5))
        if kernel is FMA:
            plain[1] = bounded_factors(plain[1])
        if bound.attributes.get("steps") not in (None, 16, 64):
            continue  # the float64 reference is the slow one
        for variant in kernel.variants:
            rig = Rig(ExampleCase(bound, variant), plain)
            rig.launch()
            assert rig.problem() is None, (variant.name, bound.axes)


def test_reading_finds_the_largest_number_wherever_it_is() -> None:
    rng = np.random.default_rng(6)
    stream = Stream()
    for bound in bounds(READ):
        (count,) = bound.input_shapes[0]
        for place in {0, count // 2, count - 1}:
            x = rng.integers(-(2**31), 2**30, count, np.int32)
            x[place] = 2**30 + 7
            memory = Buffer(x.nbytes)
            memory.write(x)
            for variant in READ.variants:
                result = Buffer(4)
                result.write(np.array([-(2**31)], np.int32))
                prepare(bound, variant)([memory.pointer, result.pointer], stream.handle)
                stream.synchronize()
                assert result.read().view(np.int32)[0] == 2**30 + 7, (variant.name, count, place)


def test_the_figures_fit_the_data_sheet(found: Ceilings) -> None:
    entry = entry_for(found.gpu)
    if entry is None:
        pytest.skip(f"no data sheet of {found.gpu} is in the list")
    stated = ceilings.datasheet(entry.name)
    for what in ("read_bytes_per_s", "write_bytes_per_s", "copy_bytes_per_s"):
        assert LEAST_SHARE <= getattr(found, what) / getattr(stated, what) <= LARGEST_SHARE, what
    for arithmetic, rate in found.flop_per_s.items():
        library = found.details["origins"][arithmetic] == "cuBLAS"
        least = LEAST_SHARE if library else LEAST_SHARE_WITHOUT_LIBRARY
        assert least <= rate / stated.rate(arithmetic) <= LARGEST_SHARE, arithmetic


def test_the_figures_stand_in_the_right_order(found: Ceilings) -> None:
    rates = found.flop_per_s
    assert rates["fp16"] > rates["fp32"] > 1e12
    assert found.sm < 80 or rates["fp16"] * 1.1 > rates["tf32"] > 0.9 * rates["fp32"]
    launches = found.details["launches"]
    assert 0 < launches["node_us"] < found.launch_us
    assert found.h2d_bytes_per_s is not None
    assert 1e9 < found.h2d_bytes_per_s < found.read_bytes_per_s
    for achieved in found.details["tried"].values():
        assert len(achieved) >= 2


def test_what_was_measured_is_kept_for_this_gpu_alone(found: Ceilings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ceilings.measured_ceilings() == found  # to the last bit, so it was not measured again
    path = ceilings._cache_path(found.details["identity"])
    assert json.loads(path.read_text())["gpu"] == found.gpu
    other = {**ceilings._identity(), "uuid": "another one"}
    monkeypatch.setattr(ceilings, "_identity", lambda: other)
    assert not Path(ceilings._cache_path(other)).exists()
