"""Define the rule that writes a dense layer whose outputs are halved as two layers.

Gates are often one layer of twice the outputs, of which one half is activated and multiplies the other one:

    a, b = Split(x w^T + bias)    is    a = x w[: n]^T + bias[: n],  b = x w[n :]^T + bias[n :]

Source: what torch's exporters write for ``chunk(2, dim=-1)``, as in Phi-3 of transformers and GEGLU of diffusers.
"""

from __future__ import annotations

from lenet_trt.fuse.attention_products import is_dense_layer
from lenet_trt.fuse.movement import half_of
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


def halved_layer(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace a dense layer, and what takes each half of its outputs once, by two layers."""
    if not is_dense_layer(graph, node) or node.outputs[0] in graph.outputs:
        return
    readers = list(dict.fromkeys(graph.consumers(node.outputs[0])))
    halves = {half_of(graph, output): output for reader in readers for output in reader.outputs}
    wanted = [(node.outputs[0], which) for which in (0, 1)]
    if halves.keys() != set(wanted) or sum(len(reader.outputs) for reader in readers) > len(wanted):
        return
    weights = {what: graph.constants[name] for what, name in zip("wb", node.inputs[1:], strict=True)}
    half = len(weights["w"]) // 2
    origins = node.origins.union(*(reader.origins for reader in readers))
    layers = []
    for key, part in zip(wanted, (slice(0, half), slice(half, None)), strict=True):
        constants = [graph.add_constant(f"{halves[key]}.{what}", value[part]) for what, value in weights.items()]
        layers.append(WorkingNode("Gemm", [node.inputs[0], *constants], [halves[key]], dict(node.attributes), origins))
    graph.replace([node, *readers], list(zip((node.slot, readers[0].slot), layers, strict=True)))
