"""Images for tests of ``run --ray``: every kind of source, some of them damaged, and what a plain run says of them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lenet_trt.export.idx import idx_bytes
from lenet_trt.export.mnist import test_set as mnist
from lenet_trt.images.batches import batches
from lenet_trt.images.classify import classify
from lenet_trt.images.form import Form
from lenet_trt.run import load

FORM = Form(1, 28, 28)
DAMAGED = b"\x89PNG\r\n\x1a\n and nothing more"


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Encode a picture."""
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG")
    return data.getvalue()


@dataclass(frozen=True)
class Sources:
    """A folder of images: the pixels of each name, and None of those that are damaged."""

    folder: Path
    pixels: dict[str, NDArray[np.uint8] | None]


def write_sources(folder: Path) -> Sources:
    """Write pictures (two damaged, one in a folder below), IDX, NumPy and Parquet (one row damaged)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    images = mnist()[0][:700]
    folder.mkdir()
    (folder / "below").mkdir()
    pixels: dict[str, NDArray[np.uint8] | None] = {}
    for index in range(20):
        path = folder / f"{index:02d}.png" if index else folder / "below" / "00.png"
        path.write_bytes(DAMAGED if index in (3, 11) else png(images[index]))
        pixels[str(path)] = None if index in (3, 11) else images[index]
    (folder / "a-images-idx3-ubyte").write_bytes(idx_bytes(images[100:300]))
    pixels |= {f"{folder}/a-images-idx3-ubyte[{index}]": images[100 + index] for index in range(200)}
    np.save(folder / "b.npy", images[300:500])
    pixels |= {f"{folder}/b.npy[{index}]": images[300 + index] for index in range(200)}
    rows: list[bytes] = [DAMAGED if index == 7 else png(images[500 + index]) for index in range(200)]
    pq.write_table(pa.table({"image": rows, "other": list(range(200))}), folder / "c.parquet", row_group_size=30)
    pixels |= {f"{folder}/c.parquet[{index}]": None if index == 7 else images[500 + index] for index in range(200)}
    (folder / "notes.txt").write_text("no image")
    return Sources(folder, pixels)


def read_answers(output: Path) -> list[dict[str, Any]]:
    """All rows of a folder of shards."""
    import pyarrow.parquet as pq

    return [row for path in sorted(output.glob("part-*.parquet")) for row in pq.read_table(path).to_pylist()]


def plain_answers(model: Path, source: Path) -> dict[str, NDArray[np.float64]]:
    """Probabilities that a run without Ray gives, by the images' names."""
    network = load(model, "ort-cpu")
    return {
        name: share
        for batch in batches([str(source)], FORM, 256)
        for name, share in zip(batch.names, classify(network, batch.pixels), strict=True)
    }
