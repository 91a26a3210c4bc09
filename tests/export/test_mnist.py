"""The shipped test set, and folders of data that are right, wrong or mixed up."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.export import mnist
from lenet_trt.export.accuracy import accuracy, logits_of
from lenet_trt.export.idx import idx_bytes

Writer = Callable[[mnist.Split, mnist.Split], Path]

# Source: these are the hashes of the files on MNIST's page, decompressed.
TEST_SHA256 = {
    "images": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "labels": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
TRAIN_SHA256 = {
    "images": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "labels": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
}


def test_shipped_test_set_is_mnists(test_split: mnist.Split) -> None:
    assert test_split.images.shape == (10_000, 28, 28)
    assert test_split.labels.shape == (10_000,)
    assert test_split.images.dtype == test_split.labels.dtype == np.uint8
    assert test_split.sha256() == TEST_SHA256
    attribution = (mnist.DATA_DIR / "ATTRIBUTION").read_text()
    assert "CC BY-SA 3.0" in attribution
    assert all(sha256 in attribution for sha256 in TEST_SHA256.values())


def test_training_set_is_mnists() -> None:
    folder = os.environ.get("LENET_TRT_MNIST")
    if not folder:
        pytest.skip("LENET_TRT_MNIST does not name a folder with MNIST's training files")
    train = mnist.load_split(folder, mnist.TRAIN)
    assert len(train) == 60_000
    assert train.sha256() == TRAIN_SHA256


def test_network_input_is_the_share_of_white() -> None:
    images = np.arange(256, dtype=np.uint8).repeat(784).reshape(256, 28, 28)
    pixels = mnist.network_input(images)
    assert pixels.shape == (256, 1, 28, 28)
    assert pixels.dtype == np.float32
    np.testing.assert_array_equal(pixels[:, 0, 3, 4], np.arange(256, dtype=np.float32) / np.float32(255))


def test_folder_gzip_or_not(data_folder: Writer, test_split: mnist.Split) -> None:
    train, test = test_split[:30], test_split[30:47]
    folder = data_folder(train, test)
    for name, wanted in ((mnist.TRAIN, train), (mnist.TEST, test)):
        seen = mnist.load_split(folder, name)
        np.testing.assert_array_equal(seen.images, wanted.images)
        np.testing.assert_array_equal(seen.labels, wanted.labels)


def test_other_labels_and_fewer_classes_are_fine(data_folder: Writer) -> None:
    two = mnist.Split(np.zeros((4, 28, 28), np.uint8), np.array([0, 1, 1, 0], np.uint8))
    assert len(mnist.load_split(data_folder(two, two), mnist.TRAIN)) == 4


ZEROS = np.zeros((3, 28, 28), np.uint8)
LABELS = np.array([1, 2, 3], np.uint8)
BAD_FOLDERS = {
    "too few labels": (ZEROS, LABELS[:2], "has 3 images but .* has 2 labels"),
    "a label too large": (ZEROS, np.array([1, 10, 3], np.uint8), "has the label 10; wanted 0 to 9"),
    "other images": (np.zeros((3, 32, 32), np.uint8), LABELS, r"has shape \[3, 32, 32\]; wanted \[any, 28, 28\]"),
    "files swapped": (LABELS, ZEROS, "has 1 axes; wanted 3"),
    "nothing": (ZEROS[:0], LABELS[:0], "has no images"),
}


@pytest.mark.parametrize("name", BAD_FOLDERS)
def test_folders_that_do_not_fit_together(tmp_path: Path, name: str) -> None:
    images, labels, message = BAD_FOLDERS[name]
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx_bytes(images))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))
    with pytest.raises(LenetTrtError, match=message):
        mnist.load_split(tmp_path, mnist.TRAIN)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(LenetTrtError, match=r"neither train-images-idx3-ubyte nor train-images-idx3-ubyte\.gz"):
        mnist.load_split(tmp_path, mnist.TRAIN)
    with pytest.raises(LenetTrtError, match="is not a folder; wanted one that holds train-images"):
        mnist.load_split(tmp_path / "absent", mnist.TRAIN)


def test_accuracy_counts_classes() -> None:
    labels = np.array([3, 0, 9, 9, 1], np.uint8)
    images = np.zeros((5, 28, 28), np.uint8)
    images[:, 0, 0] = [3, 0, 9, 1, 1]

    def network(pixels: np.ndarray) -> np.ndarray:
        return np.eye(10)[np.rint(pixels[:, 0, 0, 0] * 255).astype(int)]

    assert accuracy(network, images, labels, batch=2) == 0.8
    assert accuracy(lambda pixels: np.full((len(pixels), 10), np.nan), images, np.zeros(5, np.uint8)) == 0.0
    with pytest.raises(LenetTrtError, match=r"has shape \[5, 1\] for 5 images; wanted \[5, 10\]"):
        logits_of(lambda pixels: np.zeros((len(pixels), 1)), images)
