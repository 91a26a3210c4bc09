"""Declare ``concat_shuffle``: the channels of two tensors in turns, as ShuffleNetV2 joins its branches."""

from pathlib import Path

from lenet_trt.kernel import Kernel, Tensor, float_types

from ..windows.declaration import IN_FLOATS, IN_GROUPS
from .declaration import AXES, EXAMPLES, INPUTS, MOST_ELEMENTS, VARIANTS, c, h, in_turns, n, w
from .pattern import PATTERNS

KERNEL = Kernel(
    name="concat_shuffle",
    doc="y = channel_shuffle(Concat(a, b), 2): channels of a and b in turns",
    axes=AXES,
    inputs=INPUTS,
    outputs=(Tensor("y", (n, 2 * c, h, w), "T", "channels in turns"),),
    types=float_types(),
    claims=(IN_FLOATS,),
    in_groups=IN_GROUPS,
    variants=VARIANTS,
    patterns=PATTERNS,
    reference=in_turns,
    examples=EXAMPLES,
    flops=0,
    max_elements=MOST_ELEMENTS,
    source_dir=Path(__file__).parent,
)
