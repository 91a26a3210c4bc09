"""Make optimization profiles: the smallest, the usual and the largest shape of each dynamic input."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from onnx import ModelProto, TypeProto, ValueInfoProto

from lenet_trt.errors import UsageError
from lenet_trt.kernel.shapes import Shape
from lenet_trt.options import GIVE_SIZES, read_whole

Axes: TypeAlias = tuple[int | str, ...]

DEFAULT_BATCH = "1:8:32"
LENET5_BATCH = "1:64:16384"  # of the shipped LeNet-5, whose images are small: up to the whole test set


@dataclass(frozen=True)
class Profile:
    """Hold the smallest, usual and largest shape of one input of an engine; tactics are timed at ``opt``."""

    min: Shape
    opt: Shape
    max: Shape


def inputs_of(model: ModelProto) -> dict[str, Axes]:
    """Return the model's inputs and their axes: an int where the size is fixed, a name (or "?") where it is dynamic."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return {value.name: axes_of(value) for value in model.graph.input if value.name not in constants}


def axes_of(value: ValueInfoProto) -> Axes:
    """Return the axes of one declared tensor: an int where the size is fixed, a name (or "?") where it is dynamic."""
    return tuple("?" if axis is None else axis for axis in type_axes(value.type) or ())


def type_axes(kind: TypeProto) -> tuple[int | str | None, ...] | None:
    """Return the axes that a type tells: a size, a name or None (open); None where not even their number is known."""
    if not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims)


def parse_batch(text: str) -> tuple[int, int, int]:
    """Read ``MIN:OPT:MAX`` (or one number for all three).

    Raises:
        UsageError: not numbers, not positive, or not in order.
    """
    parts = text.split(":")
    if len(parts) not in (1, 3):
        raise UsageError(f"--batch {text}: wanted MIN:OPT:MAX, such as 1:64:1024, or one number")
    try:
        low, usual, high = (read_whole(part) for part in (parts * 3 if len(parts) == 1 else parts))
    except ArgumentTypeError as error:
        raise UsageError(f"--batch {text}: {error}; wanted MIN:OPT:MAX, such as 1:64:1024, or one number") from None
    if not low <= usual <= high:
        raise UsageError(f"--batch {text}: wanted 1 <= MIN <= OPT <= MAX")
    return low, usual, high


def parse_shapes(option: str, text: str) -> dict[str, Shape]:
    """Read trtexec's ``name:1x3x224x224,other:1x10`` (names may hold colons).

    Raises:
        UsageError: names the part that is not of this form.
    """
    shapes = {}
    for part in text.split(","):
        match = re.fullmatch(r"(.+):([0-9]+(?:x[0-9]+)*)", part.strip())
        if not match:
            raise UsageError(f"{option} {part}: wanted NAME:1x3x28x28, several separated by commas")
        try:
            shapes[match[1]] = tuple(read_whole(size) for size in match[2].split("x"))
        except ArgumentTypeError as error:
            raise UsageError(f"{option} {part}: {error}") from None
    return shapes


def profile_for(
    inputs: Mapping[str, Axes],
    batch: str | None = None,
    shapes: tuple[Mapping[str, Shape], Mapping[str, Shape], Mapping[str, Shape]] | None = None,
    default: str = DEFAULT_BATCH,
) -> dict[str, Profile]:
    """Choose a profile for every dynamic input; a model without any gets an empty answer.

    ``shapes`` are the smallest, usual and largest shapes by input name; without them ``batch`` (``MIN:OPT:MAX``) sizes
    the first axis, or ``default`` where that is not given.

    Raises:
        UsageError: an unknown input, a shape that contradicts the model or its neighbours, or an axis left open.
    """
    dynamic = {name: axes for name, axes in inputs.items() if any(isinstance(axis, str) for axis in axes)}
    if shapes is not None:
        if batch is not None:
            raise UsageError("--batch and --minShapes/--optShapes/--maxShapes contradict each other: give one")
        return _from_shapes(inputs, dynamic, shapes)
    if not dynamic:
        if batch is not None:
            raise UsageError(f"--batch {batch}: this model's shapes are fixed ({axes_text(inputs)}); leave it out")
        return {}
    low, usual, high = parse_batch(batch or default)
    profiles = {}
    for name, axes in dynamic.items():
        rest = tuple(axis for axis in axes[1:] if isinstance(axis, int))
        if len(rest) != len(axes) - 1:
            raise UsageError(
                f"input {name} has dynamic axes besides the first ({axes_text({name: axes})}): "
                f"{GIVE_SIZES}, or ranges with --minShapes, --optShapes and --maxShapes"
            )
        profiles[name] = Profile((low, *rest), (usual, *rest), (high, *rest))
    return profiles


def _from_shapes(
    inputs: Mapping[str, Axes],
    dynamic: Mapping[str, Axes],
    shapes: tuple[Mapping[str, Shape], Mapping[str, Shape], Mapping[str, Shape]],
) -> dict[str, Profile]:
    unknown = set().union(*shapes) - set(inputs)
    if unknown:
        raise UsageError(f"there is no input {', '.join(sorted(unknown))}; the model has {axes_text(inputs)}")
    profiles = {}
    for name in sorted(set(dynamic) | set().union(*shapes)):
        missing = [
            option
            for option, given in zip(("--minShapes", "--optShapes", "--maxShapes"), shapes, strict=True)
            if name not in given
        ]
        if missing:
            raise UsageError(f"input {name} ({axes_text({name: inputs[name]})}) is missing from {', '.join(missing)}")
        low, usual, high = (given[name] for given in shapes)
        for shape in (low, usual, high):
            _check_fits(name, inputs[name], shape)
        if not all(a <= b <= c for a, b, c in zip(low, usual, high, strict=True)):
            raise UsageError(f"input {name}: wanted min <= opt <= max on each axis, seen {low}, {usual}, {high}")
        if name in dynamic:
            profiles[name] = Profile(low, usual, high)
    return profiles


def _check_fits(name: str, axes: Axes, shape: Shape) -> None:
    fits = len(shape) == len(axes) and all(
        isinstance(axis, str) or axis == size for axis, size in zip(axes, shape, strict=True)
    )
    if not fits:
        raise UsageError(
            f"input {name} is {axes_text({name: axes})} in the model, and {'x'.join(map(str, shape))} does not fit"
        )


def axes_text(inputs: Mapping[str, Axes]) -> str:
    """Write inputs with their axes, for messages: ``x [batch, sequence, 8], mask [batch, sequence]``."""
    return ", ".join(f"{name} [{', '.join(map(str, axes))}]" for name, axes in inputs.items())
