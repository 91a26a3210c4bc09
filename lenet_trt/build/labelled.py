"""Judge a converted or fused model by labelled images of the user."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import ModelProto

from lenet_trt.build.difference import loses_numbers
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import check_can_read, sha256_file
from lenet_trt.images.batches import STANDARD_INPUT, UNKNOWN, batches
from lenet_trt.images.classify import output_for
from lenet_trt.images.files import PICTURE_SUFFIXES
from lenet_trt.images.form import ImageOptions
from lenet_trt.kernel.examples import error_and_norm
from lenet_trt.runtimes.network import Network
from lenet_trt.runtimes.ort import OrtCpu

_BATCH = 64


@dataclass(frozen=True)
class LabelledImages:
    """Hold image files as ``run`` takes them, the file of their classes, and the normalization of their pixels."""

    sources: tuple[str, ...]
    labels: str | None = None
    options: ImageOptions = field(default_factory=ImageOptions)

    def __str__(self) -> str:
        """Return the name of the images in reports."""
        return f"images of {', '.join(self.sources)}"

    def sha256(self) -> str:
        """Hash the content of all files, and what is done to the pixels.

        Raises:
            LenetTrtError: a file cannot be read.
        """
        digest = hashlib.sha256(f"{self.options!r}\n".encode())
        for path in self._files():
            check_can_read(path, "labelled images")
            digest.update(f"{sha256_file(path)}\n".encode())
        return digest.hexdigest()

    def _files(self) -> Iterator[Path]:
        if STANDARD_INPUT in (*self.sources, self.labels):
            raise UsageError("--images -: the images are read twice, which standard input cannot be: name files")
        for source in self.sources:
            path = Path(source)
            if path.is_dir():
                yield from sorted(each for each in path.iterdir() if each.name.lower().endswith(PICTURE_SUFFIXES))
            else:
                yield path
        if self.labels is not None:
            yield Path(self.labels)


@dataclass(frozen=True)
class Judged:
    """Hold right answers of the model and of the model before, of ``total`` images, and the relative error in norm.

    ``lost``: the model gives NaN or infinity where the model before has numbers.
    """

    correct: int
    correct_before: int
    total: int
    difference: float
    lost: bool


def judge(model: ModelProto, before: ModelProto, images: LabelledImages) -> Judged:
    """Let ONNX Runtime classify labelled images by both models.

    Raises:
        UsageError: the model takes no images, or nobody says what the images show.
        LenetTrtError: something cannot be read or run, or a label is no class of the model.
    """
    old = Network(OrtCpu(before), "the model given")
    new = old if model is before else Network(OrtCpu(model), "the model built from")
    form, scaling = images.options.form(old.inputs), images.options.scaling
    fixed = old.inputs[0].axes[0]
    correct = correct_before = total = 0
    error = norm = 0.0
    lost = False
    for batch in batches(images.sources, form, fixed if isinstance(fixed, int) else _BATCH, images.labels):
        wanted = output_for(old, batch.pixels, scaling).astype(np.float64)
        found = wanted if new is old else output_for(new, batch.pixels, scaling).astype(np.float64)
        if np.max(batch.labels) >= wanted.shape[1]:
            raise LenetTrtError(f"there is a label {np.max(batch.labels)}; the model has {wanted.shape[1]} classes")
        total += int((batch.labels != UNKNOWN).sum())
        correct_before += right_answers(wanted, batch.labels)
        correct += right_answers(found, batch.labels)
        here = error_and_norm(found, wanted)
        error, norm = math.hypot(error, here[0]), math.hypot(norm, here[1])
        lost |= loses_numbers([found], [wanted])
    if not total:
        raise UsageError(f"nobody says what the {images} show: name their classes with --labels")
    return Judged(correct, correct_before, total, error / (norm or 1.0), lost)


def right_answers(outputs: np.ndarray, labels: np.ndarray) -> int:
    """Count right answers; where the model gave NaN it has none, and nothing is right where the label is unknown."""
    return int(((outputs.argmax(axis=1) == labels) & ~np.isnan(outputs).any(axis=1)).sum())
