"""Read MNIST and data sets with the same layout: the shipped test set, a folder of IDX files, the network's input."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.export.geometry import CLASSES, IMAGE_SHAPE, PIXEL_MAX
from lenet_trt.export.idx import idx_bytes, read_idx

DATA_DIR = Path(__file__).parent / "data"
IMAGE_FILE = "{split}-images-idx3-ubyte"
LABEL_FILE = "{split}-labels-idx1-ubyte"
FILES = (IMAGE_FILE, LABEL_FILE)
TRAIN = "train"
TEST = "t10k"


@dataclass(frozen=True)
class Split:
    """Hold images with their labels.

    Shapes: images [n, 28, 28] uint8, labels [n] uint8.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, part: slice) -> Split:
        return Split(self.images[part], self.labels[part])

    def sha256(self) -> dict[str, str]:
        """Return hashes of the two files as uncompressed IDX: compression does not change them."""
        return {
            name: hashlib.sha256(idx_bytes(values)).hexdigest()
            for name, values in (("images", self.images), ("labels", self.labels))
        }


def network_input(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn uint8 images into the network's input: float32 pixels in [0, 1] with a channel axis.

    Shapes: images [n, 28, 28] uint8 -> [n, 1, 28, 28] float32.
    """
    pixels: NDArray[np.float32] = images.reshape(-1, *IMAGE_SHAPE).astype(np.float32) / np.float32(PIXEL_MAX)
    return pixels


def test_set() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the 10,000 MNIST test images that ship with the package, and their labels.

    Shapes: images [10000, 28, 28] uint8, labels [10000] uint8.
    """
    split = load_split(DATA_DIR, TEST)
    return split.images, split.labels


test_set.__test__ = False  # type: ignore[attr-defined]  # pytest takes the name for a test


def load_split(folder: Path | str, split: str) -> Split:
    """Read one split (`train` or `t10k`) of a folder of IDX files with MNIST's names, gzip or not.

    Raises: LenetTrtError when a file is missing or damaged, or images and labels do not belong together.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise LenetTrtError(f"{folder} is not a folder; wanted one that holds {_file_list()}")
    image_path = _find(folder, IMAGE_FILE.format(split=split))
    label_path = _find(folder, LABEL_FILE.format(split=split))
    images = read_idx(image_path, (None, *IMAGE_SHAPE[1:]))
    labels = read_idx(label_path, (None,))
    if len(images) != len(labels):
        raise LenetTrtError(
            f"{image_path} has {len(images)} images but {label_path} has {len(labels)} labels: "
            "they do not belong together, or one of them is damaged"
        )
    if not len(images):
        raise LenetTrtError(f"{image_path} has no images; wanted at least one")
    if labels.max() >= CLASSES:
        raise LenetTrtError(
            f"{label_path} has the label {labels.max()}; wanted 0 to {CLASSES - 1}: the network has {CLASSES} classes"
        )
    return Split(images, labels)


def _find(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise LenetTrtError(f"{folder} has neither {name} nor {name}.gz; wanted {_file_list()}, each plain or .gz")


def _file_list() -> str:
    return ", ".join(name.format(split=split) for split in (TRAIN, TEST) for name in FILES)
