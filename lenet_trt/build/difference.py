"""Say how far the outputs of the model built from are from those of the model given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lenet_trt.kernel.examples import error_and_norm

Outputs = Sequence[NDArray[Any]]


def outputs_difference(outputs: Outputs, reference: Outputs) -> float:
    """Return the largest relative error in norm among the outputs; infinity where NaN or infinity differ."""
    both = zip(outputs, reference, strict=True)
    pairs = [error_and_norm(output, wanted.astype(np.float64)) for output, wanted in both]
    return max((error / (norm or 1.0) for error, norm in pairs), default=0.0)


def loses_numbers(outputs: Outputs, reference: Outputs) -> bool:
    """Return whether an output is NaN or infinite at a place where the reference is a number."""
    both = zip(outputs, reference, strict=True)
    return any(bool((np.isfinite(wanted) & ~np.isfinite(output)).any()) for output, wanted in both)


def infinite_in(difference: float, lost: bool) -> Literal["built", "given"] | None:
    """Say which model's outputs are NaN or infinite where the difference is infinite; None where it is a number."""
    if math.isfinite(difference):
        return None
    return "built" if lost else "given"
