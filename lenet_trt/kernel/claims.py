"""Say whether a kernel claims a layer, by the sizes that are known of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lenet_trt.kernel.attributes import attribute_sizes
from lenet_trt.kernel.dims import ARCHITECTURE, MODEL_AXES, Condition
from lenet_trt.kernel.shapes import Shape, solved_axes

if TYPE_CHECKING:
    from lenet_trt.kernel.bind import Specialized


def claimed(
    specialized: Specialized, input_shapes: Sequence[Shape], architectures: Sequence[int], model_axes: int | None = None
) -> bool:
    """Return whether the sizes that are known (-1: unknown) are among those that the kernel claims.

    ``architectures``: those of the GPUs that the kernel is for, each of which has to be among them; none: unknown.
    ``model_axes``: how many axes the first input has in the model; None: as many as the kernel gets.
    """
    claims = specialized.kernel.claims
    return not claims or one_holds(claims, specialized, input_shapes, architectures, model_axes)


def one_holds(
    conditions: Sequence[Condition],
    specialized: Specialized,
    input_shapes: Sequence[Shape],
    architectures: Sequence[int],
    model_axes: int | None = None,
) -> bool:
    """Return whether one of the conditions holds on each architecture (see ``claimed``)."""
    return all(
        any(condition.evaluate(known) for condition in conditions if condition.axes <= known.keys())
        for known in sizes_of_claims(specialized, input_shapes, architectures, model_axes)
    )


def sizes_of_claims(
    specialized: Specialized,
    input_shapes: Sequence[Shape],
    architectures: Sequence[int],
    model_axes: int | None = None,
) -> list[dict[str, int]]:
    """Return what is known of the sizes that a claim may name, for each architecture (see ``claimed``)."""
    kernel = specialized.kernel
    named = attribute_sizes(kernel, dict(specialized.attributes))
    sizes = {
        **specialized.known_sizes,
        **solved_axes(kernel, kernel.inputs, [tuple(shape) for shape in input_shapes], named),
    }
    sizes |= dict.fromkeys(MODEL_AXES.axes, len(input_shapes[0]) if model_axes is None else model_axes)
    (name,) = ARCHITECTURE.axes
    return [{**sizes, name: architecture} for architecture in architectures] or [sizes]
