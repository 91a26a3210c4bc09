"""Declare what ``average_pool`` and ``max_pool`` share: sizes, attributes, variants and examples."""

from __future__ import annotations

from lenet_trt.dims import Condition, minimum
from lenet_trt.kernel import Attribute, Axis, IntegerAttribute, Tensor, Variant

from .declaration import FITS, IMAGE, PAD, c, direct_launch, h, n, out_h, out_w, pad, run, size, stride, w

AXES = (
    Axis("n", "images"),
    Axis("c", "channels"),
    *IMAGE,
)
INPUTS = (Tensor("x", (n, c, h, w), "T", "images"),)
OUTPUTS = (Tensor("y", (n, c, out_h, out_w), "T", "pooled images"),)
ATTRIBUTES = (
    Attribute("size", (2, 3, 4, 5), "rows and columns of a window"),
    IntegerAttribute("stride", 1, 5, (1,), "from window to window"),
    PAD,
)
# A window with no element of the image would have no mean and no largest element.
REQUIRES = FITS & (pad < size)


def _variant(name: str, rows: int, types: tuple[str, ...] | None = None, prefer: Condition | None = None) -> Variant:
    launch, note = direct_launch(n * c, rows, n * c), f"rows of outputs of a thread: {rows}"
    return Variant(name, launch, note, types=types, prefer=prefer)


# Two rows share what they read, and a thread without neighbours in a row has two outputs then instead of one.
_SHARE = minimum(stride, run).equals(1) & (2 * stride <= size + 1)
VARIANTS = (_variant("pair", 2, types=("fp16", "bf16"), prefer=_SHARE), _variant("single", 1))
EXAMPLES = (
    {"n": 1, "c": 1, "h": 2, "w": 3, "size": 2, "stride": 1, "pad": 0},
    {"n": 3, "c": 5, "h": 7, "w": 9, "size": 3, "stride": 2, "pad": 1},
    {"n": 5, "c": 3, "h": 14, "w": 14, "size": 5, "stride": 1, "pad": 2},
    {"n": 2, "c": 4, "h": 17, "w": 16, "size": 4, "stride": 4, "pad": 0},
    {"n": 9, "c": 64, "h": 56, "w": 56, "size": 3, "stride": 1, "pad": 1},
    {"n": 7, "c": 3, "h": 20, "w": 24, "size": 5, "stride": 5, "pad": 3},
)
FLOPS = n * c * out_h * out_w * size * size
