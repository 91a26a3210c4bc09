"""Define a timeline: what the GPU and the host did while a network ran, whichever tool traced it.

Every reader of traces makes a timeline, and every table, ledger and report starts from one. All times are microseconds
since the first iteration began. Nodes have the names of the network (ONNX file or engine).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypedDict

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import write_atomic
from lenet_trt.schema import Count, Us, Whole, checked, json_value
from lenet_trt.tensorrt.layers import EngineLayer

SCHEMA = 1
WANTED = "a timeline, as lenet-trt profile writes it"
# A "layer" is the time that a tool such as trtexec --exportProfile gives for a whole layer, without its kernels.
Kind = Literal["kernel", "memcpy", "memset", "layer"]


@dataclass(frozen=True)
class Activity:
    """Hold one piece of GPU work, with its ``node`` and its inference (``iteration``) where they are known.

    ``direction`` is set for copies: "HtoD", "DtoH", "DtoD", "HtoH" or "PtoP".
    """

    kind: Kind
    name: str
    start_us: Us
    end_us: Us
    stream: Whole = 0
    iteration: Whole | None = None
    node: str | None = None
    correlation: Whole | None = None
    bytes: Count | None = None
    direction: str | None = None
    grid: tuple[Count, ...] | None = None
    block: tuple[Count, ...] | None = None
    registers: Count | None = None
    shared_bytes: Count | None = None

    @property
    def us(self) -> float:
        """Return the duration."""
        return self.end_us - self.start_us


@dataclass(frozen=True)
class ApiCall:
    """Hold a call into the CUDA runtime or driver; ``correlation`` identifies the GPU work that it submitted."""

    name: str
    start_us: Us
    end_us: Us
    thread: Whole = 0
    correlation: Whole | None = None

    @property
    def us(self) -> float:
        """Return the duration."""
        return self.end_us - self.start_us


@dataclass(frozen=True)
class HostRange:
    """Hold a named range on the host (NVTX)."""

    name: str
    start_us: Us
    end_us: Us
    thread: Whole = 0


@dataclass(frozen=True)
class Iteration:
    """Hold the span of one inference: from the host's first call for it until its last result is there."""

    index: Whole
    start_us: Us
    end_us: Us

    @property
    def us(self) -> float:
        """Return the duration."""
        return self.end_us - self.start_us


@dataclass(frozen=True)
class Timeline:
    """Hold one traced run.

    ``source``: the tool that traced it ("nsys 2025.3.1", "CUPTI 13.0", "trtexec 10.13"). ``unprofiled_us``: the median
    time of an inference without the profiler, where it was measured. ``sizes``: the values of the axes ("n": 32).
    ``environment``: GPU, driver and versions. ``notes``: what a reader of the numbers should know. ``layers``: the
    layers of the engine that ran, where they are known.
    """

    source: str
    model: str | None = None
    model_sha256: str | None = None
    runtime: str | None = None
    sizes: Mapping[str, Whole] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    unprofiled_us: Us | None = None
    command: str | None = None
    notes: tuple[str, ...] = ()
    iterations: tuple[Iteration, ...] = ()
    activities: tuple[Activity, ...] = ()
    api_calls: tuple[ApiCall, ...] = ()
    ranges: tuple[HostRange, ...] = ()
    layers: tuple[EngineLayer, ...] = ()

    @property
    def architecture(self) -> int | None:
        """Return the GPU's, such as 90 for compute capability 9.0; None where the trace does not tell it."""
        seen = self.environment.get("sm")
        if isinstance(seen, int):
            return seen
        major, _, minor = str(self.environment.get("compute_capability", "")).partition(".")
        return 10 * int(major) + int(minor) if major.isdecimal() and minor.isdecimal() else None


class TraceEnvironment(TypedDict, total=False):
    """Type the parts of an environment that the code reads; a timeline may have more, of any type."""

    gpu: str | None
    cpu: str | None
    driver: str | None
    where: str | None
    sm: Count
    compute_capability: str


def save(timeline: Timeline, path: Path) -> None:
    """Write a timeline as JSON."""
    text = json.dumps({"schema": SCHEMA, **asdict(timeline)}, separators=(",", ":"), allow_nan=False)
    write_atomic(path, (text + "\n").encode())


def load_timeline(path: Path) -> Timeline:
    """Read a timeline.

    Raises:
        LenetTrtError: the file cannot be read, is not JSON, or is no timeline of this schema.
    """
    fix = "profile again"
    data = json_value(path, wanted=WANTED, fix=fix)
    seen = data.get("schema") if isinstance(data, dict) else None
    if seen != SCHEMA:
        raise LenetTrtError(f"{path} is no timeline of schema {SCHEMA} (its schema: {seen!r:.60}): {fix}")
    names = {entry.name for entry in fields(Timeline)}
    if missing := sorted(names - set(data) - {"layers"}):  # not every trace has layers
        raise LenetTrtError(f"{path} is not {WANTED}: it has no {', '.join(missing)}: {fix}")
    if unknown := sorted(set(data) - names - {"schema"}):
        raise LenetTrtError(f"{path} is not {WANTED}: its fields {', '.join(unknown):.60} are unknown: {fix}")
    made = checked(data, Timeline, str(path), wanted=WANTED, fix=fix)
    checked(made.environment, TraceEnvironment, f"the environment in {path}", wanted="a timeline's", fix=fix)
    return made
