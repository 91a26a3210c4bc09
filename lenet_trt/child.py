"""Programs of this package in processes of their own."""

from __future__ import annotations

import os
import sys


def child_environment() -> dict[str, str]:
    """What a child process gets, so that it finds the same packages as this one, installed or not."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
