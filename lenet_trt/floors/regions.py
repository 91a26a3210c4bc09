"""Find the model's nodes in the regions that TensorRT gave to its compiler Myelin, by the tensors at their borders.

A region's name says two of its layers at most, ``{ForeignNode[words.weight...(Unnamed Layer* 727) [ElementWise]]}``,
and neither need be a node of the model. Its inputs and outputs are tensors of the model, so its nodes are those on the
ways back from its outputs to its inputs. Source: engines of TensorRT 8.6.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lenet_trt.floors.layers import members
from lenet_trt.tensorrt.layers import EngineLayer, LayerTensor

if TYPE_CHECKING:
    from lenet_trt.floors.work import NodeWork


def region_nodes(layers: Sequence[EngineLayer], nodes: Sequence[NodeWork]) -> dict[str, tuple[NodeWork, ...]]:
    """Return the nodes of each region by the layer's name in a trace, in the model's order.

    A region is left out where no output of it is a tensor of the model.
    """
    if not any(layer.is_region for layer in layers):
        return {}
    makers = {tensor: entry for entry in nodes for tensor in entry.outputs}
    known = {*makers, *(tensor for entry in nodes for tensor in entry.inputs)}
    aliases = _aliases(layers)
    taken = {
        entry.node
        for layer in layers
        if not (layer.is_region or layer.reformats)
        for entry in members(layer.node, nodes)
    }
    found: dict[str, tuple[NodeWork, ...]] = {}
    for layer in layers:
        if not layer.is_region:
            continue
        begins, ends = (_in_model(tensors, aliases, known) for tensors in (layer.inputs, layer.outputs))
        held = _between(begins, ends, makers, taken)
        if held:
            taken |= held
            found[layer.node] = tuple(entry for entry in nodes if entry.node in held)
    return found


def _aliases(layers: Sequence[EngineLayer]) -> dict[str, list[str]]:
    """Return for each tensor its other names: TensorRT renames what it reformats."""
    found: dict[str, list[str]] = {}
    for layer in layers:
        if layer.reformats and len(layer.inputs) == len(layer.outputs) == 1:
            one, other = layer.inputs[0].name, layer.outputs[0].name
            found.setdefault(one, []).append(other)
            found.setdefault(other, []).append(one)
    return found


def _in_model(tensors: Sequence[LayerTensor], aliases: Mapping[str, Sequence[str]], known: set[str]) -> set[str]:
    """Return the model's names of the tensors that have one."""
    found: set[str] = set()
    for tensor in tensors:
        seen, waiting = {tensor.name}, [tensor.name]
        while waiting:
            name = waiting.pop()
            if name in known:
                found.add(name)
                break
            fresh = [other for other in aliases.get(name, ()) if other not in seen]
            seen.update(fresh)
            waiting += fresh
    return found


def _between(begins: set[str], ends: set[str], makers: Mapping[str, NodeWork], taken: set[str]) -> set[str]:
    """Return the names of the nodes from which ``ends`` follow, back to ``begins`` and to the nodes that are taken."""
    found: set[str] = set()
    waiting = [*(ends - begins)]
    while waiting:
        entry = makers.get(waiting.pop())
        if entry is None or entry.node in taken or entry.node in found:
            continue
        found.add(entry.node)
        waiting += [tensor for tensor in entry.inputs if tensor not in begins]
    return found
