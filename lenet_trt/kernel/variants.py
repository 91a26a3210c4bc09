"""Declare the implementations of a kernel: variants with their launches, and which call each is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from lenet_trt.kernel.dims import Condition, Dim, DimLike, as_dim
from lenet_trt.kernel.tensor_maps import TensorMap
from lenet_trt.kernel.tensors import Types

OLDEST_SM = 75
MAX_BLOCK_THREADS = 1024
MAX_GRID_Y = 65_535  # blocks along y
# Dynamic shared memory that a block may have on each architecture, in KiB. On one that is not named it is taken to be
# the least that any has had since sm_80. Source: CUDA C++ Programming Guide 13.0, technical specifications.
_SHARED_KIB = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}
_LEAST_SHARED_KIB = 99
_NO_SIZES: Mapping[str, int] = {}


@dataclass(frozen=True)
class Launch:
    """Declare a launch of a call.

    ``extras`` are the int32 arguments between inputs and outputs, in order. Sizes may use
    ``size_of("T")`` and ``MULTIPROCESSORS``. ``shared_bytes`` is the dynamic shared memory only.
    ``workspace``: the address of the variant's workspace is an argument too, after the outputs.
    ``maps`` are its last arguments (``const __grid_constant__ TensorMap``). A route that cannot pass them compiles the
    source with ``LAUNCH_MAPS=0``, as a kernel that has none and is launched the same way.
    ``entry`` and ``source`` are those of the variant, where the launch does not say its own.
    """

    grid: tuple[DimLike, DimLike, DimLike]
    block: tuple[int, int, int]
    extras: tuple[DimLike, ...]
    shared_bytes: DimLike = 0
    workspace: bool = False
    entry: str | None = None
    source: str | None = None
    # Shown by no repr, so that tuned choices for a kernel without maps stay valid: see cuda.tuning_file.
    maps: tuple[TensorMap, ...] = field(default=(), repr=False)

    def substitute(self, values: Mapping[str, int]) -> Launch:
        """Return the same launch with some axes known."""
        x, y, z = (as_dim(size).substitute(values) for size in self.grid)
        extras = tuple(as_dim(extra).substitute(values) for extra in self.extras)
        shared_bytes = as_dim(self.shared_bytes).substitute(values)
        maps = tuple(each.substitute(values) for each in self.maps)
        return replace(self, grid=(x, y, z), extras=extras, shared_bytes=shared_bytes, maps=maps)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Return every expression of the launch: grid, shared memory, extras."""
        return tuple(as_dim(value) for value in (*self.grid, self.shared_bytes, *self.extras))


@dataclass(frozen=True)
class Variant:
    """Declare one implementation; the first one that can run a call and is preferred for it is used.

    It can run where the GPU is at least ``min_sm`` (with ``only_sm``: exactly that, since it is compiled with
    instructions that no other architecture has, as ``sm_90a``) and has the shared memory that it always needs,
    ``types`` (names; None: all) has the call's types, and ``when`` holds. ``prefer`` holds for the sizes at which it
    was the fastest (None: all); it may name ``MULTIPROCESSORS``, and what ``lenet-trt tune`` found comes before it.
    ``entry`` is the ``__global__`` name, by default ``<kernel>_<variant>``.
    ``stores_once``: it stores each element of its outputs once, so that a host that looks at them sees no other value.

    ``then`` are further launches of the same call, in order after ``launch``; the entry of the first of them is by
    default ``<kernel>_<variant>_2``. Each has the same arguments. ``workspace`` is the number of bytes of memory that
    a call needs between and in its launches; its content is undefined before the first. It may not depend on
    ``MULTIPROCESSORS``, since an engine fixes it for every GPU.
    """

    name: str
    launch: Launch
    note: str
    source: str = "kernel.cu"
    entry: str | None = None
    min_sm: int = OLDEST_SM
    only_sm: bool = False
    types: tuple[str, ...] | None = None
    when: Condition | None = None
    prefer: Condition | None = None
    stores_once: bool = False
    then: tuple[Launch, ...] = ()
    workspace: DimLike = 0

    @cached_property
    def parts(self) -> tuple[Variant, ...]:
        """Return a variant of one launch for each launch of a call, in order: each compiles as one."""
        return tuple(
            replace(
                self,
                name=self.name if index == 1 else f"{self.name}_{index}",
                launch=launch,
                source=launch.source or self.source,
                entry=launch.entry or (self.entry if index == 1 else None),
                then=(),
            )
            for index, launch in enumerate((self.launch, *self.then), 1)
        )

    @property
    def is_one_launch(self) -> bool:
        """Return whether a call is one launch that needs no workspace, as some routes want it."""
        return not self.then and not self.launch.workspace

    @property
    def takes_any_size(self) -> bool:
        """Return whether it runs every size and is preferred for every size that no earlier variant takes."""
        return self.when is None and self.prefer is None

    def runs_on(self, sm: int) -> bool:
        """Return whether that architecture has the instructions that the variant uses."""
        return sm == self.min_sm if self.only_sm else sm >= self.min_sm

    def supports(self, sm: int, types: Types, sizes: Mapping[str, int] = _NO_SIZES) -> bool:
        """Return whether it is for that architecture and those types: for any sizes, or where these are known.

        With known sizes, a block of that architecture has the shared memory that they need.
        """
        if not self.runs_on(sm) or (self.types is not None and types.name not in self.types):
            return False
        wanted = [as_dim(part.launch.shared_bytes) for part in self.parts]
        limit = 1024 * _SHARED_KIB.get(sm, _LEAST_SHARED_KIB)
        return all(shared.evaluate(sizes) <= limit for shared in wanted if shared.axes <= sizes.keys())
