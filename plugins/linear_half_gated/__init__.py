"""Declare ``linear_half_gated``: the product of two dense layers, one of them activated, in fp16 and bf16.

Source: Shazeer, GLU Variants Improve Transformer, 2020.
"""

from pathlib import Path

import numpy as np

from lenet_trt.dims import MODEL_AXES, minimum
from lenet_trt.kernel import BesidePlugins, Kernel, Packing, Tensor, float_types

from ..dense.declaration import inputs, n, outputs
from ..linear import reference as dense
from ..linear.declaration import AXES, BIAS, HOPPER, WIDE_ENOUGH, Product, W, X, Y
from ..linear.packing import weights_in_blocks
from ..linear_half import ENOUGH
from ..windows.activation import ACTIVATION
from ..windows.declaration import rows_in_groups
from .packing import pack, unpack
from .pattern import PATTERNS

# Two columns of a product by wgmma are a result.
LAYER = Product(n, inputs, 2 * outputs, extras=(n,), mapped=True)
PLAIN = (
    Tensor("gate", (outputs, inputs), "T", "weights of the gate", weight=True),
    Tensor("gate_bias", (outputs,), "T", "bias of each output of the gate", weight=True),
    W,
    BIAS,
)


def reference(
    x: np.ndarray, gate: np.ndarray, gate_bias: np.ndarray, w: np.ndarray, bias: np.ndarray, *, activation: str
) -> np.ndarray:
    """Compute the activated gate, and multiply it by the other layer."""
    return dense(x, gate, gate_bias, activation=activation) * dense(x, w, bias, activation="none")


KERNEL = Kernel(
    name="linear_half_gated",
    doc="y = act(Gemm(x, gate, gate_bias)) * Gemm(x, w, bias) over the last axis, in fp16 and bf16",
    axes=AXES,
    inputs=(
        X,
        weights_in_blocks(LAYER),
        Tensor("biases", (outputs, 2), "T", "those of the gate and of w", weight=True),
    ),
    outputs=(Y,),
    types=float_types()[1:],
    attributes=(ACTIVATION,),
    requires=Product(n, inputs, outputs, extras=()).requires,
    packing=Packing(PLAIN, pack, unpack),
    variants=(*LAYER.wide(), *LAYER.narrow(element_bytes=2), LAYER.direct("linear_half_gated_direct")),
    patterns=PATTERNS,
    reference=reference,
    examples=(
        {"n": 1, "in": 32, "out": 40, "activation": "silu"},
        {"n": 133, "in": 96, "out": 48, "activation": "gelu_tanh"},
        {"n": 197, "in": 768, "out": 96, "activation": "none"},
        {"n": 130, "in": 160, "out": 136, "activation": "relu"},
        {"n": 259, "in": 40, "out": 80, "activation": "gelu"},
        {"n": 517, "in": 80, "out": 160, "activation": "quick_gelu"},
        {"n": 4100, "in": 512, "out": 128, "activation": "silu"},
        {"n": 6304, "in": 192, "out": 384, "activation": "gelu"},
        # Several tiles a multiprocessor, of up to 256 and up to 192 columns, with many inputs.
        {"n": 5700, "in": 960, "out": 512, "activation": "silu"},
        {"n": 4200, "in": 960, "out": 640, "activation": "gelu_tanh"},
    ),
    # The sizes of linear_half, with twice as many outputs; in groups they were measured (docs/zoo.md), else not.
    in_groups=rows_in_groups(n, minimum(inputs, outputs)),
    beside_plugins=BesidePlugins(both=True, sizes=HOPPER),
    claims=(WIDE_ENOUGH & (LAYER.flops >= ENOUGH) & (MODEL_AXES >= 4),),
    flops=LAYER.flops,
    source_dir=Path(__file__).parent,
)
