"""Stage ``fuse``: ONNX in, ONNX out with plugin nodes where a kernel computes the same.

Each plugin node carries a model-local function made of what was taken out, so the file still runs in any ONNX
runtime. What was chosen, and what else could have been, is recorded in the file (``metadata_props``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import write_atomic

if TYPE_CHECKING:
    import onnx

    from lenet_trt.kernel import Kernel
    from lenet_trt.places import Place

METADATA_KEY = "lenet_trt.fuse"


@dataclass(frozen=True)
class Replacement:
    """A plugin node, the nodes it took the place of, and the kernels that would have fitted there as well."""

    node: str
    kernel: str
    version: str
    types: str
    replaced: tuple[str, ...]
    instead_of: tuple[str, ...]


@dataclass(frozen=True)
class Refusal:
    """A place that has a kernel's pattern and where it cannot be used all the same."""

    kernel: str
    replaced: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Fused:
    """The model with its plugin nodes; without any, it is the model that was given."""

    model: onnx.ModelProto
    replacements: tuple[Replacement, ...]
    refusals: tuple[Refusal, ...]


def fuse(model: onnx.ModelProto, plugins: str | Sequence[str | Kernel] = "auto") -> Fused:
    """Put plugin nodes where kernels compute the same as the model's own nodes.

    ``plugins``: "auto" (every kernel that fits, those that replace most nodes first), "none", or kernels (names or
    declarations): then only those are used, each must find a place, and of two that replace equally many nodes the
    one named first is taken, unless a pattern says what it prefers.

    Raises:
        UsageError: a name that is no kernel's.
        LenetTrtError: a kernel that was asked for by name fits nowhere; says what is in the way.
    """
    kernels = chosen_kernels(plugins)
    if not kernels:
        return Fused(model, (), ())
    from lenet_trt.places import chosen, find_places

    places, refused = find_places(model, kernels)
    taken = chosen(places)
    refusals = tuple(Refusal(match.kernel.name, names, why) for match, names, why in refused)
    if plugins != "auto":
        _demand(model, kernels, places, taken, refusals)
    if not taken:
        return Fused(model, (), refusals)
    return _assemble(model, taken, places, refusals)


def chosen_kernels(plugins: str | Sequence[str | Kernel]) -> list[Kernel]:
    """The kernels that a ``--plugins`` value stands for, in order of preference."""
    from lenet_trt import registry

    if plugins == "none":
        return []
    if plugins == "auto":
        return list(registry.kernels().values())
    chosen: dict[str, Kernel] = {}
    for entry in [plugins] if isinstance(plugins, str) else plugins:
        if not isinstance(entry, str):
            chosen[entry.name] = entry
            continue
        for name in filter(None, (part.strip() for part in entry.split(","))):
            try:
                chosen[name] = registry.kernel(name)
            except LenetTrtError as error:
                if name in registry.kernels():
                    raise  # it is there, and cannot be loaded
                raise UsageError(f"--plugins: {error}") from error
    if not chosen:
        raise UsageError("--plugins names no kernel: give auto, none, or names joined by commas")
    return list(chosen.values())


def plugin_nodes(model: onnx.ModelProto) -> dict[str, str]:
    """Node name -> kernel name of the plugin nodes in a model."""
    from lenet_trt.pattern import DOMAIN

    return {node.name: node.op_type for node in model.graph.node if node.domain == DOMAIN}


def _demand(
    model: onnx.ModelProto,
    kernels: Sequence[Kernel],
    places: Sequence[Place],
    taken: Sequence[Place],
    refusals: Sequence[Refusal],
) -> None:
    """Fail when a kernel that was asked for by name has no place, now or from an earlier run."""
    present = {*(place.kernel.name for place in taken), *plugin_nodes(model).values()}
    for kernel in kernels:
        if kernel.name in present:
            continue
        reasons = [
            f"at {', '.join(refusal.replaced)}: {refusal.reason}"
            for refusal in refusals
            if refusal.kernel == kernel.name
        ]
        rivals = sorted(
            {
                winner.kernel.name
                for winner in taken
                for place in places
                if place.kernel is kernel and place.match.origins & winner.match.origins
            }
        )
        if rivals:
            reasons.append(f"{' and '.join(rivals)}, asked for as well, takes its nodes: leave one out")
        why = "; ".join(reasons) or "the network has no such layers"
        raise LenetTrtError(
            f"--plugins {kernel.name}: there is no place for it in this network: {why}. It replaces: {kernel.doc}"
        )


