"""Measure how many images a network classifies right, whatever runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.export import mnist
from lenet_trt.export.geometry import CLASSES

Classifier: TypeAlias = Callable[[NDArray[np.float32]], NDArray[np.floating]]


def logits_of(network: Classifier, images: NDArray[np.uint8], *, batch: int = 1000) -> NDArray[np.floating]:
    """Run `network` over uint8 images, `batch` at a time.

    Shapes: images [n, 28, 28] uint8; network takes [b, 1, 28, 28] float32, returns [b, 10] -> [n, 10].
    Raises: LenetTrtError when the network's output has another shape.
    """
    parts = []
    for start in range(0, len(images), batch):
        pixels = mnist.network_input(images[start : start + batch])
        logits = np.asarray(network(pixels))
        if logits.shape != (len(pixels), CLASSES):
            raise LenetTrtError(
                f"the network's output has shape {list(logits.shape)} for {len(pixels)} images; "
                f"wanted [{len(pixels)}, {CLASSES}]: it is not a digit classifier"
            )
        parts.append(logits)
    return np.concatenate(parts)


def accuracy(
    network: Classifier,
    images: NDArray[np.uint8] | None = None,
    labels: NDArray[np.uint8] | None = None,
    *,
    batch: int = 1000,
) -> float:
    """Return the share of images, 0 to 1, whose largest logit is the right class; NaN logits are wrong.

    Without images: the 10,000 MNIST test images that ship with the package.
    """
    if images is None or labels is None:
        images, labels = mnist.test_set()
    logits = logits_of(network, images, batch=batch)
    right = (logits.argmax(axis=1) == labels) & ~np.isnan(logits).any(axis=1)
    return float(right.mean())
