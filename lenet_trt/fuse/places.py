"""Find, check and choose the places in a model where a kernel can be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.beside import Neighbours, neighbours, places_beside
from lenet_trt.fuse.cut import Uses, title
from lenet_trt.fuse.groups import places_in_groups
from lenet_trt.fuse.match import Match, find
from lenet_trt.fuse.normal_form import normal_forms
from lenet_trt.fuse.onnx_function import Numbers, attribute_numbers, body_of, onnx_function, unpacked
from lenet_trt.fuse.quantized import quantization_around
from lenet_trt.fuse.unclaimed import when_taken
from lenet_trt.fuse.working_copy import Array, PartialShape, WorkingGraph, WorkingNode
from lenet_trt.kernel.bind import (
    UNKNOWN,
    OtherTypesError,
    Shape,
    Specialized,
    check_plain_weights,
    claimed,
    one_holds,
    sizes_of_claims,
)
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.dims import AxisValue, Condition, as_dim
from lenet_trt.kernel.functions import call_declared
from lenet_trt.kernel.pattern import DOMAIN, Views, several_open
from lenet_trt.onnx_model.plugin_nodes import Refusal

# fp32 weights may be stored as two fp16 halves; anything coarser would change the network.
_UNPACK_TOLERANCE = 2e-7


@dataclass(frozen=True, eq=False)
class Input:
    """Describe an input of a plugin node: a value of the file or a new tensor, and the shape to view it in.

    ``nodes``: what computes a value that the file does not have, in order, and ``constants``: theirs.
    """

    name: str | None
    array: Array | None = None
    view: Shape | None = None
    nodes: tuple[WorkingNode, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)

    @property
    def read(self) -> list[str]:
        """Return the values of the file that are read for it."""
        if self.name is None or self.array is not None:
            return []
        if not self.nodes:
            return [self.name]
        made = {name for node in self.nodes for name in node.outputs}
        names = (name for node in self.nodes for name in node.inputs if name)
        return [name for name in dict.fromkeys(names) if name not in made and name not in self.constants]


@dataclass(frozen=True, eq=False)
class OutputView:
    """Hold the shape of an output in the file.

    ``like``: where several sizes are not known, the value that has them, and its shape; the last size may differ.
    """

    shape: Shape
    like: tuple[str, Shape] | None


@dataclass(frozen=True, eq=False)
class Place:
    """Hold a match that passed every check, and the inputs of its plugin node.

    ``beside``, ``grouped``: the kernel does not claim the sizes, and is taken beside other plugins alone, or in a group
    of them. ``copying``: nodes that would copy what the kernel gives (``Kernel.copied_by``): it is taken only where
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
    copying: frozenset[int] = frozenset()

    @property
    def key(self) -> tuple[str, frozenset[int]]:
        """Return the kernel's name and the nodes that it replaces."""
        return self.kernel.name, self.match.origins

    @property
    def claimed(self) -> bool:
        """Return whether the place is taken whatever is next to it."""
        return not self.beside and not self.grouped

    def is_copied(self, taken: Set[int]) -> bool:
        """Return whether what the kernel gives would be copied, where plugins replace the nodes ``taken``."""
        return not self.copying <= taken

    def is_part_of(self, whole: Place) -> bool:
        """Return whether ``whole``, which would be copied, has all these nodes, and this place would be copied too."""
        return bool(self.kernel.copied_by) and self.is_within(whole)

    def is_within(self, other: Place) -> bool:
        """Return whether another place replaces the same nodes, or more of them."""
        return self.match.origins <= other.match.origins

    def missing(self, taken: Set[int]) -> str | None:
        """Say why a place is not taken where plugins replace the nodes ``taken``; None: others replace its nodes."""
        if self.is_copied(taken):
            return f"{self.match.outputs[0]} would be copied, and TensorRT's own layers write it to its place"
        if self.claimed:
            return None
        where = "beside plugins" if self.beside else "among as many plugins as pay for conversions"
        return f"auto takes {self.kernel.name} only {where}"

    @property
    def kernel(self) -> Kernel:
        return self.match.kernel


class _UnusableError(Exception):
    """Say why the kernel cannot be used at a match; ``brief``: see ``Refusal``."""

    def __init__(self, reason: str, brief: str | None = None) -> None:
        super().__init__(reason)
        self.brief = brief


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
            except (_UnusableError, LenetTrtError) as error:
                brief = "" if isinstance(error, OtherTypesError) else getattr(error, "brief", None)
                refused.setdefault(key, Refusal(match.kernel.name, titles, str(error), brief))
    return list(places.values()), [refusal for key, refusal in refused.items() if key not in places]