def _assemble(
    model: onnx.ModelProto,
    taken: Sequence[Place],
    places: Sequence[Place],
    refusals: tuple[Refusal, ...],
) -> Fused:
    import onnx
    from onnx import helper, numpy_helper

    from lenet_trt.cut import Insertion, replaced
    from lenet_trt.onnx_function import attribute_numbers
    from lenet_trt.pattern import DOMAIN
    from lenet_trt.places import functions_for

    functions, usable, more_refused = functions_for(model, taken)
    refusals += tuple(Refusal(place.kernel.name, place.titles, why) for place, why in more_refused)
    if not usable:
        return Fused(model, (), refusals)
    in_use = {node.name for node in model.graph.node} | _value_names(model)
    tensors: dict[str, np.ndarray] = {}
    insertions, records = [], []
    for place in sorted(usable, key=lambda place: max(place.match.origins)):
        name = _fresh(place.kernel.name, in_use)
        inputs, before, after = [], [], []
        for tensor, given in zip(place.kernel.inputs, place.inputs, strict=True):
            value = given.name or f"{name}.{tensor.name}"
            if given.array is not None:
                value = _added(value, given.array, tensors, in_use)
            if given.view is not None:
                before.append(_reshape(value, _fresh(f"{name}.{tensor.name}", in_use), given.view, tensors, in_use))
                value = before[-1].output[0]
            inputs.append(value)
        outputs = list(place.match.outputs)
        for index, view in enumerate(place.output_views):
            if view is not None:
                inner = _fresh(f"{name}.{place.kernel.outputs[index].name}", in_use)
                after.append(_reshape(inner, outputs[index], view, tensors, in_use))
                outputs[index] = inner
        node = helper.make_node(
            place.kernel.name,
            inputs,
            outputs,
            name=name,
            domain=DOMAIN,
            plugin_version=place.kernel.version,
            plugin_namespace=DOMAIN,
        )
        numbers = attribute_numbers(place.kernel, place.match)
        for attribute, number in zip(place.kernel.attributes, numbers, strict=True):
            node.attribute.append(helper.make_attribute(attribute.name, number))
        insertions.append(Insertion((*before, node, *after), place.match.origins))
        rivals = sorted({p.kernel.name for p in places if p.match.origins & place.match.origins})
        records.append(
            Replacement(
                name,
                place.kernel.name,
                place.kernel.version,
                place.specialized.types.name,
                place.titles,
                tuple(rival for rival in rivals if rival != place.kernel.name),
            )
        )
    added = [numpy_helper.from_array(np.asarray(a, order="C"), n) for n, a in tensors.items()]
    result = replaced(model, insertions, functions, added)
    _record(result, records)
    onnx.checker.check_model(result)
    return Fused(result, tuple(records), refusals)


def _added(hint: str, array: np.ndarray, tensors: dict[str, np.ndarray], in_use: set[str]) -> str:
    """Name a tensor that the file does not have yet; the same one is added once."""
    for name, other in tensors.items():
        if other is array:
            return name
    name = _fresh(hint, in_use)
    tensors[name] = array
    return name


def _reshape(
    value: str, output: str, shape: Sequence[int], tensors: dict[str, np.ndarray], in_use: set[str]
) -> onnx.NodeProto:
    from onnx import helper

    target = _added(f"{output}.shape", np.array(shape, dtype=np.int64), tensors, in_use)
    return helper.make_node("Reshape", [value, target], [output], name=_fresh(f"{output}.view", in_use))


def _record(model: onnx.ModelProto, records: Sequence[Replacement]) -> None:
    entry = next((prop for prop in model.metadata_props if prop.key == METADATA_KEY), None)
    if entry is None:
        entry = model.metadata_props.add(key=METADATA_KEY, value="[]")
    entry.value = json.dumps([*json.loads(entry.value), *map(asdict, records)])


def recorded(model: onnx.ModelProto) -> list[Mapping[str, Any]]:
    """What ``fuse`` recorded in a model: one entry a plugin node, as ``Replacement`` has it."""
    entries = [prop.value for prop in model.metadata_props if prop.key == METADATA_KEY]
    return list(json.loads(entries[0])) if entries else []


def _value_names(model: onnx.ModelProto) -> set[str]:
    graph = model.graph
    names = {value.name for value in [*graph.input, *graph.output]}
    names |= {tensor.name for tensor in graph.initializer}
    return names | {name for node in graph.node for name in [*node.input, *node.output]}


def _fresh(hint: str, in_use: set[str]) -> str:
    name, count = hint, 1
    while name in in_use:
        count += 1
        name = f"{hint}_{count}"
    in_use.add(name)
    return name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of the stage."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="the ONNX file")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="where to write; None: MODEL.fused.onnx")
    parser.add_argument(
        "--plugins",
        default="auto",
        metavar="auto|none|NAME,...",
        help="kernels to use: all that fit, none, or these (lenet-trt plugins lists them)",
    )
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def command(arguments: argparse.Namespace) -> int:
    """Fuse one file; print what was replaced and the path written."""
    from lenet_trt.model import load_model

    source: Path = arguments.model
    output = arguments.output or source.with_name(f"{source.stem}.fused.onnx")
    model = load_model(source)
    fused = fuse(model, arguments.plugins)
    data = fused.model.SerializeToString() if fused.replacements else source.read_bytes()
    write_atomic(output, data)
    if arguments.json:
        answer = {
            "output": str(output),
            "replacements": [asdict(entry) for entry in fused.replacements],
            "refusals": [asdict(entry) for entry in fused.refusals],
        }
        print(json.dumps(answer, indent=2))
        return 0
    for entry in fused.refusals:
        print(f"left as it is: {', '.join(entry.replaced)}: {entry.reason}", file=sys.stderr)
    for done in fused.replacements:
        print(f"{done.node} ({done.types}) replaces {', '.join(done.replaced)}")
    if not fused.replacements:
        print(f"no plugin node was added ({len(plugin_nodes(model))} were there before)")
    print(output)
    return 0


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["fuse", *sys.argv[1:]]))
