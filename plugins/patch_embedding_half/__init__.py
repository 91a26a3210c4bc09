"""Declare ``patch_embedding_half``: the layer of ``patch_embedding`` in fp16 and bf16."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import minimum
from lenet_trt.kernel import Kernel, Packing, float_types

from ..linear.declaration import HOPPER
from ..linear.packing import pack_rows, to_rows, weights_in_blocks
from ..patch_embedding.declaration import (
    AXES,
    BIAS,
    EXAMPLES,
    LAYER,
    PATCHES,
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
from ..patch_embedding.pattern import PATTERNS
from ..windows.declaration import rows_in_groups


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Lay the filters out for wgmma, as the weights of a dense layer."""
    return pack_rows(filters_as_rows(weights["w"]), weights["bias"])


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    side, bias = shapes["w"][-1], weights["bias"]
    rows = to_rows(op, weights["weights"], bias, inputs_of_patch(op, side))
    return {"w": rows_as_filters(op, rows, side), "bias": bias}


# Operations, two for each number of a patch and each output: smaller layers are taken among other plugins alone.
ENOUGH = 50_000_000

KERNEL = Kernel(
    name="patch_embedding_half",
    doc="y = Transpose(Conv(x, w, bias)), channels last, filters as large as their stride, in fp16 and bf16",
    axes=AXES,
    inputs=(X, weights_in_blocks(LAYER), BIAS),
    outputs=(Y,),
    types=float_types()[1:],
    attributes=(SIZE,),
    requires=REQUIRES,
    packing=Packing((W, BIAS), pack, unpack),
    variants=(
        *LAYER.wide(),
        *LAYER.narrow(element_bytes=2),
        LAYER.direct("patch_embedding_half_direct"),
    ),
    patterns=PATTERNS,
    reference=reference,
    examples=(
        *EXAMPLES,
        {"n": 3, "c": 3, "h": 224, "w": 224, "k": 264, "size": 4},
        {"n": 2, "c": 3, "h": 152, "w": 152, "k": 768, "size": 4},
        {"n": 1, "c": 3, "h": 300, "w": 304, "k": 1024, "size": 4},
        {"n": 1, "c": 3, "h": 480, "w": 576, "k": 264, "size": 12},
        # Several tiles a multiprocessor, of up to 256 and up to 192 outputs, with many inputs.
        {"n": 1, "c": 1, "h": 2400, "w": 2432, "k": 1024, "size": 32},
        {"n": 1, "c": 1, "h": 1920, "w": 2240, "k": 1280, "size": 32},
    ),
    in_groups=rows_in_groups(PATCHES, minimum(LAYER.inputs, LAYER.outputs)),
    claims=(HOPPER & (LAYER.flops >= ENOUGH),),
    flops=LAYER.flops,
    source_dir=Path(__file__).parent,
)
