"""Define the rule that writes a dense layer whose outputs are halved as two layers.

Gates are often one layer of twice the outputs, of which one half is activated and multiplies the other one:

    a, b = Split(x w^T + bias)    is    a = x w[: n]^T + bias[: n],  b = x w[n :]^T + bias[n :]

Source: what torch's exporters write for ``chunk(2, dim=-1)``, as in Phi-3 of transformers and GEGLU of diffusers.
"""

from __future__ import annotations

from lenet_trt.fuse.attention_products import is_dense_layer
from lenet_trt.fuse.movement import as_it_lies, known_sizes_of, moved
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode


def halved_layer(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace a dense layer, and what takes each half of its outputs once, by two layers."""
    if not is_dense_layer(graph, node) or node.outputs[0] in graph.outputs:
        return
    readers = list(dict.fromkeys(graph.consumers(node.outputs[0])))
    halves = _halves(graph, node.outputs[0], readers)
    if halves is None:
        return
    weights = {what: graph.constants[name] for what, name in zip("wb", node.inputs[1:], strict=True)}
    half = len(weights["w"]) // 2
    origins = node.origins.union(*(reader.origins for reader in readers))
    layers = []
    for output, part in zip(halves, (slice(0, half), slice(half, None)), strict=True):
        constants = [graph.add_constant(f"{output}.{what}", value[part]) for what, value in weights.items()]
        layers.append(WorkingNode("Gemm", [node.inputs[0], *constants], [output], dict(node.attributes), origins))
    graph.replace([node, *readers], list(zip((node.slot, readers[0].slot), layers, strict=True)))


def _halves(graph: WorkingGraph, name: str, readers: list[WorkingNode]) -> tuple[str, str] | None:
    """Return the two values that are the halves of a value, if nothing else is read of it."""
    sizes = known_sizes_of(graph, name)
    if sizes is None or sizes[-1] % 2 or not all(reader.is_op("Slice", "Split") for reader in readers):
        return None
    layout, last, half = as_it_lies(sizes), len(sizes) - 1, sizes[-1] // 2
    outputs = [(reader, output) for reader in readers for output in reader.outputs]
    found = {output: moved(graph, reader, layout, output) for reader, output in outputs}
    first, second = (
        [output for output, part in found.items() if part == layout.part(last, start, half)] for start in (0, half)
    )
    return (first[0], second[0]) if len(first) == len(second) == 1 and len(found) == 2 else None
