"""List the peak figures of common GPUs as NVIDIA states them, for GPUs that are not here.

The rates are dense, fp16 and bf16 with float accumulation, at the stated boost clock. No program quite reaches them,
and a card of another maker may have another clock. Where NVIDIA states only sparse rates, the dense rate is half of
the sparse rate; where it states only int8, fp16 is half of int8, and tf32 is half of fp16. The clocks of laptops and
Jetsons depend on the power mode: the figures are of the largest mode.

Jetsons: the figures of the AGX Orin 64GB (16 multiprocessors, 5.3 TFLOP/s in fp32, 170 sparse int8 TOP/s) and of the
first Orin Nanos (625 MHz, 20 and 10 dense int8 TOP/s) were compared with copies of NVIDIA's documents. The figures of
the other Jetsons come from pages that quote NVIDIA's documents, so their source says "as quoted by others"; they agree
with multiprocessors x clock x operations per clock, and for Thor with the stated 2,070 sparse fp4 TFLOP/s.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from lenet_trt.errors import UsageError
from lenet_trt.floors.floor import Ceilings

TURING = "NVIDIA Turing GPU Architecture whitepaper"
A100_SHEET = "NVIDIA A100 Tensor Core GPU data sheet"
A30_SHEET = "NVIDIA A30 Tensor Core GPU data sheet"
A10_SHEET = "NVIDIA A10 Tensor Core GPU data sheet"
GA102 = "NVIDIA Ampere GA102 GPU Architecture whitepaper"
ADA = "NVIDIA Ada GPU Architecture whitepaper"
L4_SHEET = "NVIDIA L4 Tensor Core GPU data sheet"
L40S_SHEET = "NVIDIA L40S GPU data sheet"
H100_PAPER = "NVIDIA H100 Tensor Core GPU Architecture whitepaper"
H200_SHEET = "NVIDIA H200 Tensor Core GPU data sheet"
BLACKWELL_RTX = "NVIDIA RTX Blackwell GPU Architecture whitepaper"
GEFORCE_30 = "NVIDIA GeForce RTX 3060 product page (nvidia.com/geforce/graphics-cards/30-series)"
GEFORCE_30_LAPTOPS = "NVIDIA GeForce RTX 30 series laptops page (nvidia.com/geforce/laptops/30-series)"
GEFORCE_40 = "NVIDIA GeForce RTX 4060 product page (nvidia.com/geforce/graphics-cards/40-series)"
GEFORCE_50 = "NVIDIA GeForce RTX 5060 product page (nvidia.com/geforce/graphics-cards/50-series)"
AGX_ORIN = "NVIDIA Jetson AGX Orin Series technical brief"
AGX_ORIN_QUOTED = f"{AGX_ORIN}, as quoted by others"
ORIN_NX_SHEET = "NVIDIA Jetson Orin NX Series data sheet DS-10712-001, as quoted by others"
ORIN_NANO_SHEET = "NVIDIA Jetson Orin Nano Series data sheet"
ORIN_NANO_SUPER = "NVIDIA Jetson Orin Nano Super Developer Kit data sheet, as quoted by others"
THOR_SHEET = "NVIDIA Jetson Thor Series Modules data sheet, as quoted by others"


@dataclass(frozen=True)
class Entry:
    """Hold the figures of one GPU: rates in TFLOP/s (None: the GPU has no such tensor cores), bandwidth in GB/s.

    ``driver_names``: the driver's names of the GPU, where they differ from ``name``.
    """

    name: str
    sm: int
    multiprocessors: int
    boost_mhz: int
    fp32: float
    tf32: float | None
    fp16: float
    bf16: float | None
    gb_per_s: float
    source: str
    driver_names: tuple[str, ...] = ()

    @property
    def tflop_per_s(self) -> dict[str, float]:
        """Return the rates that the GPU has, by arithmetic, in TFLOP/s."""
        rates = {"fp32": self.fp32, "tf32": self.tf32, "fp16": self.fp16, "bf16": self.bf16}
        return {arithmetic: rate for arithmetic, rate in rates.items() if rate is not None}


_A100_40GB = ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB")
_3060_LAPTOP = ("GeForce RTX 3060 Laptop", "GeForce RTX 3060 Mobile")
# The driver's name of every Orin is "Orin", which does not say which Orin it is.
_AGX_ORIN = ("Jetson AGX Orin", "AGX Orin", "AGX Orin 64GB")
_ORIN_NX = ("Jetson Orin NX", "Orin NX", "Orin NX 16GB")
_ORIN_NANO = ("Jetson Orin Nano", "Orin Nano", "Orin Nano 8GB")
_THOR = ("NVIDIA Thor", "Jetson Thor", "Jetson AGX Thor", "Jetson T5000")
_A100_80GB = ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", "A100")

ENTRIES = (
    Entry("GeForce RTX 2070", 75, 36, 1620, 7.5, None, 29.9, None, 448, TURING),
    Entry("GeForce RTX 2080", 75, 46, 1710, 10.1, None, 40.3, None, 448, TURING),
    Entry("GeForce RTX 2080 Ti", 75, 68, 1545, 13.4, None, 53.8, None, 616, TURING),
    Entry("Tesla T4", 75, 40, 1590, 8.1, None, 65, None, 320, TURING),
    Entry("A100 40GB", 80, 108, 1410, 19.5, 156, 312, 312, 1555, A100_SHEET, _A100_40GB),
    Entry("A100 80GB SXM", 80, 108, 1410, 19.5, 156, 312, 312, 2039, A100_SHEET, _A100_80GB),
    Entry("A100 80GB PCIe", 80, 108, 1410, 19.5, 156, 312, 312, 1935, A100_SHEET),
    Entry("A30", 80, 56, 1440, 10.3, 82, 165, 165, 933, A30_SHEET),
    Entry("A10", 86, 72, 1695, 31.2, 62.5, 125, 125, 600, A10_SHEET),
    Entry("A40", 86, 84, 1740, 37.4, 74.8, 149.7, 149.7, 696, GA102),
    Entry("RTX A6000", 86, 84, 1800, 38.7, 77.4, 154.8, 154.8, 768, GA102),
    Entry("GeForce RTX 3060", 86, 28, 1777, 12.7, 12.7, 25.5, 25.5, 360, GEFORCE_30),
    Entry("GeForce RTX 3060 Laptop GPU", 86, 30, 1703, 13.1, 13.1, 26.2, 26.2, 336, GEFORCE_30_LAPTOPS, _3060_LAPTOP),
    Entry("GeForce RTX 3070", 86, 46, 1725, 20.3, 20.3, 40.6, 40.6, 448, GA102),
    Entry("GeForce RTX 3080", 86, 68, 1710, 29.8, 29.8, 59.5, 59.5, 760, GA102),
    Entry("GeForce RTX 3090", 86, 82, 1695, 35.6, 35.6, 71, 71, 936, GA102),
    Entry("Jetson AGX Orin 64GB", 87, 16, 1300, 5.3, 21.3, 42.5, 42.5, 204.8, AGX_ORIN, _AGX_ORIN),
    Entry("Jetson AGX Orin 32GB", 87, 14, 930, 3.33, 13.4, 26.8, 26.8, 204.8, AGX_ORIN_QUOTED, ("AGX Orin 32GB",)),
    Entry("Jetson Orin NX 16GB", 87, 8, 918, 1.88, 7.5, 15, 15, 102.4, ORIN_NX_SHEET, _ORIN_NX),
    Entry("Jetson Orin NX 8GB", 87, 8, 765, 1.57, 6.25, 12.5, 12.5, 102.4, ORIN_NX_SHEET, ("Orin NX 8GB",)),
    Entry("Jetson Orin Nano 8GB", 87, 8, 625, 1.28, 5.12, 10.2, 10.2, 68, ORIN_NANO_SHEET, _ORIN_NANO),
    Entry("Jetson Orin Nano Super", 87, 8, 1020, 2.09, 8.37, 16.75, 16.75, 102, ORIN_NANO_SUPER, ("Orin Nano Super",)),
    Entry("Jetson Orin Nano 4GB", 87, 4, 625, 0.64, 2.56, 5.12, 5.12, 34, ORIN_NANO_SHEET, ("Orin Nano 4GB",)),
    Entry("GeForce RTX 4060", 89, 24, 2460, 15.1, 15.1, 30.2, 30.2, 272, GEFORCE_40),
    Entry("GeForce RTX 4070 Ti", 89, 60, 2610, 40.1, 40.1, 80.2, 80.2, 504, ADA),
    Entry("GeForce RTX 4080", 89, 76, 2505, 48.7, 48.7, 97.5, 97.5, 716.8, ADA),
    Entry("GeForce RTX 4090", 89, 128, 2520, 82.6, 82.6, 165.2, 165.2, 1008, ADA),
    Entry("L4", 89, 58, 2040, 30.3, 60, 121, 121, 300, L4_SHEET),
    Entry("L40", 89, 142, 2490, 90.5, 90.5, 181.05, 181.05, 864, ADA),
    Entry("L40S", 89, 142, 2520, 91.6, 183, 362.05, 362.05, 864, L40S_SHEET),
    Entry("H100 PCIe", 90, 114, 1755, 51.2, 378, 756, 756, 2000, H100_PAPER),
    Entry("H100 SXM", 90, 132, 1980, 66.9, 494.7, 989.4, 989.4, 3352, H100_PAPER, ("NVIDIA H100 80GB HBM3", "H100")),
    Entry("H200", 90, 132, 1980, 67, 494.5, 989.5, 989.5, 4800, H200_SHEET),
    Entry("Jetson Thor T5000", 110, 20, 1575, 8.06, 129.25, 258.5, 258.5, 273, THOR_SHEET, _THOR),
    Entry("GeForce RTX 5060", 120, 30, 2497, 19.2, 19.2, 38.4, 38.4, 448, GEFORCE_50),
    Entry("GeForce RTX 5070", 120, 48, 2512, 30.9, 30.9, 61.7, 61.7, 672, BLACKWELL_RTX),
    Entry("GeForce RTX 5070 Ti", 120, 70, 2452, 43.9, 43.9, 87.9, 87.9, 896, BLACKWELL_RTX),
    Entry("GeForce RTX 5080", 120, 84, 2617, 56.3, 56.3, 112.6, 112.6, 960, BLACKWELL_RTX),
    Entry("GeForce RTX 5090", 120, 170, 2407, 104.8, 104.8, 209.5, 209.5, 1792, BLACKWELL_RTX),
)


def entry_for(name: str) -> Entry | None:
    """Return the GPU of a name as people or the driver write it ("RTX 4090", "NVIDIA GeForce RTX 4090"), or None."""
    wanted = _normal(name)
    for entry in ENTRIES:
        if wanted in {_normal(known) for known in (entry.name, *entry.driver_names)}:
            return entry
    return None


def ceilings_of(name: str) -> Ceilings:
    """Return the stated peaks as ceilings: one bandwidth for all directions, and no launch time (no sheet has one).

    Raises:
        UsageError: the GPU is not in the list; the message says which are.
    """
    entry = entry_for(name)
    if entry is None:
        names = [known.name for known in ENTRIES]
        near = difflib.get_close_matches(_normal(name), {_normal(known): known for known in names}, n=1, cutoff=0.5)
        hint = next((f" (did you mean {known}?)" for known in names if _normal(known) in near), "")
        raise UsageError(f"there is no data sheet of {name!r} here{hint}; known are {', '.join(names)}")
    bandwidth = entry.gb_per_s * 1e9
    return Ceilings(
        gpu=entry.name,
        source="datasheet",
        read_bytes_per_s=bandwidth,
        write_bytes_per_s=bandwidth,
        copy_bytes_per_s=bandwidth,
        flop_per_s={arithmetic: rate * 1e12 for arithmetic, rate in entry.tflop_per_s.items()},
        launch_us=0.0,
        sm=entry.sm,
        multiprocessors=entry.multiprocessors,
        details={
            "document": entry.source,
            "notes": ["data sheets do not give the cost of a launch: launches are left out"],
        },
    )


def _normal(name: str) -> str:
    return re.sub(r"[^a-z0-9]|\b(nvidia|geforce|tesla)\b", "", name.lower())
