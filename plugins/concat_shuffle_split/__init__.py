"""Declare ``concat_shuffle_split``: both halves of what ``concat_shuffle`` gives, as ShuffleNetV2 reads them."""

from pathlib import Path

import numpy as np

from lenet_trt.kernel import Kernel, Tensor, float_types

from ..concat_shuffle.declaration import AXES, EXAMPLES, INPUTS, MOST_ELEMENTS, VARIANTS, c, h, in_turns, n, w
from ..windows.declaration import IN_FLOATS, IN_GROUPS
from .pattern import PATTERNS


def reference(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both halves of the channels in turns."""
    first, second = np.split(in_turns(a, b), 2, axis=1)
    return first, second


KERNEL = Kernel(
    name="concat_shuffle_split",
    doc="first, second = Split(channel_shuffle(Concat(a, b), 2)): halves of the channels of a and b in turns",
    axes=AXES,
    inputs=INPUTS,
    outputs=(
        Tensor("first", (n, c, h, w), "T", "the first half of the channels in turns"),
        Tensor("second", (n, c, h, w), "T", "the second half"),
    ),
    types=float_types(),
    claims=(IN_FLOATS,),
    in_groups=IN_GROUPS,
    variants=VARIANTS,
    patterns=PATTERNS,
    reference=reference,
    examples=EXAMPLES,
    flops=0,
    max_elements=MOST_ELEMENTS,
    source_dir=Path(__file__).parent,
)
