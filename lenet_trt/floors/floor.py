"""Compute the least time of a workload: bytes over bandwidth, operations over arithmetic rate, and the launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.schema import Count, Duration, Rate

# "fp32": multiply-adds in float. "tf32", "fp16", "bf16": tensor cores. "split": float accuracy from fp16 tensor cores.
# "fp16_fma", "bf16_fma": multiply-adds without tensor cores.
Arithmetic: TypeAlias = str
BoundBy: TypeAlias = Literal["memory", "arithmetic"]

# A product of floats on tensor cores: each operand is split into two fp16 numbers, and the three larger of the four
# products are computed.
SPLIT_PRODUCTS = 3
# Where at least this share of the traffic goes one way, that way's bandwidth applies, otherwise a copy's bandwidth.
MOSTLY = 0.75
_FLOAT8_SM = ELEMENT_TYPES["float8_e4m3fn"].lowest_sm


@dataclass(frozen=True)
class Ceilings:
    """Hold what a GPU can do: measured on the GPU here, or read from a data sheet (``source`` says which).

    ``flop_per_s``: the rates by arithmetic: "fp32", and of tensor cores, dense, "tf32", "fp16", "bf16", "int8" and
    "fp8"; a rate that the GPU lacks is missing. The bandwidth of a copy counts bytes read and bytes written. ``sm``:
    the architecture, 90 for compute capability 9.0. ``details``: where each figure comes from.
    """

    gpu: str
    source: Literal["measured", "datasheet"]
    read_bytes_per_s: Rate
    write_bytes_per_s: Rate
    copy_bytes_per_s: Rate
    flop_per_s: Mapping[str, Rate]
    launch_us: Duration
    h2d_bytes_per_s: Rate | None = None
    d2h_bytes_per_s: Rate | None = None
    sm: Count = 0
    multiprocessors: Count = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    def rate(self, arithmetic: Arithmetic) -> float:
        """Return the operations per second; without a known rate, the rate of multiply-adds.

        "split" is the faster of multiply-adds and split products: where tensor cores are slow, splitting does not pay.
        Where their rate is not known, products of 8-bit integers run at twice the rate of fp16 products; on a GeForce,
        which adds fp16 products in float at half the rate, they run at four times that rate. Products of fp8, where the
        GPU has them, run at twice the rate of fp16. Source: the documents that ``lenet_trt.floors.datasheet`` names.
        """
        known = self.flop_per_s
        if arithmetic == "split":
            return max(known["fp32"], known.get("fp16", 0.0) / SPLIT_PRODUCTS)
        if arithmetic == "fp8" and 0 < self.sm < _FLOAT8_SM:
            return known.get("fp16", known["fp32"])  # it has no such tensor cores, so its layers compute in fp16
        if arithmetic == "fp8":
            return known.get("fp8", 2 * known.get("fp16", known["fp32"]))
        if arithmetic == "int8":
            return known.get("int8", (4 if "GeForce" in self.gpu else 2) * known.get("fp16", known["fp32"]))
        return known.get(arithmetic, known["fp32"])


@dataclass(frozen=True)
class Work:
    """Hold the work: every input byte is read once, every output byte is written once, and the math's operations."""

    read_bytes: int
    written_bytes: int
    flops: int

    def __add__(self, other: Work) -> Work:
        return Work(
            self.read_bytes + other.read_bytes, self.written_bytes + other.written_bytes, self.flops + other.flops
        )

    @property
    def total_bytes(self) -> int:
        """Return all bytes that move, read and written."""
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float:
        """Return the operations per byte; infinity where no byte moves."""
        return self.flops / self.total_bytes if self.total_bytes else float("inf") if self.flops else 0.0


def bandwidth(work: Work, ceilings: Ceilings) -> float:
    """Return the bandwidth in bytes per second that applies to traffic of this mix."""
    if work.read_bytes >= MOSTLY * work.total_bytes:
        return ceilings.read_bytes_per_s
    if work.written_bytes >= MOSTLY * work.total_bytes:
        return ceilings.write_bytes_per_s
    return ceilings.copy_bytes_per_s


def memory_us(work: Work, ceilings: Ceilings) -> float:
    """Return the time to move the bytes through device memory."""
    return work.total_bytes / bandwidth(work, ceilings) * 1e6


def arithmetic_us(work: Work, arithmetic: Arithmetic, ceilings: Ceilings) -> float:
    """Return the time for the operations in this arithmetic."""
    return work.flops / ceilings.rate(arithmetic) * 1e6


def bound_by(work: Work, arithmetic: Arithmetic, ceilings: Ceilings) -> BoundBy:
    """Say which of the two takes longer."""
    longer = arithmetic_us(work, arithmetic, ceilings) > memory_us(work, ceilings)
    return "arithmetic" if longer else "memory"


def floor_us(work: Work, arithmetic: Arithmetic, ceilings: Ceilings, launch: bool) -> float:
    """Return the floor: the longer of the two times, plus the launch where the launch is timed too."""
    longer = max(memory_us(work, ceilings), arithmetic_us(work, arithmetic, ceilings))
    return longer + (ceilings.launch_us if launch else 0.0)


def floors(
    work: Work, precision: Literal["fp32", "fp16", "int8"], ceilings: Ceilings, launch: bool
) -> dict[str, float]:
    """Return the floor for each arithmetic that gives results of this precision."""
    ways: tuple[Arithmetic, ...] = ("fp32", "split") if precision == "fp32" else (precision,)
    return {way: floor_us(work, way, ceilings, launch) for way in ways}
