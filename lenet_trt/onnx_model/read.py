"""Read an ONNX model whole and checked, fingerprint it, and describe its tensors."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, ValueInfoProto

from lenet_trt.cuda.compile import source_sha256
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import check_can_read, sha256_bytes, sha256_file
from lenet_trt.kernel.registry import kernel
from lenet_trt.onnx_model.external import ExternalPiece, external_pieces
from lenet_trt.onnx_model.large import check_model, refuse_large
from lenet_trt.onnx_model.plugin_nodes import OPERATOR, plugin_nodes
from lenet_trt.onnx_model.profiles import Profile, axes_of, inputs_of
from lenet_trt.onnx_model.quantization import in_float8
from lenet_trt.onnx_model.valid import check_texts, check_values


def load_lenet5() -> tuple[ModelProto, str]:
    """Return LeNet-5 with the shipped weights, exported afresh where torch is installed, and its origin."""
    from lenet_trt.export import lenet5_onnx

    with tempfile.TemporaryDirectory(prefix="lenet-trt-") as folder:
        file = Path(folder) / "lenet5.onnx"
        source = lenet5_onnx(file).source
        return onnx.load(file), f"LeNet-5, {source}"


def load_quantized_lenet5(narrow: str) -> ModelProto:
    """LeNet-5 with the shipped weights and Q/DQ of ``narrow``: "int8", or "fp8" with the same largest values.

    Raises:
        LenetTrtError: the shipped model is not there, or is of other weights.
    """
    from lenet_trt.export.lenet5 import lenet5_int8

    model = lenet5_int8()
    return in_float8(model) if narrow == "fp8" else model


WANTED_MODEL = "an ONNX file"
_LFS_POINTER = b"version https://git-lfs"


def load_model(path: Path, *, large: bool = False) -> ModelProto:
    """Read and check a model, external weights included.

    ``large``: it may have more weights than one file can have, as those who use ``large.py`` can take.

    Raises:
        LenetTrtError: not there, not ONNX, or not valid ONNX; says which and where. Too large.
    """
    model = _structure(path)
    pieces = external_pieces(model, path)
    if not large:
        refuse_large(path, sum(piece.size_bytes for piece in pieces))
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
        # Operators of domains that ONNX does not know (plugins) pass; shapes that contradict do not.
        check_model(model, full_check=True)
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        raise LenetTrtError(f"{path} is not valid ONNX: {' '.join(str(error).split())}") from error
    check_values(model, path)
    if not model.graph.output:
        raise LenetTrtError(f"{path} has no outputs: it is not an ONNX model, or an empty one")
    return model


def model_fingerprint(path: Path | None) -> str:
    """Return a hash of what the model depends on: the file, its external weights, the kernels of its plugin nodes.

    For None, of what LeNet-5 is made from.
    """
    if path is None:
        from lenet_trt.export import lenet5_fingerprint

        return lenet5_fingerprint()
    check_can_read(path, WANTED_MODEL)
    hashes = [sha256_file(path)]
    model = _structure(path)
    for piece in external_pieces(model, path):
        hashes.append(f"{piece} {_sha256_of(piece, path.parent)}")
    hashes += [source_sha256(kernel(name)) for name in sorted(set(plugin_nodes(model).values()) - {OPERATOR})]
    return sha256_bytes("\n".join(hashes).encode())


def _sha256_of(piece: ExternalPiece, folder: Path) -> str:
    """Hash the bytes of one tensor, and not the rest of its file."""
    digest, left = hashlib.sha256(), piece.size_bytes
    with open(folder / piece.location, "rb") as file:
        file.seek(piece.offset)
        while left and (block := file.read(min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def model_files(path: Path) -> list[Path]:
    """Return the file of a model and the files beside it that hold its weights.

    Raises:
        LenetTrtError: the file cannot be read, or is not ONNX.
    """
    pieces = external_pieces(_structure(path), path)
    return [path, *(path.parent / location for location in dict.fromkeys(piece.location for piece in pieces))]


def _structure(path: Path) -> ModelProto:
    """Return the model without the weights that lie outside its file."""
    check_can_read(path, WANTED_MODEL)
    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)  # whatever the file is called
    except OSError as error:
        raise LenetTrtError(f"{path} cannot be read: {error.strerror or error}") from error
    except DecodeError as error:
        raise LenetTrtError(_not_onnx(path)) from error
    if not path.stat().st_size:  # protobuf takes it for a model without content
        raise LenetTrtError(_not_onnx(path))
    check_texts(model, path)
    return model


def _not_onnx(path: Path) -> str:
    """Say what a file is that is no model, as far as its first bytes tell."""
    with open(path, "rb") as file:
        head = file.read(len(_LFS_POINTER))
    if not head:
        return f"{path} is empty; wanted an ONNX file: export or copy it again"
    if head == _LFS_POINTER:
        return f"{path} is a pointer of Git LFS, not the model itself: fetch the model with git lfs pull"
    seen = f"it starts with the bytes {head[:8].hex(' ')}"
    return f"{path} is not an ONNX file ({seen}), or it was cut short: export or copy it again"


def described_tensors(model: ModelProto, profiles: Mapping[str, Profile]) -> dict[str, Any]:
    """Return the model's inputs and outputs as plain values, with the profile of each dynamic input."""
    inputs = inputs_of(model)
    tensors: dict[str, Any] = {}
    for value in (*(value for value in model.graph.input if value.name in inputs), *model.graph.output):
        tensors[value.name] = {
            "io": "input" if value.name in inputs else "output",
            "dtype": dtype_of(value),
            "shape": list(axes_of(value)),
        }
        if value.name in profiles:
            tensors[value.name]["profile"] = {name: list(shape) for name, shape in asdict(profiles[value.name]).items()}
    return tensors


def dtype_of(value: ValueInfoProto) -> str:
    """Return NumPy's name of the element type, such as "float32"; bfloat16 and the 8-bit floats by ml_dtypes' names."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)).name
