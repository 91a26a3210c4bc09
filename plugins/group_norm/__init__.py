"""Declare ``group_norm``: GroupNormalization of maps, and an optional activation."""

from pathlib import Path

from lenet_trt.dims import MODEL_AXES, MULTIPROCESSORS, Condition, axes, size_of
from lenet_trt.kernel import INT32_MAX, Axis, Kernel, Launch, Tensor, Variant, float_types

from ..linear.declaration import HOPPER
from ..windows.declaration import IN_FLOATS
from .declaration import ATTRIBUTES, MANY, WEIGHTS, c, group, n, reference
from .pattern import PATTERNS

(s,) = axes("s")
ROWS = n * group
LENGTH = c // group * s
HELD = 64 * 512  # elements in the registers of a block
CLUSTER_BLOCKS, CLUSTER_THREADS = 8, 512
CLUSTER_BYTES = 16 * (CLUSTER_BLOCKS * CLUSTER_THREADS // 32 + 1)  # the parts of all warps, and a barrier


def row(threads: int, prefer: Condition | None = None) -> Variant:
    """Make the variant of kernel.cu with so many threads."""
    return Variant(
        f"row{threads}",
        Launch((ROWS, 1, 1), (threads, 1, 1), ()),
        f"a block of {threads} threads a group",
        entry="group_norm_row",
        prefer=prefer,
    )


KERNEL = Kernel(
    name="group_norm",
    doc="y = act(GroupNormalization(x, scale, bias)), groups of channels of each image",
    axes=(
        Axis("n", "images"),
        Axis("c", "channels", static=True),
        Axis("s", "pixels of an image", static=True),
    ),
    inputs=(
        Tensor("x", (n, c, s), "T", "maps"),
        *WEIGHTS,
    ),
    outputs=(Tensor("y", (n, c, s), "T", "normalised maps"),),
    types=float_types(),
    attributes=ATTRIBUTES,
    requires=c.multiple_of(group) & (ROWS * CLUSTER_BLOCKS <= INT32_MAX) & (LENGTH <= INT32_MAX // 2),
    variants=(
        row(256, LENGTH <= 32 * 256),
        Variant(
            "cluster8",
            Launch((CLUSTER_BLOCKS * ROWS, 1, 1), (CLUSTER_THREADS, 1, 1), (), CLUSTER_BYTES),
            f"a cluster of {CLUSTER_BLOCKS} blocks a group",
            source="cluster.cu",
            min_sm=90,
            # Few groups for the GPU, or groups that are far too large for a block's registers.
            prefer=MULTIPROCESSORS // 4 + LENGTH // (4 * HELD) * MANY >= ROWS,
        ),
        row(512),
    ),
    patterns=PATTERNS,
    reference=reference,
    examples=(
        {"n": 1, "c": 2, "s": 1, "group": 1, "activation": "none"},
        {"n": 3, "c": 12, "s": 35, "group": 4, "activation": "silu"},
        {"n": 2, "c": 64, "s": 200, "group": 8, "activation": "silu"},
        {"n": 5, "c": 6, "s": 1001, "group": 3, "activation": "relu"},
        {"n": 3, "c": 40, "s": 1024, "group": 4, "activation": "gelu"},
        {"n": 33, "c": 64, "s": 2000, "group": 8, "activation": "silu"},
        {"n": 1, "c": 96, "s": 3137, "group": 6, "activation": "none"},
        {"n": 1, "c": 20, "s": 4096, "group": 2, "activation": "none"},
    ),
    # In 16 bits the norms of images are group_norm_half's. TensorRT joins a norm with the sum behind it, which is worth
    # more than the norm where a sequence is large.
    claims=(
        HOPPER & IN_FLOATS & (MODEL_AXES >= 4),
        HOPPER & (size_of("T") <= 2) & (MODEL_AXES <= 3),
        HOPPER & IN_FLOATS & (n * c * s <= 2**20),
    ),
    max_elements=2**40,
    flops=8 * n * c * s,
    source_dir=Path(__file__).parent,
)
