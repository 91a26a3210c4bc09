"""Find the calls that a model makes of our kernels: ``tune --model`` times these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.ports import ports
from lenet_trt.onnx_model.read import load_model
from lenet_trt.onnx_model.shapes import bound_plugin, known
from lenet_trt.runtimes.inputs import Sizes, shapes_of

_BATCHES = (1, 32)


def model_calls(
    path: Path, batches: Sequence[int] | None = None, sizes: Mapping[str, int] | None = None
) -> dict[str, list[Bound]]:
    """Return the calls of each kernel in an ONNX file at these batch sizes; a file that is not fused is fused for it.

    ``batches``: None is 1 and 32, where the first axis is open. ``sizes``: of other open axes, by their names.

    Raises:
        UsageError: the model does not have these axes.
        LenetTrtError: no kernel is in it or fits, or a shape cannot be known before the model runs.
    """
    model = with_sizes(load_model(path), sizes or {}, None if batches is None else " ".join(map(str, batches)))
    if not plugin_nodes(model):
        model = fuse(model).model
    inputs = ports(model)[0]
    found: dict[str, list[Bound]] = {}
    opened = any(port.axes and isinstance(port.axes[0], str) for port in inputs)
    for batch in batches or (_BATCHES if opened else (None,)):
        shapes, axes = shapes_of(inputs, Sizes(batch))
        whole = known(model, axes, shapes)
        for node in whole.nodes:
            if node.domain == DOMAIN:
                calls = found.setdefault(node.op_type, [])
                calls.append(bound_plugin(node, [whole.tensors[name] for name in node.input]))
    if not found:
        raise LenetTrtError(f"{path} has no plugin node, and no kernel fits: `lenet-trt fuse {path} --json` says why")
    return found