def chosen(places: Iterable[Place]) -> list[Place]:
    """Return places that do not overlap, and whose outputs are not copied.

    Those of most nodes come first, then those that patterns prefer, then those of kernels in their order.
    """
    left = list(places)
    while True:
        result = _chosen(left)
        taken = nodes_of(result)
        copied = [place for place in result if place.is_copied(taken)]
        if not copied:
            return result
        # A part of what is left to TensorRT is left too: TensorRT joins it with the rest.
        left = [place for place in left if not any(place.is_part_of(whole) for whole in copied)]


def nodes_of(places: Iterable[Place]) -> frozenset[int]:
    """Return the indexes of the nodes that places replace."""
    return frozenset().union(*(place.match.origins for place in places))


def _chosen(places: Iterable[Place]) -> list[Place]:
    order = sorted(
        places,
        key=lambda p: (-len(p.match.origins), -p.match.pattern.preference, p.rank, min(p.match.origins)),
    )
    grouped = [place for place in order if place.grouped]
    # A kernel with a packed layout leaves its nodes to a group that replaces them too: nothing is converted there.
    waiting = [p for p in order if not p.grouped and not p.kernel.is_linear and any(map(p.is_within, grouped))]
    result = _with_claimed([place for place in order if place not in waiting], [])
    # TensorRT converts between a packed layout and a linear one, whichever layers have them.
    alike = [place for place in result if place.kernel.is_linear]
    result += places_in_groups(_apart(grouped, result), alike)
    return _with_claimed(waiting, result)


def _with_claimed(places: Sequence[Place], before: Sequence[Place]) -> list[Place]:
    """Return those places, and of these the ones that are claimed, and then those beside plugins."""
    result = [*before, *_apart((place for place in places if place.claimed), before)]
    return result + places_beside(_apart((place for place in places if place.beside), result), result)


def _apart(places: Iterable[Place], before: Sequence[Place] = ()) -> list[Place]:
    """Return the places that overlap with none before them."""
    taken = set(nodes_of(before))
    result = []
    for place in places:
        if not place.match.origins & taken:
            taken |= place.match.origins
            result.append(place)
    return result


def functions_for(
    model: onnx.ModelProto, places: Sequence[Place]
) -> tuple[list[onnx.FunctionProto], list[Place], list[tuple[Place, str]]]:
    """Make one function for each kernel; places that need a second function are left out, with the reason."""
    opset = next((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), 1)
    present = {function.name: function for function in model.functions if function.domain == DOMAIN}
    functions: list[onnx.FunctionProto] = []
    usable: list[Place] = []
    refused: list[tuple[Place, str]] = []
    for kernel in dict.fromkeys(place.kernel for place in places):
        group = []
        own = {place: _body(place, place.match, opset) for place in places if place.kernel is kernel}
        bodies = _most_common(own)
        for place, body in own.items():
            covering = place.match.pattern.covered_by
            shared = bodies[attribute_numbers(kernel, place.match)]
            if body == shared or (covering and _body(place, replace(place.match, pattern=covering), opset) == shared):
                group.append(place)
            else:
                refused.append((place, "another of its places in this file has other nodes; they share one function"))
        try:
            function = onnx_function(kernel, bodies, opset)
        except LenetTrtError as error:
            refused += [(place, str(error)) for place in group]
            continue
        if present.get(kernel.name, function) == function:
            functions.append(function)
            usable += group
        else:
            reason = "the file has another body for it from an earlier run: fuse the original file"
            refused += [(place, reason) for place in group]
    return functions, usable, refused


def _most_common(bodies: Mapping[Place, list[onnx.NodeProto]]) -> dict[Numbers, list[onnx.NodeProto]]:
    """Return the body that most places have, for each choice of attributes; those that another one covers come last."""
    seen: dict[Numbers, list[tuple[bool, list[onnx.NodeProto]]]] = {}
    for place, body in bodies.items():
        numbers = attribute_numbers(place.kernel, place.match)
        seen.setdefault(numbers, []).append((place.match.pattern.covered_by is None, body))
    return {numbers: max(each, key=lambda one: (one[0], each.count(one)))[1] for numbers, each in seen.items()}


