"""Turn the pixels of images into the numbers that a network takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.ports import IMAGE_DTYPE, Port

_PIXEL_MAX = 255


def scaled_pixels(port: Port, array: NDArray[Any]) -> NDArray[Any]:
    """Return pixels as the network takes them: uint8 images divided by 255."""
    if array.dtype.name != IMAGE_DTYPE or port.dtype == IMAGE_DTYPE:
        return array
    return (array.astype(np.float32) / np.float32(_PIXEL_MAX)).astype(numpy_dtype(port.dtype))
