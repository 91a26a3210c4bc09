"""Define numbered steps: earlier versions of a kernel, each in a few launches, in the folder ``steps`` of the kernel.

``steps/__init__.py`` lists them as ``STEPS``, and may have a ``CPU_STEP``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lenet_trt.kernel.dims import DimLike
from lenet_trt.kernel.registry import part
from lenet_trt.kernel.variants import Launch, Variant


@dataclass(frozen=True)
class StepLaunch:
    """Describe one launch of a file in ``steps``.

    ``arguments`` are tensors by name and 32-bit sizes, in the order of the function's parameters.
    """

    source: str
    entry: str
    grid: tuple[DimLike, DimLike, DimLike]
    block: int
    arguments: tuple[str | DimLike, ...]
    shared_bytes: DimLike = 0

    @property
    def variant(self) -> Variant:
        """Return the launch as a variant of the kernel, for compiling it."""
        launch = Launch(self.grid, (self.block, 1, 1), (), self.shared_bytes)
        return Variant(f"steps-{self.source}", launch, "", source=f"steps/{self.source}", entry=self.entry)


@dataclass(frozen=True)
class Step:
    """Describe one version of a kernel. ``buffers``: tensors between launches, by name; the last launch writes ``y``.

    ``constants`` are weights that are copied into symbols of the same name before the first launch; ``sync``
    waits after each launch, as the first version of the write-ups did.
    """

    name: str
    launches: tuple[StepLaunch, ...]
    buffers: Mapping[str, tuple[DimLike, ...]] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    sync: bool = False


@dataclass(frozen=True)
class CpuStep:
    """Describe a version of a kernel in C, compiled with the macros ``AXIS_...`` for these axes.

    Its function takes the inputs, the first axis (how many images) as an int, and the output. ``fewer`` are values of
    that axis that are timed as well.
    """

    name: str
    source: str
    entry: str
    axes: Mapping[str, int]
    fewer: tuple[int, ...] = ()


def like_variant(name: str, variant: Variant, source: str, entry: str, arguments: tuple[str | DimLike, ...]) -> Step:
    """Declare a step that is launched as a variant of the kernel is."""
    launch = variant.launch
    return Step(name, (StepLaunch(source, entry, launch.grid, launch.block[0], arguments, launch.shared_bytes),))


def steps_of(kernel: str) -> tuple[Step, ...]:
    """Return the numbered steps of that kernel; none where its folder has no ``steps``."""
    found = part(kernel, "steps")
    return () if found is None else tuple(found.STEPS)


def cpu_step_of(kernel: str) -> CpuStep | None:
    """Return the step in C of that kernel, or None."""
    step: CpuStep | None = getattr(part(kernel, "steps"), "CPU_STEP", None)
    return step
