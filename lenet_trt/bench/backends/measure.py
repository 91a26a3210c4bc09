"""Open backends, make each ready for a batch, check its logits and time it: each gives a row, even one that fails."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.bench.backends.on_gpu import OnGpu, stream
from lenet_trt.bench.backends.protocol import TOLERANCES, Backend, LabelledBatch, Ready, Session
from lenet_trt.bench.record import Row, RowCase, Stats
from lenet_trt.bench.suite import Recording
from lenet_trt.bench.tables import duration
from lenet_trt.cuda.gpus import gpus
from lenet_trt.cuda.timing import Timed, TimingPlan, no_collection, time_in_turns, time_on_host_in_turns
from lenet_trt.kernel.examples import relative_error

HOST = "host memory"
DEVICE = "GPU memory"
# After this time the threads of CPU libraries that spin for work have gone to sleep.
_QUIET_S = 0.05
# The time of a batch foretells the time of a batch up to this many times as large: a GPU that is not full takes no
# longer for more images.
_FORESEEN = 4


@dataclass
class Opened:
    """Hold a backend that was opened, or why it could not be; ``seen``: the last batch timed, and its seconds."""

    backend: Backend
    session: Session | None
    problem: BaseException | str | None = None
    seen: tuple[int, float] | None = None


@dataclass
class _Prepared:
    """Hold what one backend has for one batch."""

    opened: Opened
    ready: Ready | None = None
    problem: BaseException | str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@contextmanager
def opened(
    backends: Sequence[Backend], found: Recording, left_out: Mapping[str, str] | None = None
) -> Iterator[list[Opened]]:
    """Open all backends, and close them in reverse order; a backend that cannot run here keeps its reason.

    ``left_out``: backends not to open, each with the reason.
    """
    with ExitStack() as cleanup:
        made = []
        for backend in backends:
            if backend.place == "GPU" and not gpus().devices:
                made.append(Opened(backend, None, f"needs a CUDA GPU: {gpus().problem}"))
                continue
            if left_out and backend.name in left_out:
                made.append(Opened(backend, None, left_out[backend.name]))
                continue
            found.say(f"opening {backend.name}")
            try:
                session = backend.open()
            except Exception as problem:  # each library raises its own kinds
                made.append(Opened(backend, None, problem))
                continue
            cleanup.callback(session.close)
            made.append(Opened(backend, session))
        yield made


def measure_batch(
    found: Recording,
    backends: Sequence[Opened],
    images: LabelledBatch,
    case: RowCase,
    plan: TimingPlan,
    *,
    where: bool = False,
    limit_s: float = math.inf,
) -> None:
    """Add a row for each backend: how long a caller waits for the logits, by the host's clock.

    Images lie in GPU memory for backends on the GPU, in host memory for the others. With ``where`` the case says so,
    and backends on the GPU with ``host_too`` get a second row, timed from host memory. Backends on the GPU take turns.
    Backends on the CPU are timed one after the other: after a call the threads of a library spin for a while, and
    would disturb the next library. The time of the GPU alone, by CUDA events, is in ``extra``. A call that takes
    longer than ``limit_s`` is left out with a reason; the time of the batch before foretells it where that batch was
    not much smaller, otherwise a trial shows it.
    """
    with no_collection():
        prepared = [_prepare(each, images, limit_s, found) for each in backends]
        found.say(f"timing {_text(case)}")
        times = _times(prepared, plan, where)
    for each in prepared:
        memory = {"images": HOST if each.opened.backend.place == "CPU" else DEVICE} if where else {}
        _add(found, each, images, {**case, **memory}, times)
    for each in prepared:
        name = each.opened.backend.name
        if name in times.from_host:
            figures = _figures(each, images, times.from_host[name])
            found.add(Row(name, {**case, "images": HOST}, times.from_host[name], None, figures))
    found.sample_clocks()


@dataclass(frozen=True)
class _Times:
    """Hold for each backend how long a caller waits, the same from host memory, and the time of the GPU alone."""

    waiting: Mapping[str, Stats]
    from_host: Mapping[str, Stats]
    alone: Mapping[str, Stats]


def _times(prepared: Sequence[_Prepared], plan: TimingPlan, from_host: bool) -> _Times:
    ready = [(each.opened.backend, each.ready) for each in prepared if each.ready is not None]
    waiting: dict[str, Stats] = {}
    for backend, call in ready:
        if backend.place == "CPU":
            time.sleep(_QUIET_S)
            waiting.update(time_on_host_in_turns({backend.name: call}, plan))
    time.sleep(_QUIET_S if waiting else 0)
    on_gpu = [(backend, call) for backend, call in ready if isinstance(call, OnGpu)]
    waiting.update(time_on_host_in_turns({backend.name: call for backend, call in on_gpu}, plan))
    copying = {backend.name: call.from_host() for backend, call in on_gpu if from_host and backend.host_too}
    alone = {backend.name: Timed([call.submit]) for backend, call in on_gpu if not call.self_waiting}
    return _Times(waiting, time_on_host_in_turns(copying, plan), _alone(alone, plan))


def _prepare(each: Opened, images: LabelledBatch, limit_s: float, found: Recording) -> _Prepared:
    """Make a batch ready and check its logits; a failure leaves its reason."""
    backend, count = each.backend, len(images)
    if each.session is None:
        return _Prepared(each, problem=each.problem)
    foretold = _foretold(each.seen, count, limit_s) if each.seen is not None else None
    if foretold is not None:
        return _Prepared(each, problem=foretold)
    found.say(f"{backend.name}, {count} images")
    try:
        ready = each.session.prepare(images)
        if limit_s < math.inf and (each.seen is None or count > _FORESEEN * each.seen[0]):
            seconds = _tried(ready, limit_s)
            if seconds > limit_s:
                why = f"left out: a call takes {duration(seconds * 1e6)}; --batch {count} measures it"
                return _Prepared(each, problem=why)
        logits = ready.logits()
        error = relative_error(logits, images.exact)
    except Exception as problem:
        return _Prepared(each, problem=problem)
    if not error <= TOLERANCES[backend.precision]:
        return _Prepared(
            each, problem=f"gives wrong logits: relative error {error:.1e}, at most {TOLERANCES[backend.precision]:.0e}"
        )
    return _Prepared(each, ready, None, {**_quality(logits, images), "error": float(f"{error:.3g}"), **ready.details})


def _foretold(seen: tuple[int, float], count: int, limit_s: float) -> str | None:
    """Say why a batch would take too long, judged by the batch before; return None where it would not."""
    batch, seconds = seen
    told = min(count, _FORESEEN * batch)
    expected = seconds * told / batch
    if expected <= limit_s:
        return None
    this = "this" if told == count else f"one of {told}"
    return (
        f"left out: a batch of {batch} takes {duration(seconds * 1e6)}, so {this} would take "
        f"{duration(expected * 1e6)}; --batch {count} measures it"
    )


def _tried(call: Ready, limit_s: float) -> float:
    """Time a call in seconds; where the first call takes too long, take the faster of two: the first may compile."""
    taken = math.inf
    for _ in range(2):
        begin = time.perf_counter()
        call()
        taken = min(taken, time.perf_counter() - begin)
        if taken <= limit_s:
            break
    return taken


def _quality(logits: NDArray[np.float32], images: LabelledBatch) -> dict[str, Any]:
    """Count the right classes, and the classes that are the same as in float64."""
    classes = logits.argmax(axis=1)
    right = int((classes == images.labels).sum())
    return {
        "accuracy": right / len(images),
        "right": right,
        "same_class": int((classes == images.exact.argmax(axis=1)).sum()),
        "count": len(images),
    }


def _add(found: Recording, each: _Prepared, images: LabelledBatch, case: RowCase, times: _Times) -> None:
    backend = each.opened.backend
    if each.ready is None:
        found.cannot(backend.name, case, each.problem or "", **about(backend))
        return
    stats = times.waiting[backend.name]
    extra = _figures(each, images, stats)
    if backend.name in times.alone:
        extra["gpu_alone"] = times.alone[backend.name].without_samples().as_json()
    each.opened.seen = len(images), stats.median_us * 1e-6
    found.add(Row(backend.name, case, stats, None, extra))


def _figures(each: _Prepared, images: LabelledBatch, stats: Stats) -> dict[str, Any]:
    return {
        **about(each.opened.backend),
        **each.extra,
        "us_per_image": float(f"{stats.median_us / len(images):.4g}"),
        "images_per_s": round(len(images) / stats.median_us * 1e6),
    }


def not_quick(backends: Sequence[Backend]) -> dict[str, str]:
    """Return the backends that --quick leaves out, each with the reason."""
    return {
        each.name: "left out by --quick: it takes some seconds for each batch" for each in backends if not each.quick
    }


def about(backend: Backend) -> dict[str, Any]:
    """Return what every row of a backend says of it."""
    return {"precision": backend.precision, "place": backend.place, "what": backend.what}


def _alone(timed: dict[str, Timed], plan: TimingPlan) -> dict[str, Stats]:
    """Time the GPU alone: all work is in the stream before it begins. torch has the kernel that holds the stream."""
    if not timed:
        return {}
    try:
        from lenet_trt.bench.workload import hold
    except ImportError:
        return {}
    return time_in_turns(timed, stream().handle, hold, plan)


def _text(case: RowCase) -> str:
    return ", ".join(f"{name} {value}" for name, value in case.items()) or "all"
