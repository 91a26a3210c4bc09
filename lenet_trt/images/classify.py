"""Compute class probabilities of images with a loaded network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.images.form import Scaling

if TYPE_CHECKING:
    from lenet_trt.runtimes.network import Network

_SUM_TOLERANCE = 1e-3


def classify(network: Network, pixels: NDArray[np.uint8], scaling: Scaling | None = None) -> NDArray[np.float64]:
    """Return the class probabilities of a batch.

    Shapes: pixels [n, channels, height, width] -> [n, classes].
    """
    return probabilities(output_for(network, pixels, scaling or Scaling()))


def output_for(network: Network, pixels: NDArray[np.uint8], scaling: Scaling) -> NDArray[Any]:
    """Return the network's first output for a batch; a batch smaller than the network's fixed size is filled up.

    Shapes: pixels [n, channels, height, width] -> [n, classes].

    Raises:
        LenetTrtError: the output has another shape, so the network is no classifier.
    """
    (port,) = network.inputs
    count, fixed = len(pixels), port.axes[0]
    if isinstance(fixed, int) and count < fixed:
        pixels = np.concatenate([pixels, np.zeros((fixed - count, *pixels.shape[1:]), np.uint8)])
    output = network(scaling(pixels, port))
    found = np.asarray(output[0] if isinstance(output, tuple) else output)
    if found.ndim != 2 or len(found) != len(pixels) or found.shape[1] < 1:
        raise LenetTrtError(
            f"the network's output has shape {list(found.shape)} for {len(pixels)} images; "
            f"wanted [{len(pixels)}, classes]: it is no classifier. "
            "In Python, lenet_trt.run.load(path)(x) runs any network"
        )
    return found[:count]


def probabilities(output: NDArray[Any]) -> NDArray[np.float64]:
    """Return class probabilities from a network's output: logits through softmax, probabilities unchanged.

    Shapes: output [n, classes] -> [n, classes].
    """
    values = output.astype(np.float64)
    with np.errstate(all="ignore"):
        if (values >= 0).all() and np.allclose(values.sum(axis=1), 1, rtol=0, atol=_SUM_TOLERANCE):
            return values
        grown = np.exp(values - values.max(axis=1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=1, keepdims=True))
