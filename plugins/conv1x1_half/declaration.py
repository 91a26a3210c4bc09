"""Declare what ``conv1x1_half`` and ``conv1x1_half_add`` share: dense layers of pixels, with channels last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lenet_trt.kernel import Axis, BesidePlugins, Packing, Variant, float_types

from ..linear.declaration import HOPPER, Product
from ..linear.packing import inputs_of_x, pack_rows, to_rows, weights_in_blocks
from ..pointwise.declaration import BIAS, PIXELS, W, k
from ..windows.activation import ACTIVATION
from ..windows.declaration import IN_FLOATS, c

LAYER = Product(PIXELS, c, k, extras=(PIXELS,), mapped=True)
FLOPS = LAYER.flops
AXES = (
    Axis("n", "images"),
    Axis("c", "channels of x", static=True),
    Axis("h", "height of an image"),
    Axis("w", "width of an image"),
    Axis("k", "filters", static=True),
)
WEIGHTS = (weights_in_blocks(LAYER), BIAS)
TYPES = float_types()[1:]
ATTRIBUTES = (ACTIVATION,)
REQUIRES = LAYER.requires


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Lay the filters out for wgmma."""
    return pack_rows(weights["w"][:, :, 0, 0], weights["bias"])


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    rows = to_rows(op, weights["weights"], weights["bias"], inputs_of_x(op))
    return {"w": op.Reshape(rows, op.ints(0, 0, 1, 1)), "bias": weights["bias"]}


PACKING = Packing((W, BIAS), pack, unpack)


def variants(name: str) -> tuple[Variant, ...]:
    """Return the variants of a kernel of that name, most preferred first."""
    return (*LAYER.wide(), *LAYER.narrow(element_bytes=2), LAYER.direct(f"{name}_direct"))


# Measured in a ResNet-50 (docs/kernels/conv1x1_half.md): faster in TensorRT 8.6.0 on Hopper beside other plugins and in
# groups. With much work a sum was so beside TensorRT's layers, too.
BESIDE = BesidePlugins(sizes=HOPPER)
CLAIMS = (IN_FLOATS,)  # never by itself
CLAIMS_OF_SUMS = (HOPPER & (PIXELS >= 1568) & (FLOPS >= 1_000_000_000),)
EXAMPLES = (
    {"n": 1, "c": 32, "h": 3, "w": 5, "k": 40, "activation": "relu"},
    {"n": 1, "c": 512, "h": 7, "w": 19, "k": 96, "activation": "none"},
    {"n": 3, "c": 160, "h": 9, "w": 10, "k": 264, "activation": "silu"},
    {"n": 1, "c": 1024, "h": 14, "w": 14, "k": 256, "activation": "relu"},
    {"n": 2, "c": 2048, "h": 7, "w": 7, "k": 512, "activation": "relu6"},
    {"n": 21, "c": 512, "h": 14, "w": 14, "k": 256, "activation": "gelu"},
    {"n": 33, "c": 192, "h": 14, "w": 14, "k": 768, "activation": "hardswish"},
    {"n": 5, "c": 64, "h": 55, "w": 57, "k": 64, "activation": "relu"},
    {"n": 5, "c": 64, "h": 55, "w": 57, "k": 256, "activation": "relu"},
    # Several tiles a multiprocessor, of up to 256 and up to 192 filters, with many channels.
    {"n": 1, "c": 960, "h": 70, "w": 82, "k": 1024, "activation": "none"},
    {"n": 1, "c": 960, "h": 60, "w": 70, "k": 1280, "activation": "relu"},
)
