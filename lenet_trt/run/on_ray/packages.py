"""Import Ray and PyArrow, which are in an extra of their own."""

from __future__ import annotations

import os
from typing import Any

from lenet_trt.errors import LenetTrtError

INSTALL = "pip install 'lenet-trt[ray]'"


def ray_data() -> Any:
    """Import Ray with Ray Data.

    Raises:
        LenetTrtError: it is not installed; says what to install.
    """
    # Ray reports its use to its makers unless told otherwise; whoever wants that says so in the environment.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise LenetTrtError(f"Ray Data cannot be imported ({error}): {INSTALL}") from error
    return ray


def arrow_files() -> Any:
    """Import the file systems of PyArrow.

    Raises:
        LenetTrtError: it is not installed; says what to install.
    """
    try:
        import pyarrow.fs
    except ImportError as error:
        raise LenetTrtError(f"PyArrow cannot be imported ({error}): {INSTALL}") from error
    return pyarrow.fs
