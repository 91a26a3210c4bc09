"""Find and check the places in a model where a kernel can be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import onnx

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.beside import Neighbours, neighbours
from lenet_trt.fuse.cut import Uses, title
from lenet_trt.fuse.match import Match, find
from lenet_trt.fuse.normal_form import normal_forms
from lenet_trt.fuse.packing_check import check_packing
from lenet_trt.fuse.parts import read_in_place
from lenet_trt.fuse.place_views import Input, OutputView, UnusableError, inputs_and_views
from lenet_trt.fuse.quantized import quantization_around
from lenet_trt.fuse.unclaimed import when_taken
from lenet_trt.fuse.working_copy import PartialShape, WorkingGraph
from lenet_trt.kernel.bind import Specialized
from lenet_trt.kernel.call_types import OtherTypesError
from lenet_trt.kernel.claims import claimed, one_holds, sizes_of_claims
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.dims import AxisValue, Condition, as_dim
from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.onnx_model.plugin_nodes import Refusal


@dataclass(frozen=True, eq=False)
class Place:
    """Hold a match that passed every check, and the inputs of its plugin node.

    ``beside``, ``grouped``: the kernel does not claim the sizes, and is taken beside other plugins alone, or in a group
    of them. ``joining``: nodes that TensorRT joins with its own layer (``Kernel.joined_by``): it is taken only where
    plugins replace these too.
    """

    match: Match
    rank: int
    specialized: Specialized
    inputs: tuple[Input, ...]
    output_views: tuple[OutputView | None, ...]
    narrowed: frozenset[str]  # outputs that the kernel gives as int32 where ONNX has int64
    plain_shapes: Mapping[str, Shape]
    known: Mapping[str, PartialShape]  # the file's tensors that are read or replaced
    titles: tuple[str, ...]
    neighbours: Neighbours
    beside: bool = False
    grouped: bool = False
    joining: frozenset[int] = frozenset()

    @property
    def key(self) -> tuple[str, frozenset[int]]:
        """Return the kernel's name and the nodes that it replaces."""
        return self.kernel.name, self.match.origins

    @property
    def claimed(self) -> bool:
        """Return whether the place is taken whatever is next to it."""
        return not self.beside and not self.grouped

    def is_joined(self, taken: Set[int]) -> bool:
        """Return whether TensorRT joins the layer with a reader, where plugins replace the nodes ``taken``."""
        return not self.joining <= taken

    def is_part_of(self, whole: Place) -> bool:
        """Return whether ``whole``, which TensorRT joins, has all these nodes, and it would join this place too."""
        return bool(self.kernel.joined_by) and self.is_within(whole)

    def is_within(self, other: Place) -> bool:
        """Return whether another place replaces the same nodes, or more of them."""
        return self.match.origins <= other.match.origins

    def missing(self, taken: Set[int]) -> str | None:
        """Say why a place is not taken where plugins replace the nodes ``taken``; None: others replace its nodes."""
        if self.is_joined(taken):
            return f"TensorRT joins its own layer with one that reads {self.match.outputs[0]}"
        if self.claimed:
            return None
        where = "beside plugins" if self.beside else "among as many plugins as pay for conversions"
        return f"auto takes {self.kernel.name} only {where}"

    @property
    def kernel(self) -> Kernel:
        return self.match.kernel


def find_places(
    model: onnx.ModelProto,
    kernels: Sequence[Kernel],
    claims_on: Sequence[int] | None = None,
    plain: WorkingGraph | None = None,
) -> tuple[list[Place], list[Refusal]]:
    """Return the places where kernels can be used, and those where they cannot.

    ``claims_on``: a kernel is used only for sizes that its declaration claims, on GPUs of these architectures (none:
    of an architecture that is not known); None: for all sizes. ``plain``: the model's ``plain_form``, where the caller
    has it.
    """
    uses = Uses(model.graph)
    ranks = {kernel.name: rank for rank, kernel in enumerate(kernels)}
    places: dict[tuple[str, frozenset[int]], Place] = {}
    refused: dict[tuple[str, frozenset[int]], Refusal] = {}
    for graph in normal_forms(model, plain):
        for match in find(graph, kernels):
            key = (match.kernel.name, match.origins)
            if key in places:  # found in an earlier form, where more is written in one way
                continue
            titles = tuple(title(model.graph.node[index]) for index in sorted(match.origins))
            try:
                places[key] = _place(model, graph, uses, match, ranks[match.kernel.name], titles, claims_on)
            except (UnusableError, LenetTrtError) as error:
                brief = "" if isinstance(error, OtherTypesError) else getattr(error, "brief", None)
                refused.setdefault(key, Refusal(match.kernel.name, titles, str(error), brief))
    return list(places.values()), [refusal for key, refusal in refused.items() if key not in places]


