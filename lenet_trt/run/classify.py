"""Images into a loaded network, class probabilities out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import UsageError
from lenet_trt.run.images import Batch
from lenet_trt.run.predictions import probabilities

if TYPE_CHECKING:
    from lenet_trt.run.image_files import Size
    from lenet_trt.runtimes.network import Network


def image_size(network: Network) -> Size:
    """The (height, width) of the grey images that a network takes.

    Raises:
        UsageError: it takes no grey images.
    """
    axes = network.inputs[0].axes if len(network.inputs) == 1 and network.inputs[0].takes_images() else ()
    if len(axes) == 4 and axes[1] == 1 and isinstance(axes[2], int) and isinstance(axes[3], int):
        return axes[2], axes[3]
    seen = ", ".join(f"{port.name} {port.dtype} [{', '.join(map(str, port.axes))}]" for port in network.inputs)
    raise UsageError(
        f"the network takes {seen}; images go into [n, 1, height, width]. "
        "In Python, lenet_trt.run.load(path)(arrays) runs any network"
    )


def classify(network: Network, batch: Batch) -> NDArray[np.float64]:
    """Class probabilities of a batch; one that is smaller than a network of fixed size takes is filled up.

    Shapes: [n, classes].
    """
    fixed = network.inputs[0].axes[0]
    pixels = batch.pixels[:, None]
    if isinstance(fixed, int) and len(pixels) < fixed:
        padding = np.zeros((fixed - len(pixels), *pixels.shape[1:]), np.uint8)
        output = network(np.concatenate([pixels, padding]))[: len(pixels)]
    else:
        output = network(pixels)
    output = output[0] if isinstance(output, tuple) else output
    return probabilities(np.asarray(output), len(pixels))