def _body(place: Place, match: Match, opset: int) -> list[onnx.NodeProto]:
    dtype = place.specialized.types.of(place.kernel.inputs)[0]
    return body_of(match, place.plain_shapes, place.narrowed, opset, dtype)


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
        raise _UnusableError(match.problem)
    values = {tensor.name: match.values[tensor.name] for tensor in kernel.plain_inputs}
    computed = [
        values[tensor.name]
        for tensor in kernel.plain_inputs
        if tensor.weight and values[tensor.name] not in graph.constants
    ]
    if computed:
        quantized = quantization_around(model, graph, match, None)
        if quantized:
            raise _UnusableError(quantized)
        weight = computed[0]
        if weight in graph.inputs:
            raise _UnusableError(
                f"{weight} is an input of the network, which a caller may set; {kernel.name} wants constant weights: "
                "where it never changes, remove it from the graph's inputs and keep its initializer"
            )
        raise _UnusableError(f"{weight} is computed in the network; {kernel.name} wants constant weights")
    inputs, shapes, dtypes, output_views = _kernel_inputs(graph, match, values)
    match = replace(match, outputs=tuple(graph.viewed_as(name) for name in match.outputs))
    specialized = kernel.specialize(shapes, dtypes, match.attributes)
    if repeated := _repeated(kernel, shapes):
        raise _UnusableError(repeated)
    in_model = graph.shape(values[kernel.plain_inputs[0].name]) or shapes[0]
    unclaimed = claims_on is not None and not claimed(specialized, shapes, claims_on, len(in_model))
    may_be_beside = unclaimed and _may_be_beside(specialized, shapes, claims_on or ())
    may_be_grouped = unclaimed and _holds(kernel.in_groups, specialized, shapes, claims_on or (), len(in_model))
    if unclaimed and not may_be_beside and not may_be_grouped:
        ranges = " or ".join(map(str, kernel.claims))
        raise _UnusableError(
            f"a library may be faster for inputs of shapes {', '.join(str(list(shape)) for shape in shapes)}: "
            f"{kernel.name} is taken by itself where {ranges}; --plugins {kernel.name} takes it in spite of that",
            when_taken(specialized, sizes_of_claims(specialized, shapes, claims_on or (), len(in_model))),
        )
    if kernel.packing is not None:
        _check_packing(graph, match, inputs, shapes)
    quantized = quantization_around(model, graph, match, specialized)
    if quantized:
        raise _UnusableError(quantized)
    read = [name for value in inputs for name in value.read]
    around = neighbours(graph, uses, match, read)
    copying = frozenset(index for index in around.readers if model.graph.node[index].op_type in kernel.copied_by)
    obstacle = uses.obstacle(match.origins, read, match.outputs)
    if obstacle:
        raise _UnusableError(obstacle)
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
        copying=frozenset() if claims_on is None else copying,
    )


def _kernel_inputs(
    graph: WorkingGraph, match: Match, values: Mapping[str, str]
) -> tuple[tuple[Input, ...], list[Shape], list[str], tuple[OutputView | None, ...]]:
    """Return the plugin node's inputs, their shapes and types, and the shapes of its outputs in the file."""
    kernel = match.kernel
    packed: dict[str, Array] = {}
    if kernel.packing is not None:
        plain = {t.name: graph.constants[values[t.name]] for t in kernel.packing.plain}
        types = [graph.dtype(values[t.name]) or str(plain[t.name].dtype) for t in kernel.packing.plain]
        check_plain_weights(kernel, [array.shape for array in plain.values()], types, match.attributes)
        given = call_declared(kernel.name, "pack", kernel.packing.pack, plain)
        packed = {name: np.asarray(array) for name, array in given.items()}
    inputs, dtypes = [], []
    shapes: dict[str, Shape] = {}
    for tensor in kernel.inputs:
        if tensor.name in packed:
            array = packed[tensor.name]
            inputs.append(Input(None, array))
            shapes[tensor.name] = array.shape
            dtypes.append(str(array.dtype))
            continue
        name = values[tensor.name]
        shape, dtype = graph.shape(name), graph.dtype(graph.view_of(name))
        if shape is None or dtype is None:
            raise _UnusableError(f"the shape or type of {name} is not known, so it cannot be checked")
        shapes[tensor.name] = _sizes(shape)
        dtypes.append(dtype)
        source = graph.view_of(name)
        view = None if source == name else shapes[tensor.name]
        if nodes := graph.added_for(source):
            read = {each for node in nodes for each in node.inputs} & graph.constants.keys()
            inputs.append(Input(source, None, view, tuple(nodes), {each: graph.constants[each] for each in read}))
            continue
        if view is not None:
            inputs.append(Input(source, view=view))
            continue
        new = name in graph.constants and name not in graph.file_constants
        inputs.append(Input(name, graph.constants[name] if new else None))
    results = {tensor.name: graph.shape(name) for tensor, name in zip(kernel.outputs, match.outputs, strict=True)}
    known = {name: _sizes(shape) for name, shape in results.items() if shape is not None}
    views = _views(match, {**known, **shapes})
    if views is None:
        return tuple(inputs), list(shapes.values()), dtypes, tuple(_seen_as(graph, name) for name in match.outputs)
    inputs = [
        entry if views.inputs.get(name, shape) == shape else replace(entry, view=views.inputs[name])
        for entry, (name, shape) in zip(inputs, shapes.items(), strict=True)
    ]
    seen = [views.inputs.get(name, shape) for name, shape in shapes.items()]
    changed = any(entry.view is not None for entry in inputs)
    like = None if views.like is None else (values[views.like], shapes[views.like])
    outputs: list[OutputView | None] = []
    for tensor in kernel.outputs:
        view = views.outputs.get(tensor.name)
        kept = view is None or not (changed or len(view) != len(tensor.shape))
        outputs.append(None if view is None or kept else OutputView(view, like if _several_open(view) else None))
    unclear = [shape for entry, shape in zip(inputs, shapes.values(), strict=True) if _several_open(entry.view or ())]
    unclear += [view.shape for view in outputs if view and view.like is None and _several_open(view.shape)]
    if unclear:
        raise _UnusableError(several_open(unclear[0]))
    return tuple(inputs), seen, dtypes, tuple(outputs)


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


def _seen_as(graph: WorkingGraph, name: str) -> OutputView | None:
    """Return the shape in which the file has a value, where it has a view of it."""
    view = graph.viewed_as(name)
    return None if view == name else OutputView(_sizes(graph.shape(view) or ()), None)


def _several_open(view: Shape) -> bool:
    """Say whether more than one size is not known: a ``Reshape`` finds out one."""
    return view.count(UNKNOWN) > 1


def _sizes(shape: PartialShape) -> Shape:
    return tuple(size if isinstance(size, int) else UNKNOWN for size in shape)


def _views(match: Match, shapes: Mapping[str, Shape]) -> Views | None:
    if match.pattern.views is None:
        return None
    views = call_declared(match.kernel.name, "views", match.pattern.views, shapes)
    if isinstance(views, str):
        raise _UnusableError(views)
    return views


def _check_packing(graph: WorkingGraph, match: Match, inputs: Sequence[Input], shapes: Sequence[Shape]) -> None:
    """Undo the packing of the kernel's inputs as the ONNX function will, and compare.

    Raises:
        LenetTrtError: the weights do not come back; the kernel's declaration is wrong.
        _UnusableError: a weight is not finite, so that nothing can be compared.
    """
    kernel, opset = match.kernel, graph.opsets.get("", 1)
    plain = {t.name: graph.constants[match.values[t.name]] for t in kernel.plain_inputs if t.weight}
    wide = {name: array.astype(np.promote_types(np.float32, array.dtype)) for name, array in plain.items()}
    for name, array in wide.items():
        if not np.isfinite(array).all():
            raise _UnusableError(f"the weight {name} has NaN or infinity")
    nodes, names = unpacked(kernel, {name: array.shape for name, array in plain.items()}, opset)
    make = helper.make_tensor_value_info
    given: dict[str, Array] = {}
    for tensor, entry, shape in zip(kernel.inputs, inputs, shapes, strict=True):
        # Of what is no weight only the shape can be read; an open size may be any.
        stand_in = np.broadcast_to(np.float32(0), [max(size, 1) for size in shape])
        given[tensor.name] = entry.array if tensor.weight and entry.array is not None else stand_in
    ports = [make(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in given.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in names.values()]
    model = helper.make_model(
        helper.make_graph(nodes, "unpack", ports, outputs),
        opset_imports=[helper.make_opsetid("", opset)],
    )
    results = dict(zip(names, ReferenceEvaluator(model).run(None, given), strict=True))
    for name, wanted in wide.items():
        seen = np.asarray(results.get(name))
        most = _UNPACK_TOLERANCE * np.max(np.abs(wanted), initial=0.0)
        # A difference that is NaN is none that is small enough.
        if seen.shape != wanted.shape or not np.max(np.abs(seen.astype(wanted.dtype) - wanted), initial=0.0) <= most:
            raise LenetTrtError(f"{kernel.name}: unpack does not give back the weight {name} that pack was given")