def _place(
    model: onnx.ModelProto,
    graph: WorkingGraph,
    uses: Uses,
    match: Match,
    rank: int,
    titles: tuple[str, ...],
    claims_on: Sequence[int] | None,
) -> Place:
    kernel = match.kernel
    if match.problem:
        raise UnusableError(match.problem)
    values = {tensor.name: match.values[tensor.name] for tensor in kernel.plain_inputs}
    computed = [
        values[tensor.name]
        for tensor in kernel.plain_inputs
        if tensor.weight and values[tensor.name] not in graph.constants
    ]
    if computed:
        quantized = quantization_around(model, graph, match, None)
        if quantized:
            raise UnusableError(quantized)
        weight = computed[0]
        if weight in graph.inputs:
            raise UnusableError(
                f"{weight} is an input of the network, which a caller may set; {kernel.name} wants constant weights: "
                "where it never changes, remove it from the graph's inputs and keep its initializer"
            )
        raise UnusableError(f"{weight} is computed in the network; {kernel.name} wants constant weights")
    inputs, shapes, dtypes, output_views = inputs_and_views(graph, match, values)
    inputs, shapes, parts = read_in_place(graph, kernel, inputs, shapes)
    outputs = tuple(graph.viewed_as(name) for name in match.outputs)
    match = replace(match, outputs=outputs, attributes={**match.attributes, **parts})
    specialized = kernel.specialize(shapes, dtypes, match.attributes)
    if repeated := _repeated(kernel, shapes):
        raise UnusableError(repeated)
    in_model = graph.shape(values[kernel.plain_inputs[0].name]) or shapes[0]
    unclaimed = claims_on is not None and not claimed(specialized, shapes, claims_on, len(in_model))
    may_be_beside = unclaimed and _may_be_beside(specialized, shapes, claims_on or ())
    may_be_grouped = unclaimed and _holds(kernel.in_groups, specialized, shapes, claims_on or (), len(in_model))
    if unclaimed and not may_be_beside and not may_be_grouped:
        ranges = " or ".join(map(str, kernel.claims))
        raise UnusableError(
            f"a library may be faster for inputs of shapes {', '.join(str(list(shape)) for shape in shapes)}: "
            f"{kernel.name} is taken by itself where {ranges}; --plugins {kernel.name} takes it in spite of that",
            when_taken(specialized, sizes_of_claims(specialized, shapes, claims_on or (), len(in_model))),
        )
    if kernel.packing is not None:
        check_packing(graph, match, inputs, shapes)
    quantized = quantization_around(model, graph, match, specialized)
    if quantized:
        raise UnusableError(quantized)
    read = [name for value in inputs for name in value.read]
    in_parts = {name for value, tensor in zip(inputs, kernel.inputs, strict=True) if tensor.part for name in value.read}
    around = neighbours(graph, uses, match, read, in_parts)
    joining = frozenset(index for index in around.readers if model.graph.node[index].op_type in kernel.joined_by)
    obstacle = uses.obstacle(match.origins, read, match.outputs)
    if obstacle:
        raise UnusableError(obstacle)
    plain = {tensor.name: graph.constants[values[tensor.name]].shape for tensor in kernel.plain_inputs if tensor.weight}
    narrowed = frozenset(
        tensor.name
        for tensor, dtype, name in zip(kernel.outputs, specialized.types.of(kernel.outputs), match.outputs, strict=True)
        if dtype == "int32" and graph.dtype(name) == "int64"
    )
    known = {name: shape for name in (*read, *match.outputs) if (shape := graph.shape(name)) is not None}
    return Place(
        match,
        rank,
        specialized,
        inputs,
        output_views,
        narrowed,
        plain,
        known,
        titles,
        around,
        beside=may_be_beside,
        grouped=may_be_grouped,
        joining=frozenset() if claims_on is None else joining,
    )


def _repeated(kernel: Kernel, shapes: Sequence[Shape]) -> str | None:
    """Say which input may be repeated along an axis: ONNX repeats one of size 1, and another input's size is open."""
    sizes: dict[str, dict[int, str]] = {}
    for tensor, shape in zip(kernel.inputs, shapes, strict=True):
        for declared, size in zip(map(as_dim, tensor.shape), shape, strict=True):
            if isinstance(declared, AxisValue):
                sizes.setdefault(declared.name, {}).setdefault(size, tensor.name)
    for axis, seen in sizes.items():
        if UNKNOWN in seen and 1 in seen:
            return f"{seen[1]} has size 1 where {seen[UNKNOWN]} has an open one ({axis}): it may be repeated"
    return None


def _may_be_beside(specialized: Specialized, shapes: Sequence[Shape], architectures: Sequence[int]) -> bool:
    beside = specialized.kernel.beside_plugins
    if beside is None or beside.sizes is None:
        return beside is not None
    return _holds(beside.sizes, specialized, shapes, architectures)


def _holds(
    condition: Condition | None,
    specialized: Specialized,
    shapes: Sequence[Shape],
    architectures: Sequence[int],
    model_axes: int | None = None,
) -> bool:
    return condition is not None and one_holds((condition,), specialized, shapes, architectures, model_axes)
