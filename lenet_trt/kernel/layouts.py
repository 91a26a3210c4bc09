"""Define the layouts: how a tensor lies in memory. A declaration's shapes, and those of networks, do not change by it.

In a layout other than ``linear``, the third axis from the end (the channels) is cut into packs, and a pack lies last in
memory. The last pack is padded: a kernel writes zeros there, and does not rely on what it reads there. The names are
TensorRT's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from lenet_trt.kernel.shapes import Shape

LINEAR = "linear"
# The fewest axes that a layout with packs has: channels, height, width.
LEAST_RANK = 3


@dataclass(frozen=True)
class MemoryLayout:
    """Describe a layout. ``number``: what the plugin library's data has for it; ``tensorrt_name``: in TensorFormat.

    ``pack``: channels in a pack (0: there are none). ``packs_last``: all packs of a point lie together; else each pack
    has planes of its own. ``dtypes``: those that TensorRT stores so.
    """

    name: str
    number: int
    tensorrt_name: str
    pack: int = 0
    packs_last: bool = False
    dtypes: tuple[str, ...] = ()

    def stored_shape(self, shape: Shape) -> Shape:
        """Return the sizes of the memory that a tensor takes, the slowest first."""
        if not self.pack:
            return shape
        *outer, channels, height, width = shape
        packs = -(-channels // self.pack)
        if self.packs_last:
            return (*outer, height, width, packs * self.pack)
        return (*outer, packs, height, width, self.pack)

    def store(self, array: np.ndarray, padding: float = 0.0) -> np.ndarray:
        """Return the array as it lies in memory."""
        import numpy as np

        if not self.pack:
            return np.ascontiguousarray(array)
        *outer, channels, height, width = array.shape
        padded = -(-channels // self.pack) * self.pack
        whole = np.full((*outer, padded, height, width), padding, array.dtype)
        whole[..., :channels, :, :] = array
        if self.packs_last:
            return np.ascontiguousarray(np.moveaxis(whole, -3, -1))
        packs = whole.reshape(*outer, padded // self.pack, self.pack, height, width)
        return np.ascontiguousarray(np.moveaxis(packs, -3, -1))

    def load(self, stored: np.ndarray, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """Return the tensor of that shape, and the padding, of what lies in memory."""
        import numpy as np

        if not self.pack:
            return stored, stored.reshape(-1)[:0]
        *outer, channels, height, width = shape
        padded = -(-channels // self.pack) * self.pack
        whole = np.moveaxis(stored, -1, -3).reshape(*outer, padded, height, width)
        return np.ascontiguousarray(whole[..., :channels, :, :]), whole[..., channels:, :, :]


LAYOUTS: Mapping[str, MemoryLayout] = {
    each.name: each
    for each in (
        MemoryLayout(LINEAR, 0, "LINEAR"),
        MemoryLayout("hwc8", 1, "HWC8", 8, True, ("float16", "bfloat16")),
        MemoryLayout("chw32", 2, "CHW32", 32, False, ("float32", "float16", "int8")),
    )
}
