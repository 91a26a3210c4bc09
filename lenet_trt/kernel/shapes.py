"""Derive axis values from shapes, and shapes from axis values: the only place that does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.dims import AxisValue, Constant, Dim, as_dim

if TYPE_CHECKING:
    from lenet_trt.kernel.declaration import Kernel
    from lenet_trt.kernel.tensors import Tensor

Shape: TypeAlias = tuple[int, ...]
UNKNOWN = -1


def solved_axes(
    kernel: Kernel, tensors: Sequence[Tensor], shapes: Sequence[Shape], named: Mapping[str, int]
) -> dict[str, int]:
    """Find axis values from shapes, without axes of unknown size; ``named`` are sizes that attributes give.

    Raises:
        LenetTrtError: the shapes do not fit the declared ones, or each other.
    """
    if len(shapes) != len(tensors):
        names = ", ".join(tensor.name for tensor in tensors)
        raise LenetTrtError(f"{kernel.name} takes {len(tensors)} inputs ({names}), not {len(shapes)}")
    axes: dict[str, int] = {}
    owners: dict[str, str] = {}
    computed: list[tuple[Tensor, Shape, Dim, int]] = []
    for tensor, shape in zip(tensors, shapes, strict=True):
        if len(shape) != len(tensor.shape):
            reason = f"it has {len(shape)} axes instead of {len(tensor.shape)}"
            raise _shape_error(kernel, tensor, shape, reason)
        for declared, size in zip(map(as_dim, tensor.shape), shape, strict=True):
            if size == UNKNOWN:
                continue
            if size < 0:
                raise _shape_error(kernel, tensor, shape, "a size is negative")
            if not isinstance(declared, AxisValue) or declared.name in named:
                computed.append((tensor, shape, declared, size))
                continue
            name = declared.name
            owners.setdefault(name, tensor.name)
            if axes.setdefault(name, size) != size:
                reason = f"{name} is {size} here and {axes[name]} in {owners[name]}"
                raise _shape_error(kernel, tensor, shape, reason)
    for tensor, shape, wanted, size in computed:
        known = {**named, **axes}
        if wanted.axes <= known.keys() and wanted.evaluate(known) != size:
            value = wanted.evaluate(known)
            what = f"{wanted} is {value}" if not isinstance(wanted, Constant) else f"it is {value}"
            raise _shape_error(kernel, tensor, shape, f"{what} there, not {size}")
    return axes


def _shape_error(kernel: Kernel, tensor: Tensor, shape: Shape, reason: str) -> LenetTrtError:
    wanted = ", ".join(str(size) for size in tensor.shape)
    return LenetTrtError(f"{tensor.name} has shape {list(shape)}; {kernel.name} wants [{wanted}]: {reason}")


def evaluated_shape(kernel: Kernel, tensor: Tensor, axes: Mapping[str, int]) -> Shape:
    """Return the shape of a tensor for these sizes of the axes and attributes.

    Raises:
        LenetTrtError: a size would be negative.
    """
    shape = tuple(as_dim(size).evaluate(axes) for size in tensor.shape)
    if any(size < 0 for size in shape):
        values = ", ".join(f"{name} {value}" for name, value in axes.items())
        raise LenetTrtError(
            f"{kernel.name}: {tensor.name} would have shape {list(shape)}; the input is too small ({values})"
        )
    return shape


def check_requirements(kernel: Kernel, sizes: Mapping[str, int]) -> None:
    """Check each comparison whose sizes are known; a call, where all of them are, is checked completely.

    Raises:
        LenetTrtError: the kernel is not for these sizes.
    """
    if kernel.requires is None:
        return
    for comparison in kernel.requires.comparisons:
        if comparison.axes <= sizes.keys() and not comparison.evaluate(sizes):
            seen = ", ".join(f"{name} = {sizes[name]}" for name in sorted(comparison.axes))
            raise LenetTrtError(f"{kernel.name} wants {comparison}, and {seen}")
