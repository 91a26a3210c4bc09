"""The least time that a workload can take: bytes over bandwidth, operations over arithmetic rate, and the launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.schema import Count, Duration, Rate

# "fp32" are multiply-adds in float; "tf32", "fp16" and "bf16" tensor cores; "split" float accuracy from fp16 tensor
# cores; "fp16_fma" and "bf16_fma" multiply-adds outside tensor cores.
Arithmetic: TypeAlias = str
BoundBy: TypeAlias = Literal["memory", "arithmetic"]

# A product of floats from tensor cores: both operands split into two fp16 halves, the three larger products kept.
SPLIT_PRODUCTS = 3
# Traffic of which at least this much goes one way is held against that way's bandwidth, other traffic against a copy's.
MOSTLY = 0.75
_FLOAT8_SM = ELEMENT_TYPES["float8_e4m3fn"].lowest_sm


@dataclass(frozen=True)
class Ceilings:
    """What a GPU can do: seen on the one that is here, or read in a data sheet (``source`` says which).

    ``flop_per_s`` has the rates by arithmetic: "fp32", "tf32", "fp16", "bf16" (the last three of tensor cores, dense);
    one that the GPU lacks is missing. A copy's bandwidth counts both what is read and what is written. ``sm`` is the
    architecture, 90 for compute capability 9.0. ``details`` say how each figure came about.
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
        """Operations a second; what the GPU has no rate for (or nobody knows it) is held against its multiply-adds.

        "split" is the faster of multiply-adds and split products: where tensor cores are slow, nobody splits. Products
        of 8-bit integers run at twice the rate of fp16 ones, and on a GeForce, which sums fp16 products in float at
        half its rate, at four times; fp8 products at twice the rate of fp16 ones where there are any. Source: the
        documents that ``lenet_trt.floors.datasheet`` names.
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
    """What has to be done: every input byte read once, every output byte written once, the operations of the math."""

    read_bytes: int
    written_bytes: int
    flops: int

    def __add__(self, other: Work) -> Work:
        return Work(
            self.read_bytes + other.read_bytes, self.written_bytes + other.written_bytes, self.flops + other.flops
        )

    @property
    def total_bytes(self) -> int:
        """All bytes that move, either way."""
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float:
        """Operations a byte; infinite where no byte moves."""
        return self.flops / self.total_bytes if self.total_bytes else float("inf") if self.flops else 0.0


def bandwidth(work: Work, ceilings: Ceilings) -> float:
    """The bytes a second that traffic of this mix is held against."""
    if work.read_bytes >= MOSTLY * work.total_bytes:
        return ceilings.read_bytes_per_s
    if work.written_bytes >= MOSTLY * work.total_bytes:
        return ceilings.write_bytes_per_s
    return ceilings.copy_bytes_per_s


def memory_us(work: Work, ceilings: Ceilings) -> float:
    """The time to move the bytes through device memory."""
    return work.total_bytes / bandwidth(work, ceilings) * 1e6


def arithmetic_us(work: Work, arithmetic: Arithmetic, ceilings: Ceilings) -> float:
    """The time for the operations in that arithmetic."""
    return work.flops / ceilings.rate(arithmetic) * 1e6


def bound_by(work: Work, arithmetic: Arithmetic, ceilings: Ceilings) -> BoundBy:
    """Which of the two takes longer."""
    longer = arithmetic_us(work, arithmetic, ceilings) > memory_us(work, ceilings)
    return "arithmetic" if longer else "memory"


def floor_us(work: Work, arithmetic: Arithmetic, ceilings: Ceilings, launch: bool) -> float:
    """The floor: the longer of the two times, after the launch where that is part of what is timed."""
    longer = max(memory_us(work, ceilings), arithmetic_us(work, arithmetic, ceilings))
    return longer + (ceilings.launch_us if launch else 0.0)


def floors(work: Work, precision: Literal["fp32", "fp16"], ceilings: Ceilings, launch: bool) -> dict[str, float]:
    """The floor for each arithmetic that gives results of that precision."""
    ways: tuple[Arithmetic, ...] = ("fp32", "split") if precision == "fp32" else ("fp16",)
    return {way: floor_us(work, way, ceilings, launch) for way in ways}
