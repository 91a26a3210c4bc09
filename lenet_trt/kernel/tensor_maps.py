"""Declare tensor maps, by which a kernel copies boxes of an input: TMA, the tensor memory accelerator of sm_90.

A box comes to shared memory by one instruction of one thread. The driver makes a map (``cuTensorMapEncodeTiled``) from
the input's address, the sizes and the box, before each launch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.dims import Constant, Dim, DimLike, as_dim
from lenet_trt.kernel.types import ELEMENT_TYPES

# What the driver takes. Source: cuTensorMapEncodeTiled in the CUDA driver API 13.0.
FIRST_SM = 90
MAX_MAP_RANK, MAX_BOX_SIZE, MAX_MAP_SIZE, MAX_STRIDE_BYTES = 5, 256, 2**32, 2**40
UNIT_BYTES = 16  # what addresses and strides are multiples of, and what a swizzle moves
SWIZZLED_BYTES = (32, 64, 128)


@dataclass(frozen=True)
class TensorMap:
    """Declare a tensor map: an argument of the kernel, by which it copies boxes of an input.

    The memory of the input ``tensor`` is taken for a dense array of ``shape``, outermost axis first, and ``box`` is the
    shape of a box of it, in sizes that are compiled in. A row of a box has 32, 64 or 128 bytes, and comes with its
    16-byte units swizzled over as many bytes: rows below each other then have different banks of shared memory.
    Elements of a box beyond the shape are zeros.
    """

    tensor: str
    shape: tuple[DimLike, ...]
    box: tuple[DimLike, ...]

    def substitute(self, values: Mapping[str, int]) -> TensorMap:
        """Return the same map with some axes known."""
        shape, box = (tuple(as_dim(size).substitute(values) for size in sizes) for sizes in (self.shape, self.box))
        return TensorMap(self.tensor, shape, box)

    def problems(self, inputs: Sequence[str]) -> Iterator[str]:
        """Return what no sizes can mend."""
        if self.tensor not in inputs:
            yield f"a tensor map is of {self.tensor}, which is no input"
        if len(self.shape) != len(self.box):
            yield f"the tensor map of {self.tensor} has {len(self.shape)} axes, and its box {len(self.box)}"
        if not 1 <= len(self.shape) <= MAX_MAP_RANK:
            yield f"the tensor map of {self.tensor} has {len(self.shape)} axes; 1 to {MAX_MAP_RANK} are possible"
        for size in map(as_dim, self.box):
            if isinstance(size, Constant) and not 1 <= size.value <= MAX_BOX_SIZE:
                yield f"the tensor map of {self.tensor} has a box of {size} along an axis; it has 1 to {MAX_BOX_SIZE}"


@dataclass(frozen=True)
class SpecializedMap:
    """Hold a tensor map with what is fixed when its kernel is compiled: all but the address and the runtime sizes.

    ``input`` counts from 0.
    """

    input: int
    tensor: str
    dtype: str
    shape: tuple[Dim, ...]
    box: tuple[int, ...]

    @property
    def element_bytes(self) -> int:
        return ELEMENT_TYPES[self.dtype].size_bytes

    @property
    def row_bytes(self) -> int:
        """Return the bytes of a row of the box, over which its units are swizzled."""
        return self.box[-1] * self.element_bytes

    def sizes(self, values: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape for these values of the axes.

        Raises:
            LenetTrtError: hardware copies no boxes of such an array.
        """
        sizes = tuple(size.evaluate(values) for size in self.shape)
        if any(not 1 <= size <= MAX_MAP_SIZE for size in sizes):
            raise LenetTrtError(f"the tensor map of {self.tensor} has the shape {list(sizes)}; an axis has 1 to 2^32")
        for stride in self.strides(sizes):
            if stride % UNIT_BYTES or stride >= MAX_STRIDE_BYTES:
                raise LenetTrtError(
                    f"the tensor map of {self.tensor} has the shape {list(sizes)}, with {stride} bytes between "
                    f"neighbours of an axis; that has to be a multiple of {UNIT_BYTES} below 2^40: refuse such sizes "
                    "in the declaration (when=...)"
                )
        return sizes

    def strides(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the bytes between neighbours of each axis but the last, outermost first."""
        return tuple(math.prod(sizes[axis:]) * self.element_bytes for axis in range(1, len(sizes)))


def specialized_map(declared: TensorMap, number: int, dtype: str) -> SpecializedMap:
    """Fix a map whose box is known: its input's number and element type.

    Raises:
        LenetTrtError: hardware copies no such boxes.
    """
    box = tuple(as_dim(size).evaluate({}) for size in declared.box)
    fixed = SpecializedMap(number, declared.tensor, dtype, tuple(map(as_dim, declared.shape)), box)
    what = f"the tensor map of {declared.tensor} has boxes of {list(box)} elements"
    if any(not 1 <= size <= MAX_BOX_SIZE for size in box):
        raise LenetTrtError(f"{what}; 1 to {MAX_BOX_SIZE} are possible along an axis")
    if fixed.row_bytes not in SWIZZLED_BYTES:
        allowed = ", ".join(map(str, SWIZZLED_BYTES[:-1]))
        raise LenetTrtError(
            f"{what}, whose rows have {fixed.row_bytes} bytes of {dtype}; they have to have {allowed} or "
            f"{SWIZZLED_BYTES[-1]}"
        )
    return fixed
