"""Find the calls that a model makes of our kernels: ``tune --model`` times these."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.ports import ports
from lenet_trt.onnx_model.read import load_model
from lenet_trt.onnx_model.shapes import bound_plugin, known
from lenet_trt.runtimes.inputs import Sizes, shapes_of


def model_calls(path: Path, batches: Sequence[int]) -> dict[str, list[Bound]]:
    """Return the calls of each kernel in an ONNX file at these batch sizes; a file that is not fused is fused for it.

    Raises:
        LenetTrtError: no kernel is in it or fits, or a shape cannot be known before the model runs.
    """
    model = load_model(path)
    if not plugin_nodes(model):
        model = fuse(model).model
    inputs = ports(model)[0]
    found: dict[str, list[Bound]] = {}
    for batch in batches:
        shapes, sizes = shapes_of(inputs, Sizes(batch, {}, {}))
        whole = known(model, sizes, shapes)
        for node in whole.nodes:
            if node.domain == DOMAIN:
                calls = found.setdefault(node.op_type, [])
                calls.append(bound_plugin(node, [whole.tensors[name] for name in node.input]))
    if not found:
        raise LenetTrtError(f"{path} has no plugin node, and no kernel fits: `lenet-trt fuse {path} --json` says why")
    return found
