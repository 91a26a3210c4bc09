"""Describe the waits of many requests: percentiles, the maximum, and the curve of the tail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The percentiles that tables show, by their names.
PERCENTILES: Mapping[str, float] = {"50": 0.5, "90": 0.9, "99": 0.99, "99.9": 0.999, "99.99": 0.9999}
_CURVE_POINTS = 48


def percentile(ordered: NDArray[np.float64], share: float) -> float | None:
    """Return the least wait that this share of the requests does not exceed, of sorted waits.

    None where there are too few requests for it: fewer than one is expected beyond it.
    """
    count = len(ordered)
    if count * (1 - share) < 1 - 1e-9 * count:
        return None
    return float(ordered[min(math.ceil(share * count - 1e-9 * count), count) - 1])


def described(waits_us: NDArray[np.float64]) -> dict[str, Any]:
    """Return the percentiles that the requests suffice for, and points of the curve: [one in how many, its wait]."""
    ordered = np.sort(waits_us)
    found = {name: percentile(ordered, share) for name, share in PERCENTILES.items()}
    return {
        "percentiles": {name: _rounded(value) for name, value in found.items() if value is not None},
        "curve": [[_rounded(one_in), _rounded(wait)] for one_in, wait in curve(ordered)],
    }


def curve(ordered: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Return points (x, wait): one request in x takes longer; from half of the requests to the slowest one."""
    count = len(ordered)
    found: dict[int, tuple[float, float]] = {}
    for one_in in np.geomspace(2, max(count, 2), _CURVE_POINTS):
        at = min(math.ceil((1 - 1 / one_in) * count - 1e-9 * count), count - 1)
        found[at] = (count / (count - at), float(ordered[at]))
    return list(found.values())


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
