"""Declare ``patch_embedding``: a convolution whose filters are as large as its stride, with channels last, in fp32.

Vision transformers and networks like them begin with it: it is a product of patches and filters.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.kernel import Kernel, Packing, Types

from ..linear.declaration import HOPPER
from ..linear.split_weights import pack_split, split_rows, split_weights
from .declaration import (
    AXES,
    BIAS,
    EXAMPLES,
    LAYER,
    REQUIRES,
    SIZE,
    W,
    X,
    Y,
    filters_as_rows,
    inputs_of_patch,
    reference,
    rows_as_filters,
)
from .pattern import PATTERNS

# Operations, two for each number of a patch and each output.
ENOUGH = 10_000_000


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Pack the filters as the weights of a dense layer."""
    return pack_split(filters_as_rows(weights["w"]), weights["bias"])


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    side = shapes["w"][-1]
    rows = split_rows(op, weights, inputs_of_patch(op, side))
    return {"w": rows_as_filters(op, rows, side), "bias": weights["bias"]}


KERNEL = Kernel(
    name="patch_embedding",
    doc="y = Transpose(Conv(x, w, bias)), channels last, filters as large as their stride, no padding, in fp32",
    axes=AXES,
    inputs=(X, *split_weights(LAYER, BIAS)),
    outputs=(Y,),
    types=(Types("fp32", {"T": "float32"}, tolerance=3e-6),),
    attributes=(SIZE,),
    requires=REQUIRES,
    packing=Packing((W, BIAS), pack, unpack),
    variants=(
        *LAYER.narrow(element_bytes=4),
        LAYER.direct("patch_embedding_direct"),
    ),
    patterns=PATTERNS,
    reference=reference,
    examples=EXAMPLES,
    claims=(HOPPER & (LAYER.flops >= ENOUGH),),
    flops=LAYER.flops,
    source_dir=Path(__file__).parent,
)
