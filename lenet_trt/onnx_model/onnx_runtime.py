"""Import ONNX Runtime in one place: two packages install it into one folder, so only one of them can be used."""

from __future__ import annotations

import os
from importlib import metadata
from typing import Any

from lenet_trt.errors import LenetTrtError

CPU_PACKAGE, CUDA_PACKAGE = "onnxruntime", "onnxruntime-gpu"
INSTALL = f"pip install {CPU_PACKAGE}"
INSTALL_CUDA = f"pip uninstall -y {CPU_PACKAGE} {CUDA_PACKAGE} && pip install {CUDA_PACKAGE}"


def onnx_runtime() -> Any:
    """Import ONNX Runtime, whichever package brought it; from version 1.29 on it would tell Microsoft of each session.

    Raises:
        LenetTrtError: it is not installed, or does not load; says what to install.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it is read once, by the import
    try:
        import onnxruntime

        _ = (
            onnxruntime.InferenceSession
        )  # missing where one of the two packages was removed and took shared files along
    except (ImportError, AttributeError) as error:
        fix = INSTALL_CUDA if CUDA_PACKAGE in packages() else f"pip install --force-reinstall --no-deps {CPU_PACKAGE}"
        raise LenetTrtError(f"ONNX Runtime cannot be imported ({error}): {fix}") from error
    return onnxruntime


def packages() -> dict[str, str]:
    """Say which of the two packages are installed, with their versions."""
    found = {}
    for name in (CPU_PACKAGE, CUDA_PACKAGE):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
