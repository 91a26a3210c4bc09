"""Declare what ``conv1d_half`` and ``conv1d_half_tokens`` share: convolutions along one axis, with channels last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lenet_trt.dims import Dim, ceil_div, remainder
from lenet_trt.kernel import Axis, IntegerAttribute, Packing, Tensor, TensorMap, Variant, float_types

from ..channels_last.declaration import PACKED
from ..linear.declaration import CHUNK, EIGHT, HOPPER, ROWS, Product
from ..linear.packing import inputs_of_x, pack_rows, padded_rows, weights_in_blocks
from ..many_channel_conv1d import reference as convolution
from ..many_channels.variants import k
from ..windows.activation import ACTIVATION
from ..windows.declaration import STRIDE, c, n, out_w, pad, size, stride, w

MOST_TAPS = 9
# The inputs of a tap are filled up to whole chunks; to pairs of chunks, where the number of taps is even (layer.cuh).
grain = CHUNK * (2 - remainder(size, 2))
of_tap = ceil_div(c, grain) * grain


class Convolution(Product):
    """Hold the sizes of the convolution as a product of rows and weights.

    A tile has rows of one sequence. At stride 2 the map of x has pairs of positions: a tap has one of each.
    """

    @property
    def tiles_down(self) -> Dim:
        """Return the number of tiles down the rows of all sequences."""
        return n * ceil_div(out_w, ROWS)

    def maps(self, depth: Dim | int) -> tuple[TensorMap, ...]:
        """Return the tensor map of x: a box has ``depth`` channels of a position for each row of a tile."""
        return (TensorMap("x", (n, w // stride, stride, c), box=(1, ROWS, 1, depth)),)

    def by_wgmma(self, name: str, element_bytes: int, **more: Any) -> Variant:
        """Make a variant, for sequences that are whole pairs at stride 2."""
        variant = super().by_wgmma(name, element_bytes, **more)
        whole = w.multiple_of(stride)
        return replace(variant, when=whole if variant.when is None else whole & variant.when)


LAYER = Convolution(n * out_w, size * of_tap, k, extras=(n * out_w,), mapped=True)
FLOPS = 2 * n * out_w * k * c * size

AXES = (
    Axis("n", "sequences"),
    Axis("c", "channels of x", static=True),
    Axis("w", "steps of a sequence", static=True),
    Axis("k", "filters", static=True),
)
X = Tensor("x", (n, c, 1, w), "T", "sequences", layout=PACKED)
BIAS = Tensor("bias", (k,), "T", "bias of each filter", weight=True)
INPUTS = (X, weights_in_blocks(LAYER), BIAS)
TYPES = float_types()[1:]
ATTRIBUTES = (
    ACTIVATION,
    IntegerAttribute("size", 1, MOST_TAPS, (3,), "taps of a filter"),
    STRIDE,
    IntegerAttribute("pad", 0, 4096, (1, 0), "steps on each side of a sequence"),
)
REQUIRES = c.multiple_of(EIGHT) & LAYER.requires & (w + 2 * pad >= size)


def reference(
    x: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, activation: str, size: int, stride: int, pad: int
) -> np.ndarray:
    """Compute the convolution, then the activation."""
    sizes = {"size": size, "stride": stride, "pad": pad, "dilation": 1}
    return convolution(x[:, :, 0], weights, bias, activation=activation, **sizes)[:, :, None]


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Make rows of the filters, tap by tap, and lay them out for wgmma."""
    filters, channels, taps = weights["w"].shape
    whole = CHUNK * (2 - taps % 2)
    by_taps = np.pad(weights["w"].transpose(0, 2, 1), ((0, 0), (0, 0), (0, -channels % whole)))
    return pack_rows(by_taps.reshape(filters, -1), weights["bias"])


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    rows = padded_rows(op, weights["weights"], weights["bias"])
    by_taps = op.Reshape(rows, op.ints(0, shapes["w"][-1], -1))
    filters = op.Slice(by_taps, op.ints(0), inputs_of_x(op), op.ints(2))
    return {"w": op.Transpose(filters, perm=[0, 2, 1]), "bias": weights["bias"]}


PACKING = Packing((Tensor("w", (k, c, size), "T", "filters", weight=True), BIAS), pack, unpack)


def variants(name: str) -> tuple[Variant, ...]:
    """Return the variants of a kernel of that name, most preferred first."""
    return (*LAYER.wide(), *LAYER.narrow(element_bytes=2), LAYER.direct(f"{name}_direct"))


# Measured in an encoder of speech: the two layers that Whisper's smallest one begins with have 0.6 and 1.3 billion
# operations for 30 s. So much work pays for the layers that bring x to this layout; with less it was not measured.
# With 64 filters, as in the audio network, TensorRT's own layer is as fast.
CLAIMS = (HOPPER & w.multiple_of(stride) & (k >= 128) & (FLOPS >= 500_000_000),)

EXAMPLES = (
    {"n": 1, "c": 8, "w": 7, "k": 32, "size": 3, "stride": 1, "pad": 1, "activation": "gelu"},
    {"n": 3, "c": 24, "w": 49, "k": 40, "size": 5, "stride": 1, "pad": 4, "activation": "relu"},
    {"n": 2, "c": 32, "w": 234, "k": 72, "size": 1, "stride": 1, "pad": 0, "activation": "none"},
    {"n": 5, "c": 40, "w": 302, "k": 64, "size": 8, "stride": 2, "pad": 3, "activation": "silu"},
    {"n": 4, "c": 96, "w": 257, "k": 136, "size": 4, "stride": 1, "pad": 2, "activation": "gelu_tanh"},
    # At stride 2 an odd number of steps has no tensor map.
    {"n": 3, "c": 72, "w": 301, "k": 104, "size": 3, "stride": 2, "pad": 1, "activation": "hardswish"},
    {"n": 33, "c": 64, "w": 500, "k": 200, "size": 9, "stride": 1, "pad": 0, "activation": "quick_gelu"},
    {"n": 1, "c": 512, "w": 384, "k": 512, "size": 3, "stride": 1, "pad": 1, "activation": "relu6"},
    {"n": 2, "c": 80, "w": 3000, "k": 384, "size": 3, "stride": 1, "pad": 1, "activation": "gelu"},
    {"n": 1, "c": 384, "w": 3000, "k": 384, "size": 3, "stride": 2, "pad": 1, "activation": "gelu"},
    # Several tiles a multiprocessor.
    {"n": 17, "c": 80, "w": 1500, "k": 512, "size": 3, "stride": 1, "pad": 1, "activation": "none"},
    {"n": 19, "c": 384, "w": 1502, "k": 320, "size": 3, "stride": 2, "pad": 1, "activation": "relu"},
)
