"""Read calibration data: a seeded choice of training images, or arrays by the names of the model's inputs."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.images.batches import STANDARD_INPUT, batches
from lenet_trt.images.files import PICTURE_SUFFIXES
from lenet_trt.images.form import Form, ImageOptions
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.ports import Port, image_axes

LEAST = 16  # different images; fewer say too little of the largest values
_PIXEL_MAX = 255
_AT_ONCE = 256
_TRAINING_IMAGES = ("train-images-idx3-ubyte.gz", "train-images-idx3-ubyte")


@dataclass(frozen=True, eq=False)
class Calibration:
    """Hold what the model is calibrated with.

    ``feeds``: an array for each input, with as many entries as there are samples. ``pixels``: the images that they
    were made of; None where the data are arrays.
    """

    feeds: dict[str, NDArray[Any]]
    pixels: NDArray[np.uint8] | None
    source: str

    def __len__(self) -> int:
        return len(next(iter(self.feeds.values())))

    def batches(self, size: int) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield inputs of at most ``size`` samples."""
        for start in range(0, len(self), size):
            yield {name: array[start : start + size] for name, array in self.feeds.items()}

    def part(self, count: int) -> Calibration:
        """Return the first samples."""
        pixels = None if self.pixels is None else self.pixels[:count]
        return Calibration({name: array[:count] for name, array in self.feeds.items()}, pixels, self.source)

    def sha256(self) -> str:
        """Hash what the model is calibrated with."""
        digest = hashlib.sha256()
        for name, array in sorted(self.feeds.items()):
            digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def calibration_data(
    sources: Sequence[str], inputs: Sequence[Port], options: ImageOptions, count: int, seed: int
) -> Calibration:
    """Choose ``count`` samples of training data.

    Raises:
        UsageError: there is none, or the options do not fit the model.
        LenetTrtError: it cannot be read, is not for this model, holds NaN, or is too little or all alike.
    """
    if not sources:
        raise UsageError("there is no calibration data: name training images with --data")
    if STANDARD_INPUT in sources:
        raise UsageError("--data -: a choice is made of the images, so they are files: name them")
    arrays = _arrays(sources, inputs)
    if arrays is None:
        pixels = _pixels(sources, options.form(inputs), count, seed)
        found = Calibration({inputs[0].name: _scaled(pixels, inputs[0], options)}, pixels, ", ".join(sources))
    else:
        found = Calibration(arrays, None, ", ".join(sources))
        chosen = _choice(len(found), count, seed)
        found = Calibration({name: array[chosen] for name, array in arrays.items()}, None, found.source)
    fixed = inputs[0].axes[0]
    batch = fixed if isinstance(fixed, int) else 1
    _check(found, batch)
    return found.part(len(found) // batch * batch)


def _check(found: Calibration, batch: int) -> None:
    """Refuse data that says too little, or nothing; ``batch`` is the least that the model takes."""
    for name, array in found.feeds.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            where = np.argwhere(~np.isfinite(array))[0].tolist()
            raise LenetTrtError(
                f"{found.source}: the data of input {name} has {array[tuple(where)]} at {where}; wanted numbers: leave "
                "such samples out"
            )
    different = len({b"".join(array[i].tobytes() for array in found.feeds.values()) for i in range(len(found))})
    least = max(LEAST, batch)
    if different < least:
        alike = f", and only {different} of them differ" if different < len(found) else ""
        raise LenetTrtError(
            f"{found.source}: there are {len(found)} samples{alike}; calibration wants at least {least} that differ, "
            "better some hundreds of all classes: name more training data with --data, or a larger --count"
        )


def _choice(available: int, count: int, seed: int) -> NDArray[np.int64]:
    if available <= count:
        return np.arange(available)
    return np.sort(np.random.default_rng(seed).choice(available, count, replace=False))


def _pixels(sources: Sequence[str], form: Form, count: int, seed: int) -> NDArray[np.uint8]:
    """Read images; of single pictures only those that are chosen are opened.

    Shapes: [n, channels, height, width].
    """
    files = [file for source in sources for file in _files(source)]
    pictures = [file for file in files if file.lower().endswith(PICTURE_SUFFIXES)]
    kept = {pictures[i] for i in _choice(len(pictures), count, seed)}
    files = [file for file in files if file in kept or not file.lower().endswith(PICTURE_SUFFIXES)]
    found = np.concatenate([batch.pixels for batch in batches(files, form, _AT_ONCE)])
    return np.ascontiguousarray(found[_choice(len(found), count, seed)])


def _files(source: str) -> list[str]:
    """Return the files behind one name: of a folder the pictures, or the training images where it is like MNIST's."""
    folder = Path(source)
    if not folder.is_dir():
        return [source]
    for name in _TRAINING_IMAGES:
        if (folder / name).is_file():
            return [str(folder / name)]
    pictures = sorted(str(path) for path in folder.iterdir() if path.name.lower().endswith(PICTURE_SUFFIXES))
    if not pictures:
        raise LenetTrtError(
            f"{source} has neither pictures ({', '.join(PICTURE_SUFFIXES)}) nor {_TRAINING_IMAGES[0]}; wanted a folder "
            "of training images"
        )
    return pictures


def _scaled(pixels: NDArray[np.uint8], port: Port, options: ImageOptions) -> NDArray[Any]:
    scaled = options.scaling(pixels, port)
    return scaled if scaled.dtype != np.uint8 else pixels.astype(np.float32) / np.float32(_PIXEL_MAX)


def _arrays(sources: Sequence[str], inputs: Sequence[Port]) -> dict[str, NDArray[Any]] | None:
    """Read one .npz with an array for each input; None where the sources are images.

    Raises:
        LenetTrtError: the model takes no images, and there is no such file; or an array does not fit.
    """
    wanted = {port.name: port for port in inputs}
    described = ", ".join(map(str, inputs))
    if len(sources) != 1 or not zipfile.is_zipfile(sources[0]):
        if image_axes(inputs) is None:
            raise UsageError(f"the network takes {described}, which are no images: give --data an .npz of such arrays")
        return None
    try:
        with np.load(sources[0], allow_pickle=False) as file:
            named = set(wanted) & set(file.files)
            if image_axes(inputs) is not None and not named and all(file[a].dtype == np.uint8 for a in file.files):
                return None
            arrays = {name: file[name] for name in wanted if name in file.files}
            seen = ", ".join(file.files) or "no arrays"
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise LenetTrtError(f"{sources[0]} is a damaged .npz: {error}") from error
    missing = [name for name in wanted if name not in arrays]
    if missing:
        pixels = "" if image_axes(inputs) is None else ", or one array of uint8 pixels under any name"
        raise LenetTrtError(f"{sources[0]} has {seen}; wanted an array for each input: {described}{pixels}")
    if image_axes(inputs) is not None and all(array.dtype == np.uint8 for array in arrays.values()):
        return None  # an input that is called "images", with pixels
    for name, array in arrays.items():
        axes = wanted[name].axes
        if array.dtype != numpy_dtype(wanted[name].dtype) or not _fits(array.shape, axes):
            raise LenetTrtError(
                f"{sources[0]}: {name} is {array.dtype} {list(array.shape)}; wanted {described}, with all samples "
                "along the first axis"
            )
    if len({len(array) for array in arrays.values()}) != 1:
        raise LenetTrtError(f"{sources[0]}: the arrays have different numbers of samples; wanted one of each a sample")
    return arrays


def _fits(shape: tuple[int, ...], axes: Sequence[int | str]) -> bool:
    pairs = list(zip(shape, axes, strict=False))[1:]
    return len(shape) == len(axes) > 0 and all(isinstance(axis, str) or axis == size for size, axis in pairs)
