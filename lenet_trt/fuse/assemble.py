"""Build the fused model from the chosen places: plugin nodes, their inputs, functions, the record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lenet_trt.fuse.cut import Insertion, Uses, replaced
from lenet_trt.fuse.direct_views import connect_directly
from lenet_trt.fuse.onnx_function import attribute_numbers
from lenet_trt.fuse.place_functions import functions_for
from lenet_trt.fuse.place_views import Input, OutputView
from lenet_trt.fuse.places import Place
from lenet_trt.fuse.working_copy import attribute_protos
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.shapes import Shape
from lenet_trt.onnx_model.inferred import declared_types, inferred, note
from lenet_trt.onnx_model.large import check_model
from lenet_trt.onnx_model.plugin_nodes import Refusal, Replacement, record


def assembled(
    model: onnx.ModelProto, taken: Sequence[Place], places: Sequence[Place]
) -> tuple[onnx.ModelProto, list[Replacement], list[Refusal]]:
    """Put plugin nodes into the chosen places; ``places`` are all places that were found, for the record.

    Returns the model, the replacements, and the chosen places that could not be used.
    """
    functions, usable, left = functions_for(model, taken)
    refusals = [Refusal(place.kernel.name, place.titles, why) for place, why in left]
    if not usable:
        return model, [], refusals
    covering: dict[int, set[str]] = defaultdict(set)
    for place in places:
        for index in place.match.origins:
            covering[index].add(place.kernel.name)
    additions = _Additions(model)
    insertions, records = [], []
    given: dict[str, Shape] = {}
    for place in sorted(usable, key=lambda place: max(place.match.origins)):
        nodes, name = additions.plugin(place)
        insertions.append(Insertion(nodes, place.match.origins))
        (plugin,) = (node for node in nodes if node.name == name)
        given.update(zip(plugin.output, place.specialized.known_output_shapes, strict=True))
        rivals = set().union(*(covering[index] for index in place.match.origins)) - {place.kernel.name}
        records.append(
            Replacement(
                node=name,
                kernel=place.kernel.name,
                version=place.kernel.version,
                types=place.specialized.types.name,
                replaced=place.titles,
                instead_of=tuple(sorted(rivals)),
            )
        )
    result = replaced(model, insertions, functions, additions.initializers())
    connect_directly(result.graph, given)
    present = Uses(result.graph).values
    types = _kept_types(model, insertions, usable)
    note(result.graph, {name: kind for name, kind in types.items() if name in present})
    record(result, records)
    check_model(result)
    return result, records, refusals


def _kept_types(
    model: onnx.ModelProto, insertions: Sequence[Insertion], places: Sequence[Place]
) -> dict[str, onnx.TypeProto]:
    """Return what is known of the plugin nodes' tensors: a ``Reshape`` around them hides the open axis.

    The normal form, whose computed sizes are constants, may know more than ONNX's inference does from the file.
    """
    types = declared_types(inferred(model).graph)
    for place in places:
        for name, shape in place.known.items():
            dims = types[name].tensor_type.shape.dim if name in types else ()
            for dim, size in zip(dims, shape, strict=False):  # no dims where the rank is not known
                if isinstance(size, int):
                    dim.dim_value = size
    around = {name for each in insertions for node in each.nodes for name in (*node.input, *node.output)}
    said = {value.name for value in (*model.graph.input, *model.graph.output)}
    return {name: types[name] for name in around & types.keys() - said}


class _Additions:
    """Collect new nodes and tensors, with names that the file does not have yet."""

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self._in_use = {node.name for node in graph.node}
        self._in_use |= {entry.name for entry in [*graph.input, *graph.output, *graph.initializer]}
        self._in_use |= {name for node in graph.node for name in [*node.input, *node.output]}
        self._tensors: dict[str, np.ndarray] = {}
        self._computed: dict[tuple[Any, ...], str] = {}  # what several plugins read is computed once
        self._shapes: dict[str, str] = {}  # computed shapes of outputs, by the outputs' names

    def initializers(self) -> list[onnx.TensorProto]:
        """Return the new tensors."""
        return [numpy_helper.from_array(np.asarray(a, order="C"), name) for name, a in self._tensors.items()]

    def plugin(self, place: Place) -> tuple[tuple[onnx.NodeProto, ...], str]:
        """Return the plugin node of a place with the ``Reshape`` nodes around it, and its name."""
        kernel = place.kernel
        name = self._fresh(kernel.name)
        inputs, before = [], []
        after: list[onnx.NodeProto] = []
        for tensor, given in zip(kernel.inputs, place.inputs, strict=True):
            value = given.name or f"{name}.{tensor.name}"
            if given.nodes:
                nodes, value = self._added(given)
                before += nodes
            if given.array is not None:
                value = self._tensor(value, given.array)
            if given.view is not None:
                nodes, value = self._viewed(value, given.view, f"{name}.{tensor.name}")
                before += nodes
            inputs.append(value)
        outputs = list(place.match.outputs)
        for index, (tensor, view) in enumerate(zip(kernel.outputs, place.output_views, strict=True)):
            if view is not None:
                inner = self._fresh(f"{name}.{tensor.name}")
                sizes, target = self._sizes(f"{name}.{tensor.name}", view)
                if view.like is not None:
                    self._shapes[outputs[index]] = target
                before += sizes
                after.insert(0, self._reshape(inner, outputs[index], target))
                outputs[index] = inner
            if tensor.name in place.narrowed:
                inner = self._fresh(f"{name}.{tensor.name}.int32")
                after.insert(0, self._cast(inner, outputs[index]))
                outputs[index] = inner
        node = helper.make_node(kernel.name, inputs, outputs, name=name, domain=DOMAIN)
        numbers = attribute_numbers(kernel, place.match)
        attributes = {
            "plugin_version": kernel.version,
            "plugin_namespace": DOMAIN,
            **{attribute.name: number for attribute, number in zip(kernel.attributes, numbers, strict=True)},
        }
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        return (*before, node, *after), name

    def _added(self, given: Input) -> tuple[list[onnx.NodeProto], str]:
        """Return the nodes that compute an input, without those that are there for a plugin before, and its name."""
        nodes = []
        names = {name: self._tensor(f"{name}.same", array) for name, array in sorted(given.constants.items())}
        for node in given.nodes:
            proto = helper.make_node(node.op_type, [names.get(name, name) for name in node.inputs], node.outputs)
            proto.attribute.extend(attribute_protos(node))
            key = (node.op_type, *proto.input, *(entry.SerializeToString() for entry in proto.attribute))
            (output,) = node.outputs
            if key not in self._computed:
                self._computed[key] = proto.name = proto.output[0] = self._fresh(output)
                nodes.append(proto)
            names[output] = self._computed[key]
        return nodes, names[given.nodes[-1].outputs[0]]

    def _viewed(self, value: str, view: Shape, hint: str) -> tuple[list[onnx.NodeProto], str]:
        """Return the node that views a value in a shape, none where a plugin before has it, and the view's name.

        TensorRT 8.6 gave wrong results where one of its regions ended in several views of one tensor.
        """
        key = ("view", value, view)
        if key in self._computed:
            return [], self._computed[key]
        inner = self._computed[key] = self._fresh(hint)
        return [self._reshape(value, inner, self._constant(f"{inner}.shape", view))], inner

    def _tensor(self, hint: str, array: np.ndarray) -> str:
        """Add a tensor, or return one with the same numbers: layers may share their weights."""
        key = (str(array.dtype), array.shape, blake2b(array.tobytes()).digest())
        if key not in self._computed:
            self._computed[key] = self._fresh(hint)
            self._tensors[self._computed[key]] = array
        return self._computed[key]

    def _cast(self, value: str, output: str) -> onnx.NodeProto:
        return helper.make_node(
            "Cast", [value], [output], name=self._fresh(f"{output}.cast"), to=onnx.TensorProto.INT64
        )

    def _reshape(self, value: str, output: str, target: str) -> onnx.NodeProto:
        return helper.make_node("Reshape", [value, target], [output], name=self._fresh(f"{output}.view"))

    def _sizes(self, hint: str, view: OutputView) -> tuple[list[onnx.NodeProto], str]:
        """Return what computes the shape of an output while the network runs, and the shape's name."""
        if view.like is None:
            return [], self._constant(f"{hint}.shape", view.shape)
        source, shape = view.like
        nodes = []
        sizes = self._shapes.get(source)
        if sizes is None:
            nodes.append(self._node("Shape", [source], f"{hint}.like"))
            sizes = nodes[-1].output[0]
        if view.shape[-1] != shape[-1]:
            lead = self._constant(f"{hint}.lead", range(len(shape) - 1))
            last = self._constant(f"{hint}.last", view.shape[-1:])
            nodes.append(self._node("Gather", [sizes, lead], f"{hint}.leading"))
            nodes.append(self._node("Concat", [nodes[-1].output[0], last], f"{hint}.shape", axis=0))
            sizes = nodes[-1].output[0]
        return nodes, sizes

    def _node(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> onnx.NodeProto:
        name = self._fresh(output)
        return helper.make_node(op_type, inputs, [name], name=name, **attributes)

    def _constant(self, hint: str, numbers: Sequence[int]) -> str:
        return self._tensor(hint, np.array(numbers, dtype=np.int64))

    def _fresh(self, hint: str) -> str:
        name, count = hint, 1
        while name in self._in_use:
            count += 1
            name = f"{hint}_{count}"
        self._in_use.add(name)
        return name
