"""Write LeNet-5 as ONNX: exported afresh where torch is installed, else the shipped export."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.export.onnx_file import checked_model, model_bytes
from lenet_trt.export.weights import WEIGHTS, load_weights
from lenet_trt.files import sha256_bytes, sha256_file, write_atomic

log = logging.getLogger(__name__)

SHIPPED = Path(__file__).parent / "models" / "lenet5.onnx"
# Made by: lenet-trt quantize --int8; its record lies beside it.
SHIPPED_INT8 = Path(__file__).parent / "models" / "lenet5.int8.onnx"
# What the bytes of an export depend on, besides the weights and torch.
_SOURCES = ("geometry.py", "model.py", "onnx_file.py", "torch_export.py", "lenet5.py")
_NEEDED = ("torch", "onnxscript")


@dataclass(frozen=True)
class Provenance:
    """Hold where an ONNX file of LeNet-5 came from."""

    source: Literal["exported", "shipped"]
    reason: str
    onnx_sha256: str
    weights_sha256: str
    torch: str | None

    def as_dict(self) -> dict[str, str | None]:
        """Return the same as plain values, for a sidecar."""
        return asdict(self)


def lenet5_onnx(path: Path | str, *, weights: Path | str = WEIGHTS, fresh: bool | None = None) -> Provenance:
    """Write LeNet-5 with these weights to `path` as ONNX, and say how it was made.

    `fresh`: True exports with torch, False uses the shipped graph, None exports where torch is
    installed. The shipped graph takes other weights too: only its initializers are replaced.

    Shapes: images [n, 1, 28, 28] float32 -> logits [n, 10] float32, with n dynamic.
    Raises: LenetTrtError when the weights are not LeNet-5's, or torch is requested and not installed.
    """
    values = load_weights(weights)
    weights_sha256 = sha256_file(Path(weights))
    version = torch_version()
    if fresh is None and version is None:
        reason = "torch (with onnxscript) is not installed: pip install 'lenet-trt[export]'"
    elif fresh is False:
        reason = "the shipped graph was requested"
    else:
        data, reason = _export(values, version, must=fresh is True)
        if data is not None:
            write_atomic(Path(path), data)
            return Provenance("exported", reason, sha256_bytes(data), weights_sha256, version)
    data = _shipped_with(values)
    write_atomic(Path(path), data)
    return Provenance("shipped", reason, sha256_bytes(data), weights_sha256, None)


def lenet5_int8() -> onnx.ModelProto:
    """Read LeNet-5 with the shipped weights and int8 Q/DQ, calibrated on training images.

    Shapes: as `lenet5_onnx`.
    Raises: LenetTrtError when it was made from other weights than those that are shipped.
    """
    try:
        model = onnx.load(SHIPPED_INT8)
    except OSError as error:
        raise LenetTrtError(f"{SHIPPED_INT8} cannot be read ({error}): install lenet-trt again") from error
    found = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, wanted in load_weights(WEIGHTS).items():
        if name not in found or numpy_helper.to_array(found[name]).tobytes() != wanted.tobytes():
            raise LenetTrtError(
                f"{SHIPPED_INT8} has another {name} than {WEIGHTS}: make it again with lenet-trt quantize --int8 "
                f"-o {SHIPPED_INT8}"
            )
    return model


def lenet5_fingerprint(*, weights: Path | str = WEIGHTS, fresh: bool | None = None) -> str:
    """Hash everything on which `lenet5_onnx` with the same arguments depends, in milliseconds.

    Equal fingerprints mean equal ONNX files, so nothing needs to be exported again.
    """
    folder = Path(__file__).parent
    parts = [sha256_file(path) for path in (Path(weights), SHIPPED, SHIPPED_INT8)]
    parts += [str(fresh), str(torch_version())]
    parts += [sha256_file(folder / name) for name in _SOURCES]
    return sha256_bytes("\n".join(parts).encode())


def torch_version() -> str | None:
    """Return the version of the installed torch without importing it; None where it cannot export."""
    if any(util.find_spec(name) is None for name in _NEEDED):
        return None
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def _export(values: dict[str, NDArray[np.float32]], version: str | None, *, must: bool) -> tuple[bytes | None, str]:
    """Export with torch; return the bytes, or None and the reason."""
    if version is None:
        raise LenetTrtError(
            "exporting afresh needs torch and onnxscript, which are not installed: "
            "pip install 'lenet-trt[export]', or use the shipped graph"
        )
    try:
        from lenet_trt.export.torch_export import exported_lenet5

        return model_bytes(exported_lenet5(values)), f"exported with torch {version}"
    except Exception as error:  # torch raises many kinds of errors; the shipped graph is equally good
        told = f"torch {version} could not export LeNet-5: {type(error).__name__}: {error}"
        if must:
            raise LenetTrtError(f"{told}: use the shipped graph, or another torch") from error
        log.warning("%s; using the shipped export", told)
        return None, told


def _shipped_with(values: dict[str, NDArray[np.float32]]) -> bytes:
    try:
        data = SHIPPED.read_bytes()
    except OSError as error:
        raise LenetTrtError(f"{SHIPPED} cannot be read ({error}): install lenet-trt again") from error
    model = onnx.load_model_from_string(data)
    changed = False
    for initializer in model.graph.initializer:
        if initializer.name not in values:
            continue
        wanted = values[initializer.name]
        if numpy_helper.to_array(initializer).tobytes() != wanted.tobytes():
            initializer.CopyFrom(numpy_helper.from_array(wanted, initializer.name))
            changed = True
    return model_bytes(checked_model(model)) if changed else data
