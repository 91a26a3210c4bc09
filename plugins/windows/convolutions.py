"""Declare what the kernels of convolutions share."""

from __future__ import annotations

from lenet_trt.kernel import Attribute, IntegerAttribute

from .activation import ACTIVATION
from .declaration import PAD, STRIDE


def convolution_attributes(
    group: IntegerAttribute, sizes: tuple[int, ...]
) -> tuple[Attribute, IntegerAttribute, Attribute, Attribute, IntegerAttribute]:
    """Return the attributes of a convolution with square filters of these sizes, in the order of its patterns."""
    return (ACTIVATION, group, Attribute("size", sizes, "rows and columns of a filter"), STRIDE, PAD)
