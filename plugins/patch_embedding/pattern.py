"""Define the nodes that ``patch_embedding`` replaces: a convolution whose filters are as large as its stride.

Its channels come last then, as in a Swin or a ConvNeXt, or all patches of an image lie along one axis as well, as in a
vision transformer: ``fold`` is of the normal form (``fuse/tokens.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lenet_trt.kernel.shapes import Shape
from lenet_trt.pattern import Pattern, Views

CHANNELS_LAST = [0, 2, 3, 1]


def images_of_patches(op: Any, x: Any, w: Any, bias: Any, size: Any) -> Any:
    return op.Transpose(_patches(op, x, w, bias, size), perm=CHANNELS_LAST)


def tokens(op: Any, x: Any, w: Any, bias: Any, size: Any) -> Any:
    return op.Transpose(_patches(op, x, w, bias, size), perm=CHANNELS_LAST, fold=1)


def _patches(op: Any, x: Any, w: Any, bias: Any, size: Any) -> Any:
    return op.Conv(x, w, bias, kernel_shape=[size, size], strides=[size, size])


def one_axis(shapes: Mapping[str, Shape]) -> Views:
    """Say that ONNX has all patches or pixels of an image along one axis of y."""
    return Views(inputs={}, outputs={"y": shapes["y"]})


PATTERNS = (
    Pattern(images_of_patches, body=images_of_patches),
    Pattern(tokens, views=one_axis, body=images_of_patches),
)
