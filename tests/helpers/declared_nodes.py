"""Compare what plugin nodes give in ONNX Runtime, by their functions, with what their kernels are declared to compute.

A function is made of the nodes that the plugin replaced, so a file with plugins computes the same whatever its kernels
would. This tells where a node gets inputs that its kernel is not declared for, or would get another result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.onnx_function import unpacked
from lenet_trt.kernel import Kernel, registry
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.dims import as_dim
from lenet_trt.kernel.examples import disagreement, expected_outputs
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.shapes import chosen_attributes

# Where an activation or a softmax is computed node by node in 16 bits, each node rounds.
TOLERANCES = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 1e-2}
ROUNDING = 1e-6  # of the largest input


def plugin_nodes_of(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return the plugin nodes of kernels that are registered."""
    return [node for node in model.graph.node if node.domain == DOMAIN and node.op_type in registry.kernels()]


def values_around(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """Return the values that these nodes read and give."""
    return list(dict.fromkeys(name for node in nodes for name in (*node.input, *node.output) if name))


def problems(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], values: Mapping[str, np.ndarray]
) -> Iterator[str]:
    """Say which nodes are no calls that their kernels are declared for, or give something else."""
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    for node in nodes:
        kernel = registry.kernel(node.op_type)
        inputs = [values[name] for name in node.input]
        try:
            bound = kernel.bind(
                [a.shape for a in inputs], [str(a.dtype) for a in inputs], chosen_attributes(kernel, node)
            )
            wanted = expected_outputs(bound, _plain_inputs(kernel, bound, inputs, opset))
        except LenetTrtError as error:
            yield f"{node.name}: {error}"
            continue
        for name, exact in zip(node.output, wanted, strict=True):
            got = values[name]
            difference = disagreement(got, exact, TOLERANCES.get(got.dtype, 0.0))
            if difference and not _is_of_rounding(got, exact, inputs):
                yield f"{node.name}: {difference} in {name}"


def _is_of_rounding(got: np.ndarray, exact: np.ndarray, inputs: Sequence[np.ndarray]) -> bool:
    """Return whether floats differ by less than the rounding of what was added: few outputs may nearly cancel."""
    if got.dtype != np.float32:
        return False
    largest = max(float(np.abs(each).max(initial=0)) for each in inputs)
    return bool(np.abs(got - exact).max(initial=0) <= ROUNDING * largest)


def _plain_inputs(kernel: Kernel, bound: Bound, inputs: Sequence[np.ndarray], opset: int) -> list[np.ndarray]:
    """Return a call's inputs as the kernel's reference has them, with weights not packed."""
    if kernel.packing is None:
        return list(inputs)
    given = {tensor.name: array for tensor, array in zip(kernel.inputs, inputs, strict=True)}
    shapes = {each.name: [as_dim(size).evaluate(bound.sizes) for size in each.shape] for each in kernel.packing.plain}
    nodes, names = unpacked(kernel, shapes, opset)
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    graph = helper.make_graph(nodes, "weights", ports, [onnx.ValueInfoProto(name=name) for name in names.values()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    weights = dict(zip(names, ReferenceEvaluator(model).run(None, given), strict=True))
    plain = [given[tensor.name] for tensor in kernel.inputs if not tensor.weight]
    return plain + [np.asarray(weights[tensor.name]) for tensor in kernel.packing.plain]
