"""Data sets on disk for the tests of lenet_trt.export."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from lenet_trt.export import mnist
from lenet_trt.export.idx import idx_bytes


@pytest.fixture(scope="session")
def test_split() -> mnist.Split:
    """The shipped test set."""
    return mnist.Split(*mnist.test_set())


@pytest.fixture
def data_folder(tmp_path: Path) -> Callable[[mnist.Split, mnist.Split], Path]:
    """Writes a data set as a folder of IDX files: the training files gzip, the test files plain."""

    def write(train: mnist.Split, test: mnist.Split) -> Path:
        folder = tmp_path / "data"
        folder.mkdir()
        for split, data in ((mnist.TRAIN, train), (mnist.TEST, test)):
            for name, values in ((mnist.IMAGE_FILE, data.images), (mnist.LABEL_FILE, data.labels)):
                path = folder / name.format(split=split)
                if split == mnist.TRAIN:
                    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(idx_bytes(values), 1))
                else:
                    path.write_bytes(idx_bytes(values))
        return folder

    return write
