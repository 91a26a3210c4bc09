"""Define the rule that writes the patches of an image as tokens in one way.

A vision transformer begins with a convolution whose filters are as large as its stride. ``Reshape`` lays its height and
width along one axis, and ``Transpose`` brings the channels behind it: [n, k, h, w], [n, k, h w], [n, h w, k]. In normal
form that is ``Transpose(x, perm=[0, 2, 3, 1], fold=1)``, whose result has height and width along one axis.

Source: what torch's exporters write for the vision transformers of torchvision and timm.
"""

from __future__ import annotations

from lenet_trt.fuse.movement import TO_CHANNELS_LAST
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode, count

_RANK = len(TO_CHANNELS_LAST)


def patches_as_tokens(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace ``Reshape`` and ``Transpose`` after a convolution by one ``Transpose``."""
    if not node.is_op("Transpose") or node.attributes.get("perm") != [0, 2, 1]:
        return
    reshape = graph.producer(node.inputs[0])
    if reshape is None or not reshape.is_op("Reshape") or graph.only_consumer(reshape.outputs[0]) is None:
        return
    convolution = graph.producer(reshape.inputs[0])
    if convolution is None or not convolution.is_op("Conv") or not _folds_the_image(graph, reshape):
        return
    if convolution.attributes.get("strides") != convolution.attributes.get("kernel_shape"):
        return
    folded = WorkingNode(
        "Transpose",
        reshape.inputs[:1],
        list(node.outputs),
        {"perm": TO_CHANNELS_LAST, "fold": 1},
        reshape.origins | node.origins,
    )
    graph.replace([reshape, node], [(node.slot, folded)])


def _folds_the_image(graph: WorkingGraph, reshape: WorkingNode) -> bool:
    """Return whether a ``Reshape`` of [n, k, h, w] gives [n, k, h w]."""
    before, after = graph.shape(reshape.inputs[0]), graph.shape(reshape.outputs[0])
    if before is None or after is None or len(before) != _RANK or len(after) != _RANK - 1:
        return False
    if not isinstance(before[1], int) or before[1] != after[1]:
        return False
    # One of the two other sizes says the other one.
    image = count(before[2:])
    return (image is not None and image == after[2]) or (before[0] is not None and before[0] == after[0])
