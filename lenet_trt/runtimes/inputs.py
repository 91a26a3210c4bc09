"""Make inputs for a network that is only timed: of the given shapes, MNIST images where they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import UsageError
from lenet_trt.export.geometry import IMAGE_SHAPE
from lenet_trt.kernel.shapes import Shape
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.ports import Port
from lenet_trt.onnx_model.profiles import Axes, axes_text
from lenet_trt.options import LARGEST

_SEED = 0


@dataclass(frozen=True)
class Sizes:
    """Hold the sizes that a user gives: of open first axes, of axes by name, of whole inputs."""

    batch: int | None = None
    axes: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for option, size in (("--batch", self.batch), *((f"--sizes {name}", size) for name, size in self.axes.items())):
            if size is not None and not 1 <= size <= LARGEST:
                raise UsageError(f"{option} {size}: wanted a size from 1 to {LARGEST}")


def shapes_of(ports: Sequence[Port], given: Sizes) -> tuple[dict[str, Shape], dict[str, int]]:
    """Return the shape of each input, and the size of each named axis.

    Raises:
        UsageError: the network does not have an input or an axis that is named, or an axis is left open.
    """
    known = {port.name: port.axes for port in ports}
    described = axes_text(known)
    if unknown := sorted(set(given.shapes) - set(known)):
        raise UsageError(f"--shapes: there is no input {', '.join(unknown)}; the network has {described}")
    named = {axis for axes in known.values() for axis in axes if isinstance(axis, str)}
    if unknown := sorted(set(given.axes) - named):
        raise UsageError(f"there is no axis {', '.join(unknown)}; the network has {described}")
    if given.batch is not None and not given.axes and not any(_open_first(axes) for axes in known.values()):
        fixed = {axes[0] for axes in known.values() if axes}
        if fixed != {given.batch}:
            raise UsageError(f"--batch {given.batch}: the network's shapes are fixed ({described}); leave it out")
    counted = {axes[0] for axes in known.values() if _open_first(axes)}
    shapes = {name: _shape(name, axes, counted, given) for name, axes in known.items()}
    sizes: dict[str, int] = {}
    for name, axes in known.items():
        for axis, size in zip(axes, shapes[name], strict=True):
            if isinstance(axis, str) and axis != "?" and sizes.setdefault(axis, size) != size:
                raise UsageError(
                    f"the axis {axis} has the sizes {sizes[axis]} and {size}; wanted one size for {described}"
                )
    return shapes, sizes


def _open_first(axes: Axes) -> bool:
    return bool(axes) and isinstance(axes[0], str)


def _shape(name: str, axes: Axes, counted: set[int | str], sizes: Sizes) -> Shape:
    shape = sizes.shapes.get(name)
    if shape is not None:
        if len(shape) != len(axes) or any(isinstance(a, int) and a != b for a, b in zip(axes, shape, strict=True)):
            raise UsageError(f"--shapes {name}:{'x'.join(map(str, shape))}: the network has {axes_text({name: axes})}")
        return shape
    return tuple(_size(name, axes, at, counted, sizes) for at in range(len(axes)))


def _size(name: str, axes: Axes, at: int, counted: set[int | str], sizes: Sizes) -> int:
    axis = axes[at]
    if isinstance(axis, int):
        return axis
    if axis in sizes.axes:
        return sizes.axes[axis]
    if at == 0 or (axis != "?" and axis in counted):
        return sizes.batch or 1
    by_name = "" if axis == "?" else f"--sizes {axis}=N, or "
    raise UsageError(f"the axis {axis} of {name} has no size: give {by_name}--shapes {name}:{_example(axes)}")


def _example(axes: Axes) -> str:
    """Return sizes that fit, to show how they are written: 1 for the first axis, 224 for others that are open."""
    return "x".join(str(axis if isinstance(axis, int) else 1 if at == 0 else 224) for at, axis in enumerate(axes))


def arrays_for(ports: Sequence[Port], shapes: dict[str, Shape]) -> list[NDArray[Any]]:
    """Make seeded arrays of these shapes: MNIST's test images, repeated, for [n, 1, 28, 28], else random numbers."""
    random = np.random.default_rng(_SEED)
    return [_array(port, shapes[port.name], random) for port in ports]


def _array(port: Port, shape: Shape, random: np.random.Generator) -> NDArray[Any]:
    kind = numpy_dtype(port.dtype)
    if shape[1:] == IMAGE_SHAPE and port.takes_images():
        from lenet_trt.export.mnist import network_input, test_set

        images, _ = test_set()
        return network_input(images[np.arange(shape[0]) % len(images)]).astype(kind)
    if port.dtype == "bool" or kind.kind in "iu":  # small integers are usually valid indices
        return random.integers(0, 2, shape).astype(kind)
    if port.dtype == "float64":
        return random.standard_normal(shape)
    return random.standard_normal(shape, dtype=np.float32).astype(kind)
