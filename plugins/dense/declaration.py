"""What the declarations of dense layers share."""

from typing import Any

from lenet_trt.dims import Condition, Dim, axes, ceil_div
from lenet_trt.kernel import MAX_GRID_Y, Launch, Variant

n, inputs, outputs = axes("n in out")
STAGE_BYTES = 128  # of a row in shared memory, a stage


def blocks(rows: int, features: int) -> Dim:
    """Return the number of blocks that compute ``rows`` x ``features`` results each."""
    return ceil_div(n, rows) * ceil_div(outputs, features)


def staged(name: str, tile: tuple[int, int], note: str, aligned: Condition, **more: Any) -> Variant:
    """Make the variant of staged.cu whose blocks compute a tile of rows x features from shared memory."""
    rows, features = tile
    warps, stages = (8, 3) if rows == 128 else (4, 4)
    launch = Launch(
        (ceil_div(n, rows), ceil_div(outputs, features), 1),
        (32 * warps, 1, 1),
        extras=(n,),
        shared_bytes=stages * (rows + features) * STAGE_BYTES,
    )
    when = aligned & (outputs <= MAX_GRID_Y * features)
    return Variant(name, launch, note, source="staged.cu", min_sm=80, when=when, **more)
