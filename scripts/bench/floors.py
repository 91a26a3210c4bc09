"""The least time that a workload can take: bytes over bandwidth, operations over arithmetic rate, and the launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Arithmetic = Literal["fp32", "split", "fp16"]

# A product of floats from tensor cores: both operands split into two fp16 halves, the three larger products kept.
SPLIT_PRODUCTS = 3
# Traffic of which at least this much is reads is held against the read bandwidth, other traffic against a copy's.
MOSTLY_READS = 0.75


@dataclass(frozen=True)
class Ceilings:
    """What the GPU was seen to do in the same run."""

    copy_bytes_per_s: float
    read_bytes_per_s: float
    fp32_flop_per_s: float
    fp16_flop_per_s: float
    launch_us: float


@dataclass(frozen=True)
class Work:
    """What has to be done: every input byte read once, every output byte written once, the operations of the math."""

    read_bytes: int
    written_bytes: int
    flops: int


def memory_us(work: Work, ceilings: Ceilings) -> float:
    """The time to move the bytes through device memory."""
    total = work.read_bytes + work.written_bytes
    reads = work.read_bytes >= MOSTLY_READS * total
    return total / (ceilings.read_bytes_per_s if reads else ceilings.copy_bytes_per_s) * 1e6


def arithmetic_us(work: Work, arithmetic: Arithmetic, ceilings: Ceilings) -> float:
    """The time for the operations: by multiply-adds in float, by tensor cores at float accuracy, or by fp16."""
    if arithmetic == "fp32":
        return work.flops / ceilings.fp32_flop_per_s * 1e6
    products = SPLIT_PRODUCTS if arithmetic == "split" else 1
    return products * work.flops / ceilings.fp16_flop_per_s * 1e6


def floor_us(work: Work, arithmetic: Arithmetic, ceilings: Ceilings, launch: bool) -> float:
    """The floor: the longer of the two times, after the launch where that is part of what is timed."""
    longer = max(memory_us(work, ceilings), arithmetic_us(work, arithmetic, ceilings))
    return longer + (ceilings.launch_us if launch else 0.0)


def floors(work: Work, precision: Literal["fp32", "fp16"], ceilings: Ceilings, launch: bool) -> dict[str, float]:
    """The floor for each arithmetic that gives results of that precision."""
    ways: tuple[Arithmetic, ...] = ("fp32", "split") if precision == "fp32" else ("fp16",)
    return {way: floor_us(work, way, ceilings, launch) for way in ways}
