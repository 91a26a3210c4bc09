"""Give open axes of a model sizes by their names, so that everything that reads it afterwards sees fixed shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx import GraphProto, ModelProto, ValueInfoProto

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.kernel.shapes import Shape
from lenet_trt.onnx_model.inferred import inferred
from lenet_trt.onnx_model.large import check_model
from lenet_trt.onnx_model.profiles import Axes, axes_of, axes_text, inputs_of
from lenet_trt.onnx_model.shapes import known, node_name

_UNNAMED = "?"
_SOME_BATCH = 2


def with_sizes(
    model: ModelProto,
    sizes: Mapping[str, int],
    batch: str | None = None,
    shapes: Iterable[Mapping[str, Shape]] = (),
) -> ModelProto:
    """Return the model with these sizes of its open axes; its other shapes are inferred again, as far as they follow.

    ``batch``, ``shapes``: the sizes that other options give to first axes and whole inputs, which must agree.

    Raises:
        UsageError: no input has an open axis of that name, another option gives it another size, or the model is not
            for these sizes.
    """
    if not sizes:
        return model
    inputs = inputs_of(model)
    _check_names(inputs, sizes)
    _check_options(inputs, sizes, batch, shapes)
    try:
        fixed = _fixed(model, sizes)
        check_model(fixed, full_check=True)
        _check_reshapes(fixed)
    except (LenetTrtError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        raise UsageError(
            f"{_option(sizes)}: the model is not for these sizes, its shapes contradict each other: "
            f"{' '.join(str(error).split())}"
        ) from error
    return fixed


def batch_sizes(model: ModelProto, batch: int) -> dict[str, int]:
    """Return this size for the named first axes of the inputs; none where no first axis is open and has a name."""
    first = (axes[0] for axes in inputs_of(model).values() if axes)
    return {axis: batch for axis in first if isinstance(axis, str) and axis != _UNNAMED}


def _fixed(model: ModelProto, sizes: Mapping[str, int]) -> ModelProto:
    """Put the sizes in wherever the names are, and infer the outputs' shapes.

    ONNX Runtime's ``make_dim_param_fixed`` does the first part, but it imports torch where that is installed.
    """
    fixed = ModelProto()
    fixed.CopyFrom(model)
    for value in _values(fixed.graph):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    # Exporters also note sizes such as "4*batch", which are wrong names now.
    noted = [value for value in fixed.graph.value_info if not _computed_from(sizes, value)]
    del fixed.graph.value_info[:]
    fixed.graph.value_info.extend(noted)
    for value, found in zip(fixed.graph.output, inferred(fixed).graph.output, strict=True):
        if not any(isinstance(axis, str) for axis in axes_of(found)):
            value.CopyFrom(found)
    return fixed


def _values(graph: GraphProto) -> Iterator[ValueInfoProto]:
    """Return every value that a graph describes, and those of the graphs inside it."""
    yield from (*graph.input, *graph.output, *graph.value_info)
    for entry in (entry for node in graph.node for entry in node.attribute):
        for inner in [entry.g] if entry.HasField("g") else entry.graphs:
            yield from _values(inner)


def _check_reshapes(model: ModelProto) -> None:
    """Refuse a ``Reshape`` to another number of elements, which ONNX's inference lets pass.

    torch's exporter without dynamo writes the length of its example's sequence into attention, whatever is open. Where
    the batch alone is still open, some batch stands for it.
    """
    inputs = inputs_of(model).values()
    left = {axis for axes in inputs for axis in axes if isinstance(axis, str)}
    if not left <= {axis for axes in inputs for axis in axes[:1]}:
        return
    try:
        found = known(model, {str(axis): _SOME_BATCH for axis in left})
    except LenetTrtError:
        if left:  # it may be for other batches
            return
        raise
    for node in (node for node in found.nodes if node.op_type == "Reshape"):
        before, after = (found.tensors.get(name) for name in (node.input[0], node.output[0]))
        if before and after and before.elements != after.elements:
            raise LenetTrtError(
                f"Reshape {node_name(node)} makes {list(after.shape)} of {list(before.shape)}: the exporter "
                "wrote sizes of its example there. Take these sizes, or export with others (torch: with dynamo=True)"
            )


def _computed_from(sizes: Mapping[str, int], value: ValueInfoProto) -> bool:
    """Say whether the name of an axis is an expression of axes that have sizes now."""
    words = {word for axis in axes_of(value) if isinstance(axis, str) for word in re.findall(r"\w+", axis)}
    return not words.isdisjoint(sizes)


def _check_names(inputs: Mapping[str, Axes], sizes: Mapping[str, int]) -> None:
    """Refuse names that no input has for an open axis."""
    open_axes = {axis for axes in inputs.values() for axis in axes if isinstance(axis, str)}
    unknown = [name for name in sizes if name not in open_axes - {_UNNAMED}]
    if not unknown:
        return
    if not open_axes:
        raise UsageError(f"{_option(sizes)}: the model's shapes are fixed ({axes_text(inputs)}); leave it out")
    unnamed = ". An axis that is shown as ? has no name: export it with one" if _UNNAMED in open_axes else ""
    raise UsageError(
        f"--sizes: no input has an open axis {', '.join(unknown)}; the model has {axes_text(inputs)}{unnamed}"
    )


def _check_options(
    inputs: Mapping[str, Axes], sizes: Mapping[str, int], batch: str | None, shapes: Iterable[Mapping[str, Shape]]
) -> None:
    """Refuse a second size of an axis."""
    first = {axes[0] for axes in inputs.values() if axes and isinstance(axes[0], str)}
    if batch is not None and first and first <= sizes.keys():
        raise UsageError(
            f"--batch {batch}: {_option(sizes)} fixes the first axis already ({axes_text(inputs)}): leave one of the "
            "two out"
        )
    for given in shapes:
        for name, shape in given.items():
            for axis, size in zip(inputs.get(name, ()), shape, strict=False):  # another rank is refused later
                if isinstance(axis, str) and sizes.get(axis, size) != size:
                    raise UsageError(
                        f"the shape {name}:{'x'.join(map(str, shape))} and {_option(sizes)} contradict each other: "
                        f"{name} is [{', '.join(map(str, inputs[name]))}]; give {axis} one size"
                    )


def _option(sizes: Mapping[str, int]) -> str:
    return "--sizes " + ",".join(f"{name}={size}" for name, size in sizes.items())
