"""Write the answers of a shard as Parquet: a row an image, with its class and probabilities, or with its error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NAME = re.compile(r"part-(\d{7,})\.parquet")
# The columns whose values repeat; to look for repeated values in the others takes most of the time of a file.
_REPEATED = ["class", "error"]


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return f"part-{number:07d}.parquet"


def shard_number(name: str) -> int | None:
    """Return the number of the shard that a file is by its name, or None for another file."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def answers(shares: NDArray[np.float64], top: int | None) -> dict[str, Any]:
    """Make Arrow columns of class probabilities: class, probability, and all probabilities or the ``top`` best.

    The class is null where the network gave NaN.

    Shapes: shares [n, classes].
    """
    import pyarrow as pa

    count, classes = shares.shape
    broken = np.isnan(shares).any(axis=1)
    best = shares.argmax(axis=1)
    columns: dict[str, Any] = {
        "class": pa.array(best.astype(np.int32), mask=broken),
        "probability": pa.array(shares[np.arange(count), best].astype(np.float32), mask=broken),
    }
    if top is None:
        columns["probabilities"] = _lists(pa.array(shares.astype(np.float32).ravel()), count, classes)
        return columns
    top = min(top, classes)
    order = np.argsort(-shares, axis=1, kind="stable")[:, :top]
    columns["top_classes"] = _lists(pa.array(order.astype(np.int32).ravel()), count, top)
    values = np.take_along_axis(shares, order, axis=1).astype(np.float32)
    columns["top_probabilities"] = _lists(pa.array(values.ravel()), count, top)
    return columns


def shard_bytes(
    names: Sequence[str], errors: Sequence[str | None], found: dict[str, Any], about: dict[str, str]
) -> bytes:
    """Write the Parquet file of a shard; ``found`` are the columns of the images without an error, in their order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"image": pa.array(names, pa.string()), **spread(errors, found)}).replace_schema_metadata(about)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=_REPEATED)
    return bytes(sink.getvalue())


def spread(errors: Sequence[str | None], found: dict[str, Any]) -> dict[str, Any]:
    """Put the answers of the images without an error into rows for all images, and the errors beside them."""
    import pyarrow as pa

    damaged = np.array([error is not None for error in errors], bool)
    place = pa.array(np.cumsum(~damaged) - 1, pa.int64(), mask=damaged)
    columns = {name: values.take(place) for name, values in found.items()}
    columns["error"] = pa.array(errors, pa.string())
    return columns


def _lists(values: Any, count: int, width: int) -> Any:
    import pyarrow as pa

    return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * width), values)
