"""The stated peaks: consistent with the clocks and units that they come from, found by the names people use."""

from __future__ import annotations

import pytest

from lenet_trt.errors import UsageError
from lenet_trt.floors.ceilings import datasheet
from lenet_trt.floors.datasheet import ENTRIES, Entry, entry_for

# Multiply-adds a cycle of a multiprocessor in float, and on tensor cores in fp16 with float sums.
# Source: NVIDIA's architecture whitepapers, named beside the entries.
FP32_LANES = {75: 64, 80: 64, 86: 128, 87: 128, 89: 128, 90: 128, 100: 128, 110: 128, 120: 128}
FP16_LANES = {75: (256, 512), 80: (1024,), 86: (256, 512), 87: (1024,), 89: (256, 512), 90: (2048,)}
FP16_LANES |= {100: (4096,), 110: (4096,), 120: (256,)}


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


@pytest.mark.parametrize(
    ("name", "found", "gb_per_s"),
    [
        ("RTX 3060", "GeForce RTX 3060", 360),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "GeForce RTX 3060 Laptop GPU", 336),
        ("RTX 3060 laptop", "GeForce RTX 3060 Laptop GPU", 336),
        ("RTX 4060", "GeForce RTX 4060", 272),
        ("rtx 5060", "GeForce RTX 5060", 448),
        ("Jetson AGX Orin", "Jetson AGX Orin 64GB", 204.8),
        ("Orin NX 8GB", "Jetson Orin NX 8GB", 102.4),
        ("Jetson Orin Nano", "Jetson Orin Nano 8GB", 68),
        ("Orin Nano Super", "Jetson Orin Nano Super", 102),
        ("NVIDIA Thor", "Jetson Thor T5000", 273),
    ],
)
def test_small_gpus_have_their_own_sheets(name: str, found: str, gb_per_s: float) -> None:
    sheet = datasheet(name)
    assert (sheet.gpu, sheet.read_bytes_per_s) == (found, gb_per_s * 1e9)
    assert sheet.details["document"].startswith("NVIDIA ")


def test_the_driver_s_name_for_every_orin_is_no_answer() -> None:
    """Seven modules answer to it, and their bandwidths differ by a factor of six."""
    assert entry_for("Orin") is None


def test_int8_runs_at_twice_the_rate_of_fp16_on_a_jetson_and_at_four_times_on_a_geforce() -> None:
    assert datasheet("AGX Orin").rate("int8") == 85e12
    assert datasheet("RTX 3060").rate("int8") == 102e12


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
