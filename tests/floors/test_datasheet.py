"""The stated peaks: consistent with the clocks and units that they come from, found by the names people use."""

from __future__ import annotations

import pytest

from lenet_trt.errors import UsageError
from lenet_trt.floors.ceilings import datasheet
from lenet_trt.floors.datasheet import ENTRIES, Entry, entry_for

# Multiply-adds a cycle of a multiprocessor in float, and on tensor cores in fp16 with float sums.
# Source: NVIDIA's architecture whitepapers, named beside the entries.
FP32_LANES = {75: 64, 80: 64, 86: 128, 89: 128, 90: 128, 100: 128, 120: 128}
FP16_LANES = {75: (256, 512), 80: (1024,), 86: (256, 512), 89: (256, 512), 90: (2048,), 100: (4096,), 120: (256,)}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_rates_follow_from_units_and_clock(entry: Entry) -> None:
    """Two figures of a sheet that were copied independently must agree; HGX figures are rounded, and clocks vary."""
    cycles = 2e-6 * entry.multiprocessors * entry.boost_mhz
    rounding = 0.09 if entry.sm >= 90 else 0.015
    assert entry.fp32 == pytest.approx(FP32_LANES[entry.sm] * cycles, rel=rounding)
    assert any(entry.fp16 == pytest.approx(lanes * cycles, rel=rounding) for lanes in FP16_LANES[entry.sm])


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_tensor_rates_halve_with_the_size_of_the_type(entry: Entry) -> None:
    if entry.sm == 75:
        assert entry.tf32 is None
        assert entry.bf16 is None
    else:
        assert entry.bf16 == entry.fp16
        assert entry.tf32 == pytest.approx(entry.fp16 / 2, rel=0.03)
    assert entry.source.startswith("NVIDIA ")


def test_a_gpu_is_found_by_the_names_that_people_and_drivers_use() -> None:
    for name in ("RTX 4090", "rtx4090", "GeForce RTX 4090", "NVIDIA GeForce RTX 4090"):
        assert entry_for(name) is not None
        assert datasheet(name).gpu == "GeForce RTX 4090"
    assert datasheet("NVIDIA H200").gpu == "H200"
    assert datasheet("NVIDIA H100 80GB HBM3").gpu == "H100 SXM"
    assert datasheet("NVIDIA A100-SXM4-80GB").read_bytes_per_s == 2039e9
    assert datasheet("T4").sm == 75
    assert datasheet("RTX 2080").gpu != datasheet("RTX 2080 Ti").gpu


def test_no_two_gpus_answer_to_one_name() -> None:
    for entry in ENTRIES:
        for name in (entry.name, *entry.driver_names):
            assert entry_for(name) is entry


def test_an_unknown_gpu_is_refused_with_a_list() -> None:
    assert entry_for("GTX 1080") is None
    with pytest.raises(UsageError, match="did you mean GeForce RTX 5080") as caught:
        datasheet("RTX 5085")
    assert all(entry.name in str(caught.value) for entry in ENTRIES)


def test_a_data_sheet_gives_one_bandwidth_and_its_source() -> None:
    found = datasheet("RTX 4090")
    assert found.read_bytes_per_s == found.write_bytes_per_s == found.copy_bytes_per_s == 1008e9
    assert found.flop_per_s == {"fp32": 82.6e12, "tf32": 82.6e12, "fp16": 165.2e12, "bf16": 165.2e12}
    assert found.source == "datasheet"
    assert "whitepaper" in found.details["document"]
    assert "bf16" not in datasheet("T4").flop_per_s
