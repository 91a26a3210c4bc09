"""What each Ray actor does: hold the network, classify a shard in batches, and write its file."""

from __future__ import annotations

import math
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.images.classify import classify
from lenet_trt.images.form import Scaling
from lenet_trt.run.on_ray.cluster import Workers
from lenet_trt.run.on_ray.model import ModelFiles
from lenet_trt.run.on_ray.place import DataPlace
from lenet_trt.run.on_ray.shard import answers, shard_bytes, shard_name
from lenet_trt.run.predictions import Classes

if TYPE_CHECKING:
    from lenet_trt.run.on_ray.read import Read

# While one batch is on the GPU, others are scaled, and become probabilities, on the host: two of each of two shards.
_LANES = 4
# Without --batch: images at a time on the CPU, and on a GPU the bytes of input that fill one and the most images.
_CPU_BATCH = 256
_GPU_BATCH_BYTES = 64 << 20
_GPU_BATCH = 4096
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Answering:
    """How images are classified: at most ``batch`` at a time, ``top`` classes of each (None: all of few)."""

    scaling: Scaling = field(default_factory=Scaling)
    batch: int | None = None
    top: int | None = None
    threads: int | None = None


def on_workers(model: ModelFiles, answering: Answering, workers: Workers) -> tuple[ModelFiles, Answering]:
    """Fit the runtime to where workers are: without a GPU each computes on one processor core, of several here."""
    if workers.gpus:
        return model, answering
    runtime = "ort-cpu" if model.runtime == "auto" else model.runtime
    return replace(model, runtime=runtime), replace(answering, threads=answering.threads or 1)


class Classifier:
    """Hold a loaded network and make answers of pixels, in several threads at the same time."""

    def __init__(self, model: ModelFiles, answering: Answering) -> None:
        self.network = model.load(answering.threads)
        self._answering = answering
        self._lanes = ThreadPoolExecutor(1 if self.network.on_device is None else _LANES)

    @property
    def where(self) -> str:
        """Say what computes."""
        return f"{self.network.runtime}: {self.network.where}"

    def __call__(self, pixels: NDArray[np.uint8]) -> dict[str, Any]:
        """Classify images; returns Arrow columns.

        Shapes: pixels [n, channels, height, width].
        """
        # An empty batch is computed too (as one image, taken away again): it says how many classes there are.
        given = pixels if len(pixels) else np.zeros((1, *pixels.shape[1:]), np.uint8)
        parts = self.parts(given)
        shares = list(self._lanes.map(self._shares, parts))
        found = np.concatenate(shares)[: len(pixels)]
        return answers(found, Classes(top=self._answering.top).shown(found.shape[1]))

    def parts(self, pixels: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
        """Split images into batches of nearly equal size: on a GPU each new size costs a preparation."""
        size = self.batch(pixels.shape[1:])
        if isinstance(self.network.inputs[0].axes[0], int):  # a smaller one is filled up
            return [pixels[start : start + size] for start in range(0, len(pixels), size)]
        return np.array_split(pixels, math.ceil(len(pixels) / size))

    def batch(self, shape: tuple[int, ...]) -> int:
        """Return how many images of a shape go through the network at once, at most."""
        on_gpu = min(_GPU_BATCH, math.ceil(_GPU_BATCH_BYTES / (_FLOAT_BYTES * math.prod(shape))))
        usual = _CPU_BATCH if self.network.on_device is None else on_gpu
        return self.network.inputs[0].batch(self._answering.batch, usual)

    def _shares(self, part: NDArray[np.uint8]) -> NDArray[np.float64]:
        return classify(self.network, part, self._answering.scaling)


@dataclass(frozen=True)
class Done:
    """Say what a worker, which is a process of a machine, did with a shard."""

    worker: str
    shard: int
    images: int
    errors: int
    where: str
    seconds: float


class Worker:
    """Classify shards and write their files; made by Ray in a process of its own, whose threads call it."""

    def __init__(self, model: ModelFiles, answering: Answering, output: DataPlace, about: dict[str, str]) -> None:
        self._classifier = Classifier(model, answering)
        self._output = output
        self._about = about
        self._name = f"{socket.gethostname()}:{os.getpid()}"

    def __call__(self, shard: int, read: Read) -> Done:
        """Classify one shard and write its file.

        Raises:
            LenetTrtError: the network fails, or the file cannot be written.
        """
        begun = time.perf_counter()
        found = self._classifier(read.pixels)
        about = {**self._about, "shard": str(shard)}
        self._output.write(shard_name(shard), shard_bytes(read.names, read.errors, found, about))
        errors = sum(error is not None for error in read.errors)
        seconds = time.perf_counter() - begun
        return Done(self._name, shard, len(read.names), errors, self._classifier.where, seconds)
