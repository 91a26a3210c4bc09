"""Read the images of one shard, wherever Ray runs it: a damaged image becomes an error beside the others."""

from __future__ import annotations

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.images.files import read_pixels
from lenet_trt.images.form import Form
from lenet_trt.images.ranges import read_range
from lenet_trt.run.on_ray import parquet
from lenet_trt.run.on_ray.pieces import PARQUET, PICTURE, ImagePiece
from lenet_trt.run.on_ray.place import DataPlace

# Files of a shard that are read at the same time: a far file system answers late, and decoders let others run.
_THREADS = 4


@dataclass(frozen=True, eq=False)
class Read:
    """What was read: ``pixels`` of those images that have no error, in their order.

    Shapes: pixels [m, channels, height, width]; names [n]; errors [n], of which m are None.
    """

    names: list[str]
    errors: list[str | None]
    pixels: NDArray[np.uint8]


@dataclass(frozen=True)
class Reader:
    """Read pieces: ``places`` are the file systems in which they lie."""

    places: tuple[DataPlace, ...]
    form: Form
    column: str | None = None

    def __call__(self, pieces: Sequence[ImagePiece]) -> Read:
        """Read all images of a shard.

        Raises:
            OSError: the file system fails, which is no fault of an image.
        """
        if len(pieces) == 1:
            parts = [self._piece(pieces[0])]
        else:
            with ThreadPoolExecutor(_THREADS) as pool:
                parts = list(pool.map(self._piece, pieces))
        names = [name for piece in pieces for name in piece.names()]
        errors = [error for part in parts for error in part[0]]
        pixels = [part[1] for part in parts if len(part[1])]
        none = np.zeros((0, *self.form.shape), np.uint8)
        return Read(names, errors, pixels[0] if len(pixels) == 1 else np.concatenate([none, *pixels]))

    def _piece(self, piece: ImagePiece) -> tuple[list[str | None], NDArray[np.uint8]]:
        """Errors of all images of a piece, and the pixels of those without."""
        none = np.zeros((0, *self.form.shape), np.uint8)
        if piece.damage is not None:
            return [piece.damage], none
        try:
            with self.places[piece.source].open(piece.path) as file:
                return self._images(piece, file)
        except LenetTrtError as error:
            return [str(error)] * piece.count, none
        except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
            return [f"{piece.name} cannot be read: {error.strerror or error}"] * piece.count, none

    def _images(self, piece: ImagePiece, opened: BinaryIO) -> tuple[list[str | None], NDArray[np.uint8]]:
        if piece.kind == PICTURE:
            pixels = read_pixels(io.BytesIO(opened.read()), piece.name, self.form)
            if len(pixels) != 1:
                raise LenetTrtError(f"{piece.name} holds {len(pixels)} images; wanted one picture")
            return [None], pixels
        if piece.kind == PARQUET:
            found = list(parquet.rows(opened, piece.name, self.column, self.form, piece.first, piece.count))
            images = [image for image, _ in found if image is not None]
            stacked = np.stack(images) if images else np.zeros((0, *self.form.shape), np.uint8)
            return [error for _, error in found], stacked
        return [None] * piece.count, read_range(opened, piece.name, self.form, piece.first, piece.count)
