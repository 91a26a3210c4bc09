"""What an optimisation tried, kept and gave up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lenet_trt.reporting.elements import Markup


def optimized(record: Mapping[str, Any] | None) -> Markup | None:
    """The section on an optimisation; None where there was none."""
    return None if record is None else Markup("")
