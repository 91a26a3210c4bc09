"""Time requests of every answerer in turns, on an idle machine and beside other work, and account for one of ours."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.bench.backends.protocol import TOLERANCES, mnist
from lenet_trt.bench.latency.answerers import ANSWERERS, PATH, Answerer, OpenAnswerer, Setting
from lenet_trt.bench.latency.loads import CPU, IDLE, LOADS, other_work
from lenet_trt.bench.latency.percentiles import described
from lenet_trt.bench.latency.requests import QUICK, RequestPlan, no_collection, waits_of
from lenet_trt.bench.latency.tables import charts as charts
from lenet_trt.bench.latency.tables import columns as columns
from lenet_trt.bench.latency.tables import summaries as summaries
from lenet_trt.bench.record import Record, Row, RowCase
from lenet_trt.bench.suite import Recording, SuiteOptions, recording
from lenet_trt.cuda.gpus import gpus
from lenet_trt.cuda.statistics import summarize
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.examples import relative_error

TAKES_ONLY = True
BATCH = 1
_IMAGES = 64

Waits = dict[str, list[NDArray[np.float64]]]


def measure(options: SuiteOptions) -> Record:
    """Time every answerer; ``--batch`` names the images of a request (default 1)."""
    return measure_latency(options, ANSWERERS, QUICK if options.quick else RequestPlan())


def measure_latency(options: SuiteOptions, answerers: Sequence[Answerer], plan: RequestPlan) -> Record:
    """Time these answerers by this plan."""
    chosen = [each for each in answerers if not options.only or any(text in each.name for text in options.only)]
    batch = (options.batches or (BATCH,))[0]
    data = mnist(_IMAGES * batch)
    images = [data.host[at : at + batch].copy() for at in range(0, _IMAGES * batch, batch)]
    exact = [data.exact[at : at + batch] for at in range(0, _IMAGES * batch, batch)]
    with recording("latency", options) as found, tempfile.TemporaryDirectory(prefix="lenet-trt-latency-") as folder:
        setting = Setting(batch, options, Path(folder))
        with _opened(chosen, setting, found) as ready:
            errors = {name: _checked(name, each, images, exact, found, batch) for name, each in list(ready.items())}
            ready = {name: each for name, each in ready.items() if errors[name] is not None}
            about = {each.name: each for each in chosen}
            for name in _loads(options):
                _under_load(
                    name,
                    ready,
                    images,
                    plan,
                    found,
                    lambda who, waits, at=name: _row(
                        about[who], ready[who], errors[who], waits, {"load": at, "batch": batch}
                    ),
                )
            _account(ready, images, found)
    return found.finish()


def _loads(options: SuiteOptions) -> Sequence[str]:
    """Return the loads that can be made here; --quick takes the first two."""
    possible = LOADS if gpus().devices else (IDLE, CPU)
    return possible[:2] if options.quick else possible


@contextmanager
def _opened(answerers: Sequence[Answerer], setting: Setting, found: Recording) -> Iterator[dict[str, OpenAnswerer]]:
    """Open all answerers, and close them in reverse order; one that cannot run here keeps its reason in a row."""
    with ExitStack() as cleanup:
        made = {}
        for each in answerers:
            case: RowCase = {"load": IDLE, "batch": setting.batch}
            if each.gpu and not gpus().devices:
                found.cannot(each.name, case, f"it needs a CUDA GPU: {gpus().problem}", ours=each.ours, what=each.what)
                continue
            if setting.options.quick and not each.quick:
                found.cannot(each.name, case, "left out by --quick: it takes long to prepare", ours=each.ours)
                continue
            found.say(f"opening {each.name}")
            try:
                made[each.name] = each.open(setting)
            except Exception as problem:  # each library raises its own kinds
                found.cannot(each.name, case, problem, ours=each.ours, what=each.what)
                continue
            cleanup.callback(made[each.name].close)
        yield made


def _checked(
    name: str,
    ready: OpenAnswerer,
    images: Sequence[NDArray[Any]],
    exact: Sequence[NDArray[np.float64]],
    found: Recording,
    batch: int,
) -> float | None:
    """Return the relative error of the answers; a answerer with wrong answers keeps its reason, and is not timed."""
    try:
        answers = np.concatenate([np.asarray(ready.request(image)) for image in images])
        error = relative_error(answers, np.concatenate(list(exact)))
        ready.rest()
    except Exception as problem:
        found.cannot(name, {"load": IDLE, "batch": batch}, problem)
        return None
    if not error <= TOLERANCES["fp32"]:
        found.cannot(name, {"load": IDLE, "batch": batch}, f"gives wrong logits: relative error {error:.1e}")
        return None
    return error


def _under_load(
    name: str,
    ready: Mapping[str, OpenAnswerer],
    images: Sequence[NDArray[Any]],
    plan: RequestPlan,
    found: Recording,
    row: Any,
) -> None:
    """Let the answerers take turns beside this load, and add their rows."""
    waits: Waits = {who: [] for who in ready}
    why: dict[str, BaseException] = {}
    names = list(ready)
    try:
        with other_work(name) as before, no_collection():
            for turn in range(plan.rounds):
                found.say(f"load {name}: turn {turn + 1} of {plan.rounds}")
                first = turn % max(len(names), 1)
                for who in names[first:] + names[:first]:
                    if who in why:
                        continue
                    try:
                        waits[who].append(waits_of(ready[who].request, images, plan, before))
                        ready[who].rest()
                    except Exception as problem:
                        why[who] = problem
                found.sample_clocks()
    except LenetTrtError as problem:  # the load itself
        why.update(dict.fromkeys(names, problem))
    for who in names:
        if who in why or not waits[who]:
            found.cannot(who, {"load": name}, why.get(who, "it was interrupted"))
        else:
            found.add(row(who, np.concatenate(waits[who])))


def _row(
    answerer: Answerer, ready: OpenAnswerer, error: float | None, waits: NDArray[np.float64], case: Mapping[str, Any]
) -> Row:
    extra = {"what": answerer.what, "ours": answerer.ours, "error": error, **described(waits), **ready.details}
    return Row(answerer.name, case, summarize(waits.tolist()).without_samples(), None, extra)


def _account(ready: Mapping[str, OpenAnswerer], images: Sequence[NDArray[Any]], found: Recording) -> None:
    """Keep the ledger of the latency path."""
    whole = next((r for r in found.rows if r.backend == PATH and r.case["load"] == IDLE and r.stats), None)
    if whole is None or whole.stats is None:
        return
    from lenet_trt.bench.latency.ledger import ledger

    found.say("the ledger of one request")
    path: Any = ready[PATH].request
    terms = ledger(path, images, whole.stats.median_us)
    found.details["ledger"] = [{"term": term, "us": round(us, 3)} for term, us in terms]
