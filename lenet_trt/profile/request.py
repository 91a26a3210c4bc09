"""Carry the request of a trace to the child process that runs it, and the child's error back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypedDict

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.kernel.shapes import Shape
from lenet_trt.schema import read_json

# "own" is the runtime's own profiler: ONNX Runtime's, or TensorRT's IProfiler; "none" only times.
RECORDERS = ("auto", "nsys", "cupti", "own")
DEFAULT_ITERATIONS = 20
DEFAULT_WARMUP = 20

# The files in the folder that parent and child share.
REQUEST = "request.json"
TIMELINE = "timeline.json"
REPLAY = "replay.json"
FAILURE = "failure.json"
_FIX = "profile again"


class RecorderError(LenetTrtError):
    """Say that a recorder is missing or does not work here; another recorder may work."""


@dataclass(frozen=True)
class TraceRequest:
    """Describe a run of ``iterations`` traced inferences after ``warmup`` untraced ones.

    ``batch``: the size of the first axis of each input where it is open. ``sizes``: sizes of axes by name. ``shapes``:
    whole shapes of inputs. ``transfers``: each inference copies its inputs to the GPU and its results back; otherwise
    they stay there. ``insist``: no other recorder may replace this one. ``library``: the plugin library of an engine
    that needs one.
    """

    model: str
    runtime: str = "auto"
    recorder: str = "auto"
    batch: int | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    iterations: int = DEFAULT_ITERATIONS
    warmup: int = DEFAULT_WARMUP
    transfers: bool = False
    trust: bool = False
    insist: bool = False
    library: str | None = None

    def check(self) -> None:
        """Refuse values that are too small or unknown.

        Raises:
            UsageError: a number is too small, or the recorder is unknown.
        """
        for option, value, least in (
            ("--batch", self.batch, 1),
            ("--iterations", self.iterations, 1),
            ("--warmup", self.warmup, 0),
        ):
            if value is not None and value < least:
                raise UsageError(f"{option} {value}: wanted at least {least}")
        if self.recorder not in RECORDERS:
            raise UsageError(f"--with {self.recorder}: wanted one of {', '.join(RECORDERS)}")

    def write(self, path: Path) -> None:
        """Write the request for the child."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read_request(path: Path) -> TraceRequest:
    """Read what ``TraceRequest.write`` wrote."""
    return read_json(path, TraceRequest, wanted="a request of lenet-trt profile", fix=_FIX)


class _Failure(TypedDict):
    kind: str
    message: str


def write_failure(error: LenetTrtError, path: Path) -> None:
    """Leave an error for the parent."""
    kind = next((kind for kind in _FAILURES if isinstance(error, _FAILURES[kind])), "other")
    path.write_text(json.dumps({"kind": kind, "message": str(error)}), encoding="utf-8")


def raise_failure(path: Path) -> None:
    """Raise the error that the child left, if it left one."""
    if path.is_file():
        said = read_json(path, _Failure, wanted="an error of the program that is traced", fix=_FIX)
        raise _FAILURES.get(said["kind"], LenetTrtError)(said["message"])


_FAILURES: dict[str, type[LenetTrtError]] = {"recorder": RecorderError, "usage": UsageError}
