"""Declare ``linear_half``: a dense layer over the last axis, with bias and an optional activation, in fp16 and bf16."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lenet_trt.dims import MODEL_AXES, minimum
from lenet_trt.kernel import BesidePlugins, Kernel, Packing, float_types

from ..dense.declaration import inputs, n, outputs
from ..linear import reference
from ..linear.declaration import (
    AXES,
    BIAS,
    EXAMPLES,
    HOPPER,
    LAYER,
    MUCH,
    WIDE_ENOUGH,
    W,
    X,
    Y,
)
from ..linear.packing import inputs_of_x, pack_rows, to_rows, weights_in_blocks
from ..linear.pattern import patterns
from ..windows.activation import ACTIVATION, NODES_OF_DENSE_LAYERS_IN_HALVES
from ..windows.declaration import rows_in_groups


def pack(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Lay the weights out for wgmma."""
    return pack_rows(weights["w"], weights["bias"])


def unpack(op: Any, weights: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the nodes that undo it."""
    return {"w": to_rows(op, weights["weights"], weights["bias"], inputs_of_x(op)), "bias": weights["bias"]}


# Operations: by itself a layer of one image or sentence is left to TensorRT; so are inputs of three axes, which its
# transformers have. docs/zoo.md has the networks where it pays.
ENOUGH = 400_000_000
MAPPED = replace(LAYER, mapped=True)

KERNEL = Kernel(
    name="linear_half",
    doc="y = act(Gemm(x, w, bias)) over the last axis, w [out, in], in fp16 and bf16",
    axes=AXES,
    inputs=(X, weights_in_blocks(LAYER), BIAS),
    outputs=(Y,),
    types=float_types()[1:],
    attributes=(ACTIVATION,),
    requires=LAYER.requires,
    packing=Packing((W, BIAS), pack, unpack),
    variants=(*MAPPED.few_rows(), *MAPPED.wide(), *MAPPED.narrow(element_bytes=2), MAPPED.direct("linear_half_direct")),
    patterns=patterns(NODES_OF_DENSE_LAYERS_IN_HALVES),
    reference=reference,
    examples=(
        *EXAMPLES,
        # Few rows: blocks of 8 outputs, and of 16, the last of which has 8.
        {"n": 1, "in": 40, "out": 40, "activation": "gelu"},
        {"n": 8, "in": 1152, "out": 264, "activation": "silu"},
        {"n": 13, "in": 520, "out": 96, "activation": "none"},
        {"n": 3, "in": 1160, "out": 2056, "activation": "none"},
        # Several tiles a multiprocessor, of up to 256 and up to 192 outputs, with many inputs.
        {"n": 5700, "in": 960, "out": 1024, "activation": "none"},
        {"n": 4200, "in": 960, "out": 1280, "activation": "gelu"},
    ),
    in_groups=rows_in_groups(n, minimum(inputs, outputs)),
    # Between those of a ConvNeXt at any size.
    beside_plugins=BesidePlugins(both=True, sizes=HOPPER),
    claims=tuple(much & (MODEL_AXES >= 4) for much in (WIDE_ENOUGH & (LAYER.flops >= ENOUGH), MUCH)),
    flops=LAYER.flops,
    source_dir=Path(__file__).parent,
)
