"""Time requests of every answerer in turns, on an idle machine and beside other work, and account for one of ours."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.bench.backends.protocol import TOLERANCES, mnist
from lenet_trt.bench.latency.answerers import ANSWERERS, PATH, RESIDENT, Answerer, OpenAnswerer, Setting
from lenet_trt.bench.latency.loads import CPU, IDLE, LOADS, STREAM, other_work
from lenet_trt.bench.latency.percentiles import described
from lenet_trt.bench.latency.requests import QUICK, RequestPlan, waits_of
from lenet_trt.bench.latency.tables import charts as charts
from lenet_trt.bench.latency.tables import columns as columns
from lenet_trt.bench.latency.tables import summaries as summaries
from lenet_trt.bench.record import Record, Row, RowCase
from lenet_trt.bench.suite import Recording, SuiteOptions, recording
from lenet_trt.cuda.gpus import gpus
from lenet_trt.cuda.statistics import summarize
from lenet_trt.cuda.timing import no_collection
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.examples import relative_error

TAKES_ONLY = True
BATCH = 1
_IMAGES = 64


def measure(options: SuiteOptions) -> Record:
    """Time every answerer; ``--batch`` names the images of a request (default 1)."""
    return measure_latency(options, ANSWERERS, QUICK if options.quick else RequestPlan())


def measure_latency(options: SuiteOptions, answerers: Sequence[Answerer], plan: RequestPlan) -> Record:
    """Time these answerers by this plan."""
    with recording("latency", options) as found, tempfile.TemporaryDirectory(prefix="lenet-trt-latency-") as folder:
        setting = Setting((options.batches or (BATCH,))[0], options, Path(folder))
        found.details["requests"] = asdict(plan)
        with ExitStack() as cleanup:
            bench = _Bench(setting, plan, found)
            for each in answerers:
                if found.wants(each.name):
                    bench.open(each, cleanup)
            for load in _loads(options):
                bench.time(load)
            bench.account()
    return found.finish()


def _loads(options: SuiteOptions) -> Sequence[str]:
    """Return the loads that can be made here; --quick takes the first two."""
    possible = LOADS if gpus().devices else (IDLE, CPU)
    return possible[:2] if options.quick else possible


class _Bench:
    """Hold the answerers that are open, each with its relative error, and the images that all of them get."""

    def __init__(self, setting: Setting, plan: RequestPlan, found: Recording) -> None:
        self._setting, self._plan, self._found = setting, plan, found
        data, batch = mnist(_IMAGES * setting.batch), setting.batch
        self._exact = data.exact
        self._images = [data.host[at : at + batch].copy() for at in range(0, len(data), batch)]
        self._open: dict[str, tuple[Answerer, OpenAnswerer, float]] = {}

    def open(self, answerer: Answerer, cleanup: ExitStack) -> None:
        """Open an answerer and check its answers; one that cannot run here, or is wrong, keeps its reason in a row."""
        name = answerer.name
        try:
            if answerer.gpu and not gpus().devices:
                raise LenetTrtError(f"it needs a CUDA GPU: {gpus().problem}")
            if self._setting.options.quick and not answerer.quick:
                raise LenetTrtError("left out by --quick: it takes long to prepare")
            self._found.say(f"opening {name}")
            opened = answerer.open(self._setting)
            cleanup.callback(opened.close)
            answers = np.concatenate([np.asarray(opened.request(image)) for image in self._images])
            opened.rest()
            error = relative_error(answers, self._exact)
            if not error <= TOLERANCES["fp32"]:
                raise LenetTrtError(f"gives wrong logits: relative error {error:.1e}")
        except Exception as problem:  # each library raises its own kinds
            self._cannot(answerer, IDLE, problem)
            return
        self._open[name] = (answerer, opened, error)

    def time(self, load: str) -> None:
        """Let the answerers take turns beside this load, and add their rows."""
        waits: dict[str, list[NDArray[np.float64]]] = {name: [] for name in self._open}
        why: dict[str, BaseException] = {}
        names = list(self._open)
        try:
            with other_work(load) as before, no_collection():
                for turn in range(self._plan.rounds):
                    self._found.say(f"other work: {load}, turn {turn + 1} of {self._plan.rounds}")
                    first = turn % max(len(names), 1)
                    for name in names[first:] + names[:first]:
                        if name in why:
                            continue
                        opened = self._open[name][1]
                        try:
                            plan = self._plan_of(name, load)
                            waits[name].append(waits_of(opened.request, self._images, plan, before))
                            opened.rest()
                        except Exception as problem:
                            why[name] = problem
                    self._found.sample_clocks()
        except LenetTrtError as problem:  # the load itself
            why.update(dict.fromkeys(names, problem))
        for name, (answerer, opened, error) in self._open.items():
            if name in why:
                self._cannot(answerer, load, why[name])
                continue
            found = np.concatenate(waits[name])
            extra = {**_about(answerer), "error": error, **described(found), **opened.details}
            stats = summarize(found.tolist()).without_samples()
            self._found.add(Row(name, self._case(load), stats, None, extra))

    def account(self) -> None:
        """Keep the ledgers of the latency path and of the resident kernel, of one image."""
        medians = {
            row.backend: row.stats.median_us for row in self._found.rows if row.stats and row.case["load"] == IDLE
        }
        if self._setting.batch != 1 or not medians.keys() & {PATH, RESIDENT}:
            return
        from lenet_trt.bench.latency.ledger import ledger, resident_ledger

        self._found.say("the ledger of one request")
        kept: dict[str, Any] = self._found.details.setdefault("ledger", {})
        if PATH in medians:
            path: Any = self._open[PATH][1].request
            kept[PATH] = _terms(ledger(path, self._images, medians[PATH]))
        if RESIDENT in medians:
            kept[RESIDENT] = _terms(resident_ledger(self._images, medians[RESIDENT]))

    def _plan_of(self, name: str, load: str) -> RequestPlan:
        if name == RESIDENT and load in (IDLE, STREAM):
            return self._plan.longer
        return self._plan if load == IDLE else self._plan.shorter

    def _case(self, load: str) -> RowCase:
        return {"load": load, "batch": self._setting.batch}

    def _cannot(self, answerer: Answerer, load: str, problem: BaseException) -> None:
        self._found.cannot(answerer.name, self._case(load), problem, **_about(answerer))


def _terms(terms: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"term": term, "us": round(us, 3)} for term, us in terms]


def _about(answerer: Answerer) -> dict[str, Any]:
    return {"what": answerer.what, "ours": answerer.ours}
