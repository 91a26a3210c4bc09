"""Run programs of this package in child processes."""

from __future__ import annotations

import os
import sys


def child_environment() -> dict[str, str]:
    """Return an environment in which a child process finds the same packages as this one, installed or not."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
