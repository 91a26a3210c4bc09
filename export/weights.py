"""Read and write the trained parameters as safetensors, with a record of how they were made, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from lenet_trt.errors import LenetTrtError
from lenet_trt.export.geometry import parameter_shapes
from lenet_trt.files import sha256_bytes, write_atomic
from lenet_trt.schema import json_text

WEIGHTS = Path(__file__).parent / "weights" / "lenet5.safetensors"
MAX_BYTES = 1 << 20


def weights_record_path(path: Path) -> Path:
    """Return the path of the record of the file at `path`: beside it, as JSON."""
    return path.with_suffix(".json")


def load_weights(path: Path | str = WEIGHTS) -> dict[str, NDArray[np.float32]]:
    """Read LeNet-5's parameters by torch name (`conv1.weight`, ...) and check them.

    Raises: LenetTrtError when the file is no safetensors file, or its tensors are not LeNet-5's.
    """
    path = Path(path)
    tensors = _tensors(path)
    seen = {name: (tensor["dtype"], tuple(tensor["shape"])) for name, tensor in tensors.items()}
    wanted = {name: ("F32", shape) for name, shape in parameter_shapes().items()}
    if seen != wanted:
        odd = min(name for name in seen.keys() | wanted.keys() if seen.get(name) != wanted.get(name))
        raise LenetTrtError(
            f"{path} does not hold LeNet-5: {odd} is {_told(seen.get(odd))}, "
            f"wanted {_told(wanted.get(odd))}: train it with `lenet-trt train -o FILE`"
        )
    weights = {
        name: np.frombuffer(tensors[name]["data"], "<f4").astype(np.float32).reshape(shape)
        for name, (_, shape) in wanted.items()
    }
    not_finite = [name for name, value in weights.items() if not np.isfinite(value).all()]
    if not_finite:
        raise LenetTrtError(f"{path} has NaN or infinity in {not_finite[0]}: train it again")
    return weights


def save_weights(path: Path, weights: dict[str, NDArray[np.float32]], record: dict[str, Any]) -> None:
    """Write the parameters to `path`, and beside it the record of how they were made.

    The record contains the SHA-256 of the weights, which shows that the two files belong together.
    """
    data = save({name: np.ascontiguousarray(weights[name]) for name in parameter_shapes()})
    record = {"weights": path.name, "sha256": sha256_bytes(data), **record}
    write_atomic(path, data)
    write_atomic(weights_record_path(path), (json_text(record) + "\n").encode())


def _tensors(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise LenetTrtError(f"{path} is not a regular file; wanted LeNet-5's weights")
        if path.stat().st_size > MAX_BYTES:
            raise LenetTrtError(
                f"{path} has {path.stat().st_size} bytes; LeNet-5's weights have less than {MAX_BYTES}: "
                "it holds another network"
            )
        return dict(deserialize(path.read_bytes()))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error
    except SafetensorError as error:
        raise LenetTrtError(
            f"{path} is not a safetensors file ({error}); wanted LeNet-5's weights, "
            "as `lenet-trt train -o FILE` writes them"
        ) from error


def _told(tensor: tuple[str, tuple[int, ...]] | None) -> str:
    return "absent" if tensor is None else f"{tensor[0]} {list(tensor[1])}"
