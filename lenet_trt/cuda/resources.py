"""Calculate what a variant takes of a multiprocessor, for GPUs that are not here: registers, shared memory, occupancy.

The compiler tells the registers and the local memory of a thread, and the shared memory of a block (``ptxas -v``); the
limits of each architecture are from the technical specifications in NVIDIA's CUDA Programming Guide 13.0.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from lenet_trt.cuda.compile import compiler_log
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.dims import as_dim
from lenet_trt.kernel.variants import Variant

_WARP = 32
_REGISTERS = 65_536  # of a multiprocessor, 32 bits each
_REGISTER_UNIT = 256  # a warp gets a multiple of this
_SHARED_UNIT = 128
_KIB = 1024


@dataclass(frozen=True)
class Multiprocessor:
    """Hold the limits of an architecture's multiprocessor; ``reserved``: bytes of shared memory lost to each block."""

    warps: int
    blocks: int
    shared_bytes: int
    reserved: int


MULTIPROCESSORS_OF = {
    75: Multiprocessor(32, 16, 64 * _KIB, 0),
    80: Multiprocessor(64, 32, 164 * _KIB, _KIB),
    86: Multiprocessor(48, 16, 100 * _KIB, _KIB),
    87: Multiprocessor(48, 16, 164 * _KIB, _KIB),
    89: Multiprocessor(48, 24, 100 * _KIB, _KIB),
    90: Multiprocessor(64, 32, 228 * _KIB, _KIB),
    100: Multiprocessor(64, 32, 228 * _KIB, _KIB),
    120: Multiprocessor(48, 24, 100 * _KIB, _KIB),
}


@dataclass(frozen=True)
class Resources:
    """Hold what a launch takes: registers and bytes of local memory of a thread, bytes of shared memory of a block.

    Local memory has what is spilled, and arrays whose indices the compiler does not know.
    """

    threads: int
    registers: int
    shared_bytes: int
    local_bytes: int

    def blocks(self, sm: int) -> tuple[int, str]:
        """Return how many blocks a multiprocessor holds at once, and what limits them; 0: the launch cannot run.

        Raises:
            LenetTrtError: the limits of that architecture are not known here.
        """
        if sm not in MULTIPROCESSORS_OF:
            known = ", ".join(f"sm_{each}" for each in MULTIPROCESSORS_OF)
            raise LenetTrtError(f"the limits of sm_{sm} are not known; known are {known}")
        limits = MULTIPROCESSORS_OF[sm]
        warps = math.ceil(self.threads / _WARP)
        per_warp = _rounded(self.registers * _WARP, _REGISTER_UNIT)
        found = {
            "warps": limits.warps // warps,
            "blocks": limits.blocks,
            # Each of the four parts of a multiprocessor has a quarter of the registers.
            "registers": 4 * (_REGISTERS // 4 // per_warp) // warps if per_warp else limits.blocks,
        }
        if self.shared_bytes:
            taken = _rounded(self.shared_bytes + limits.reserved, _SHARED_UNIT)
            found["shared memory"] = limits.shared_bytes // taken
        least = min(found, key=lambda what: found[what])
        return found[least], least

    def occupancy(self, sm: int) -> float:
        """Return the share of a multiprocessor's warps that are in use, from 0 to 1."""
        blocks, _ = self.blocks(sm)
        return blocks * math.ceil(self.threads / _WARP) / MULTIPROCESSORS_OF[sm].warps


def resources_of(bound: Bound, variant: Variant, sm: int) -> Resources:
    """Compile the variant for an architecture and read what it takes.

    Raises:
        LenetTrtError: it does not compile, or the compiler does not tell.
    """
    log = compiler_log(bound.specialized, variant, f"sm_{sm}")
    log = log.partition(f"Compiling entry function '{bound.kernel.entry(variant)}'")[2]  # a source may have several
    used, local = re.search(r"Used (\d+) registers", log), re.search(r"(\d+) bytes stack frame", log)
    if used is None or local is None:
        raise LenetTrtError(f"the compiler does not tell the registers of {bound.kernel.name} {variant.name}: {log}")
    fixed = re.search(r"(\d+) bytes smem", log)
    static = int(fixed[1]) if fixed else 0
    dynamic = as_dim(variant.launch.shared_bytes).evaluate(bound.sizes)
    return Resources(math.prod(variant.launch.block), int(used[1]), static + dynamic, int(local[1]))


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit
