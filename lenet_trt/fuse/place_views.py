"""Find what a plugin node reads and gives at a place: its inputs, and the shapes in which the file has its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lenet_trt.fuse.match import Match
from lenet_trt.fuse.working_copy import Array, PartialShape, WorkingGraph, WorkingNode
from lenet_trt.kernel.bind import check_plain_weights
from lenet_trt.kernel.functions import call_declared
from lenet_trt.kernel.pattern import Views, several_open
from lenet_trt.kernel.shapes import UNKNOWN, Shape


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


class UnusableError(Exception):
    """Say why the kernel cannot be used at a match; ``brief``: see ``Refusal``."""

    def __init__(self, reason: str, brief: str | None = None) -> None:
        super().__init__(reason)
        self.brief = brief


def inputs_and_views(
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
            raise UnusableError(f"the shape or type of {name} is not known, so it cannot be checked")
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
        raise UnusableError(several_open(unclear[0]))
    return tuple(inputs), seen, dtypes, tuple(outputs)


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
        raise UnusableError(views)
    return views
