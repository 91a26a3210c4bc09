"""Trace a run from outside: choose the recorder that works here, and put together what it saw."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lenet_trt.child import child_environment
from lenet_trt.cuda.gpus import gpus
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import atomic_path
from lenet_trt.profile import nsys
from lenet_trt.profile.replay import read_parts, with_nodes
from lenet_trt.profile.request import FAILURE, REPLAY, REQUEST, TIMELINE, RecorderError, TraceRequest, raise_failure
from lenet_trt.runtimes.table import candidates
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.timeline import Timeline, load_timeline

_SHOWN_LINES = 8
_NOTABLY_SLOWER = 1.5


def traced_timeline(request: TraceRequest, report: Path | None = None) -> Timeline:
    """Trace with the recorder that is asked for, or with the first that works; recorders that fail leave a note.

    ``report``: the path where the report of Nsight Systems is kept.

    Raises:
        UsageError: the network does not have these sizes.
        LenetTrtError: the network does not run here, or no recorder works.
    """
    notes: list[str] = []
    request = replace(request, insist=request.recorder != "auto")
    for recorder in _recorders(request):
        try:
            found = _by(replace(request, recorder=recorder), report)
        except RecorderError as error:
            notes.append(f"{recorder}: {error}")
            continue
        return replace(found, notes=(*(f"Not traced by {note}" for note in notes), *_inflated(found), *found.notes))
    raise RecorderError("; ".join(notes) if len(notes) > 1 else notes[0].partition(": ")[2])


def _inflated(timeline: Timeline) -> Iterator[str]:
    """Add a note where the tracer slowed the network down so much that most gaps are the tracer's."""
    if timeline.unprofiled_us and timeline.iterations:
        slower = statistics.median(entry.us for entry in timeline.iterations) / timeline.unprofiled_us
        if slower > _NOTABLY_SLOWER:
            yield (
                f"Under the tracer an inference took {slower:.1f} times as long: the times of single kernels and "
                "nodes are right, the gaps between them are the tracer's."
            )


def _recorders(request: TraceRequest) -> tuple[str, ...]:
    if request.recorder != "auto":
        return (request.recorder,)
    # ONNX Runtime on the CPU, which needs no GPU, is the last choice.
    chosen = candidates(request.runtime)
    if not gpus().devices:
        return candidates("ort-cpu")[0].recorders
    return chosen[0].recorders if len(chosen) == 1 else ("nsys", "cupti")


def _by(request: TraceRequest, report: Path | None) -> Timeline:
    with tempfile.TemporaryDirectory(prefix="lenet-trt-profile-") as name:
        folder = Path(name)
        request.write(folder / REQUEST)
        program = [sys.executable, "-m", "lenet_trt.profile.workload", str(folder)]
        found = _under_nsys(program, folder, report) if request.recorder == "nsys" else _alone(program, folder)
        return with_nodes(found, read_parts(folder / REPLAY))


def _alone(program: Sequence[str], folder: Path) -> Timeline:
    done = subprocess.run(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=child_environment()
    )
    raise_failure(folder / FAILURE)
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        raise LenetTrtError(
            f"the program that runs the network ended with {done.returncode}: {'; '.join(lines[-_SHOWN_LINES:])}"
        )
    return load_timeline(folder / TIMELINE)


def _under_nsys(program: Sequence[str], folder: Path, report: Path | None) -> Timeline:
    made = folder / "report.nsys-rep"
    try:
        said = nsys.trace(nsys.find_profiler(), made, program, child_environment())
    except RecorderError:
        raise_failure(folder / FAILURE)  # says why the program did not reach the profiler's range
        if (told := _told(folder)) is not None and told.activities:
            return told
        raise
    raise_failure(folder / FAILURE)
    told = _told(folder)
    if told is None:
        raise LenetTrtError(f"the program that runs the network ended early: {said}")
    if told.activities:  # nsys does not see where it runs, and it has traced itself
        return told
    if report is not None:
        with atomic_path(report) as temporary:
            temporary.write_bytes(made.read_bytes())
    try:
        seen = timeline_from(made)
    except LenetTrtError as error:
        raise RecorderError(str(error).replace(str(made), "its report")) from error
    return replace(
        seen,
        runtime=told.runtime,
        sizes=told.sizes,
        environment={**seen.environment, **told.environment},
        unprofiled_us=told.unprofiled_us,
        notes=(*told.notes, *seen.notes),
    )


def _told(folder: Path) -> Timeline | None:
    path = folder / TIMELINE
    return load_timeline(path) if path.is_file() else None
