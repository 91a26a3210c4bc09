"""Declare ``linear_half``: a dense layer over the last axis, with bias and an optional activation, in fp16 and bf16."""

from dataclasses import replace
from pathlib import Path

from lenet_trt.dims import MODEL_AXES, minimum
from lenet_trt.kernel import BesidePlugins, Kernel, float_types

from ..dense.declaration import inputs, n, outputs
from ..linear import reference
from ..linear.declaration import (
    AXES,
    BIAS,
    EIGHT,
    EXAMPLES,
    HOPPER,
    LAYER,
    MUCH,
    WIDE_ENOUGH,
    X,
    Y,
)
from ..linear.packing import packing_of_rows, weights_in_blocks
from ..linear.pattern import patterns
from ..windows.activation import ACTIVATION, NODES_OF_DENSE_LAYERS_IN_HALVES
from ..windows.declaration import rows_in_groups

# Operations: by itself a layer of one image or sentence is left to TensorRT; so are inputs of three axes, which its
# transformers have. docs/zoo.md has the networks where it pays.
ENOUGH = 400_000_000
# Weights, whose reading takes the time of few rows.
FEW_ROWS = HOPPER & (n <= 2 * EIGHT) & (inputs * outputs >= 250_000)
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
    packing=packing_of_rows(),
    variants=(*MAPPED.few_rows(), *MAPPED.wide(), *MAPPED.narrow(element_bytes=2), MAPPED.direct("linear_half_direct")),
    patterns=patterns(NODES_OF_DENSE_LAYERS_IN_HALVES),
    reference=reference,
    examples=(
        *EXAMPLES,
        # Few rows: blocks of 8 outputs, and of 16 and 32, the last of which has 8.
        {"n": 1, "in": 40, "out": 40, "activation": "gelu"},
        {"n": 8, "in": 1152, "out": 264, "activation": "silu"},
        {"n": 13, "in": 520, "out": 96, "activation": "none"},
        {"n": 3, "in": 1160, "out": 2056, "activation": "none"},
        {"n": 21, "in": 1160, "out": 4104, "activation": "silu"},
        # Several tiles a multiprocessor, of up to 256 and up to 192 outputs, with many inputs.
        {"n": 5700, "in": 960, "out": 1024, "activation": "none"},
        {"n": 4200, "in": 960, "out": 1280, "activation": "gelu"},
    ),
    in_groups=rows_in_groups(n, minimum(inputs, outputs)),
    # Between those of a ConvNeXt at any size.
    beside_plugins=BesidePlugins(both=True, sizes=HOPPER),
    claims=(*(much & (MODEL_AXES >= 4) for much in (WIDE_ENOUGH & (LAYER.flops >= ENOUGH), MUCH)), FEW_ROWS),
    flops=LAYER.flops,
    source_dir=Path(__file__).parent,
)
