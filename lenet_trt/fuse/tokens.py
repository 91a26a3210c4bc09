"""Define the rules that write the pixels of maps as tokens, and tokens as maps, in one way.

A vision transformer begins with a convolution whose filters are as large as its stride. ``Reshape`` lays its height and
width along one axis, and ``Transpose`` brings the channels behind it: [n, k, h, w], [n, k, h w], [n, h w, k]. In normal
form that is ``Transpose(x, perm=[0, 2, 3, 1], fold=1)``, whose result has height and width along one axis.

Behind attention over pixels, as in Stable Diffusion, the tokens of a dense layer become maps again, and a residual is
added: ``Reshape`` and ``Transpose``, in either order. That is ``Transpose(x, perm=[0, 3, 1, 2], unfold=1)``. Where the
layer is a 1x1 convolution of these maps, as in Stable Diffusion 1.5, it is a dense layer before the transposition.

Source: what torch's exporters write for the vision transformers of torchvision and timm, and for diffusers.
"""

from __future__ import annotations

from typing import TypeAlias

from lenet_trt.fuse.group_norms import GROUP_NORM
from lenet_trt.fuse.movement import TO_CHANNELS_FIRST, TO_CHANNELS_LAST
from lenet_trt.fuse.rewriting import replace_by_one
from lenet_trt.fuse.working_copy import PartialShape, WorkingGraph, WorkingNode, count

Size: TypeAlias = "int | str | None"
_RANK, _INPUTS = len(TO_CHANNELS_LAST), 3


def patches_as_tokens(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace ``Reshape`` and ``Transpose`` after a convolution or a group norm by one ``Transpose``."""
    if not node.is_op("Transpose") or node.attributes.get("perm") != [0, 2, 1]:
        return
    reshape = graph.producer(node.inputs[0])
    if reshape is None or not reshape.is_op("Reshape") or graph.only_consumer(reshape.outputs[0]) is None:
        return
    layer = graph.producer(reshape.inputs[0])
    if layer is None or not (layer.is_op(GROUP_NORM) or _is_of_patches(layer)) or not _folds_the_image(graph, reshape):
        return
    attributes = {"perm": TO_CHANNELS_LAST, "fold": 1}
    replace_by_one(graph, [reshape, node], node.slot, "Transpose", reshape.inputs[:1], node.outputs, attributes)


def _is_of_patches(node: WorkingNode) -> bool:
    return node.is_op("Conv") and node.attributes.get("strides", [1, 1]) == node.attributes.get("kernel_shape")


def convolution_of_tokens(graph: WorkingGraph, node: WorkingNode) -> None:
    """Exchange a 1x1 convolution with the ``Transpose`` of pixels to maps in front of it: it is a dense layer there."""
    if not node.is_op("Conv") or node.attributes != {"kernel_shape": [1, 1]} or len(node.inputs) != _INPUTS:
        return
    transpose, weight = graph.producer(node.inputs[0]), graph.constants.get(node.inputs[1])
    if weight is None or transpose is None or not transpose.is_op("Transpose"):
        return
    if transpose.attributes.get("perm") != TO_CHANNELS_FIRST or graph.only_consumer(transpose.outputs[0]) is None:
        return
    rows = graph.add_constant(f"{node.inputs[1]}.rows", weight.reshape(weight.shape[:2]))
    between, origins = f"{node.outputs[0]}.pixels", transpose.origins | node.origins
    first = WorkingNode("Gemm", [transpose.inputs[0], rows, node.inputs[2]], [between], {"transB": 1}, origins)
    second = WorkingNode("Transpose", [between], list(node.outputs), transpose.attributes, origins)
    graph.replace([transpose, node], [(transpose.slot, first), (node.slot, second)])


def tokens_as_maps(graph: WorkingGraph, node: WorkingNode) -> None:
    """Replace ``Reshape`` and ``Transpose``, in either order, after a dense layer by one ``Transpose``."""
    before = graph.producer(node.inputs[0]) if node.is_op("Transpose", "Reshape") else None
    if before is None or graph.only_consumer(before.outputs[0]) is None:
        return
    perms = [each.attributes.get("perm") for each in (before, node)]
    reshaped_first = before.is_op("Reshape") and perms[1] == TO_CHANNELS_FIRST
    reshaped_last = node.is_op("Reshape") and perms[0] == [0, 2, 1]
    if not reshaped_first and not reshaped_last:
        return
    layer, tokens, maps = graph.producer(before.inputs[0]), graph.shape(before.inputs[0]), graph.shape(node.outputs[0])
    if layer is None or not layer.is_op("Gemm") or tokens is None or maps is None:
        return
    if len(tokens) != _RANK - 1 or not _has_the_pixels(maps, *tokens):
        return
    attributes = {"perm": TO_CHANNELS_FIRST, "unfold": 1}
    replace_by_one(graph, [before, node], node.slot, "Transpose", before.inputs[:1], node.outputs, attributes)


def _folds_the_image(graph: WorkingGraph, reshape: WorkingNode) -> bool:
    """Return whether a ``Reshape`` of [n, k, h, w] gives [n, k, h w]."""
    before, after = graph.shape(reshape.inputs[0]), graph.shape(reshape.outputs[0])
    if before is None or after is None or len(after) != _RANK - 1:
        return False
    return _has_the_pixels(before, after[0], after[2], after[1])


def _has_the_pixels(maps: PartialShape, batch: Size, pixels: Size, channels: Size) -> bool:
    """Return whether maps [n, k, h, w] have these sizes; where not all are known, one follows from the others."""
    if len(maps) != _RANK or not isinstance(maps[1], int) or maps[1] != channels:
        return False
    image = count(maps[2:])
    return (image is not None and image == pixels) or (maps[0] is not None and maps[0] == batch)
