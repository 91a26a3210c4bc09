"""Measure the suite ``cold``: what the first inference costs in fresh processes, phase by phase, and what helps.

Each timing is a process of its own (``cold_child``), from before its start to its first answer. The configurations
take turns. The first process of each is not counted, so that all files are in memory, as they are on a machine that
has run the program before. Some configurations begin with empty caches on disk.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.bench.cold_child import PHASES
from lenet_trt.bench.cold_tables import GRAPH, OURS, OURS_EARLY, OURS_GRAPH, TORCH, remedies
from lenet_trt.bench.cold_tables import charts as charts
from lenet_trt.bench.cold_tables import columns as columns
from lenet_trt.bench.cold_tables import summaries as summaries
from lenet_trt.bench.record import Record, Row
from lenet_trt.bench.suite import Recording, SuiteOptions, recording
from lenet_trt.cuda.gpus import first_gpu, gpus
from lenet_trt.cuda.statistics import summarize
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.examples import relative_error
from lenet_trt.onnx_model.onnx_runtime import INSTALL_CUDA

BATCH = 1
# This many processes of each configuration count: a round of all takes half a minute on a GPU.
PROCESSES = 3
TIMEOUT_S = 300
# The fp32 networks of all libraries are far closer to float64 than this.
MOST_ERROR = 1e-4
# These variables name the folders of compiled kernels; an empty folder makes the library compile again.
_CACHES = ("LENET_TRT_CACHE", "CUDA_CACHE_PATH")
_LOADING = "CUDA_MODULE_LOADING"


@dataclass(frozen=True)
class Start:
    """Hold one way to start: a backend of ``cold_child``, how the driver loads machine code, what the caches hold.

    ``loading``: "lazy" (code is loaded when it is first used, CUDA's default since 12.2) or "eager"; ``caches``:
    "filled" or "empty"; both are "" where no GPU is used. ``quick``: --quick takes this start too.
    """

    backend: str
    loading: str = "lazy"
    caches: str = "filled"
    quick: bool = False

    def case(self, batch: int) -> dict[str, int | str]:
        """Return what distinguishes its row from other rows of the backend."""
        return {"batch": batch, "loading": self.loading, "caches": self.caches}


# The names of the backends in tables, the same as in the other suites.
NAMES = {
    "ours": OURS,
    "ours-graph": OURS_GRAPH,
    "ours-early": OURS_EARLY,
    "graph-fused": "graph runtime, fused",
    "graph": GRAPH,
    "torch": TORCH,
    "ort-cpu": "ONNX Runtime CPU",
    "ort-cuda": "ONNX Runtime CUDA",
    "tensorrt": "TensorRT",
    "tensorrt-plugins": "TensorRT + plugins",
}
STARTS = (
    Start("ours", quick=True),
    Start("ours", caches="empty", quick=True),
    Start("ours", loading="eager", quick=True),
    Start("ours-graph", quick=True),
    Start("ours-early", quick=True),
    Start("graph-fused", quick=True),
    Start("graph-fused", caches="empty"),
    Start("graph-fused", loading="eager"),
    Start("graph"),
    Start("torch", quick=True),
    Start("torch", loading="eager"),
    Start("ort-cpu", loading="", caches="", quick=True),
    Start("ort-cuda", quick=True),
    Start("ort-cuda", loading="eager"),
    Start("tensorrt", quick=True),
    Start("tensorrt", caches="empty"),
    Start("tensorrt-plugins", quick=True),
)


@dataclass(frozen=True)
class Given:
    """Hold what the processes are given: files in a folder of the suite, and the right answer for them.

    ``words``: further options for the processes of a backend.
    """

    folder: Path
    batch: int
    wanted: NDArray[np.float64]
    words: dict[str, list[str]] = field(default_factory=dict)

    @property
    def images(self) -> Path:
        """Return the path of the images, a .npy file."""
        return self.folder / "images.npy"

    def model(self, backend: str) -> Path:
        """Return the path of the file that the backend reads."""
        if backend == "graph-fused":
            return self.folder / "fused.onnx"
        return self.folder / (f"{backend}.engine" if backend.startswith("tensorrt") else "lenet5.onnx")


def measure(options: SuiteOptions) -> Record:
    """Start every configuration cold, again and again; ``--batch`` names one batch size (default 1)."""
    batch = (options.batches or (BATCH,))[0]
    starts = [start for start in STARTS if start.quick or not options.quick]
    with recording("cold", options) as found, tempfile.TemporaryDirectory(prefix="lenet-trt-cold-") as folder:
        given = write_given(Path(folder), batch)
        why = {start: start_obstacle(start.backend, given, options) for start in starts}
        samples: dict[Start, list[Mapping[str, Any]]] = {start: [] for start in starts if why[start] is None}
        try:
            take_turns(samples, why, given, min(options.plan.rounds, PROCESSES), found)
        finally:  # an interruption keeps its rows too
            for start in starts:
                _add(found, start, batch, samples.get(start, []), why[start])
            found.details = {
                "phases": dict(PHASES),
                "processes": min(options.plan.rounds, PROCESSES),
                "remedies": [remedy.as_json() for remedy in remedies(found.rows)],
                "files": "in the operating system's memory: a process of each configuration ran before",
            }
    return found.finish()


def write_given(folder: Path, batch: int) -> Given:
    """Write the images and models, and compute the answer in float64."""
    import onnx

    from lenet_trt.export.lenet5 import SHIPPED
    from lenet_trt.export.mnist import network_input, test_set
    from lenet_trt.export.weights import load_weights
    from lenet_trt.fuse.stage import fuse
    from lenet_trt.kernel.registry import kernel

    pixels, _ = test_set()
    images = network_input(pixels[np.arange(batch) % len(pixels)])
    declared = kernel("lenet5")
    weights = load_weights()
    plain = [weights[t.name.replace("_", ".")].astype(np.float64) for t in declared.inputs if t.weight]
    given = Given(folder, batch, np.asarray(declared.reference(images.astype(np.float64), *plain)))
    np.save(given.images, images)
    model = onnx.load(SHIPPED)
    onnx.save(model, given.model("graph"))
    onnx.save(fuse(model).model, given.model("graph-fused"))
    return given


def start_obstacle(backend: str, given: Given, options: SuiteOptions) -> str | None:
    """Say why the backend cannot run here, as far as that is known before a process starts."""
    if backend == "ort-cpu":
        return None
    gpu = first_gpu()
    if gpu is None:
        return f"it needs a CUDA GPU: {gpus().problem}"
    if backend in ("torch", "graph", "graph-fused") and find_spec("torch") is None:
        return "torch is not installed: pip install 'lenet-trt[gpu]'"
    if backend == "ort-cuda":
        from lenet_trt.runtimes.ort import has_cuda

        return None if has_cuda() else f"ONNX Runtime here has no CUDA provider: {INSTALL_CUDA}"
    return _no_engine(backend, given, options) if backend.startswith("tensorrt") else None


def _no_engine(backend: str, given: Given, options: SuiteOptions) -> str | None:
    """Build the engine; where it cannot be built here, return why."""
    from lenet_trt.bench.backends.with_tensorrt import engines_here
    from lenet_trt.bench.engine_lenet5 import lenet5_model, lenet5_shapes
    from lenet_trt.tensorrt.engine import BuildOptions

    path, plugins = given.model(backend), backend == "tensorrt-plugins"
    if path.is_file():
        return None
    shapes = lenet5_shapes(given.batch, given.batch, given.batch)
    try:
        here = engines_here(options, given.folder)
        here.tool.built(lenet5_model("fp32"), path, BuildOptions(), shapes, with_plugins=plugins)
        words = ["--library", str(here.library)] if here.library is not None and plugins else []
        words += ["--by-library", str(here.library)] if here.by_library else []
        given.words[backend] = words
    except LenetTrtError as error:
        return str(error)
    return None


def take_turns(
    samples: Mapping[Start, list[Mapping[str, Any]]],
    why: dict[Start, str | None],
    given: Given,
    rounds: int,
    found: Recording,
) -> None:
    """Start one process of each configuration in every round; the first round does not count.

    Each round begins with another configuration.

    A configuration that fails is left out from then on, its reason in ``why``.
    """
    order = list(samples)
    for turn in range(rounds + 1):
        found.say(f"round {turn} of {rounds}" + ("" if turn else " (not counted)"))
        first = turn % max(len(order), 1)
        for start in order[first:] + order[:first]:
            if why[start] is not None:
                continue
            try:
                sample = started(start, given)
            except LenetTrtError as error:
                why[start] = str(error)
                samples[start].clear()
                continue
            if turn:
                samples[start].append(sample)
        found.sample_clocks()


def started(start: Start, given: Given) -> Mapping[str, Any]:
    """Start one process and return what it printed, with the relative error of its answer.

    Raises:
        LenetTrtError: the process fails, or its answer is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="empty-", dir=given.folder) as empty:
        environment = dict(os.environ)
        if start.loading:
            environment[_LOADING] = start.loading.upper()
        for name in _CACHES:
            cache = Path(empty) / name if start.caches == "empty" else given.folder / name
            cache.mkdir(exist_ok=True)
            environment[name] = str(cache)
        command = [sys.executable, "-m", "lenet_trt.bench.cold_child", start.backend]
        command += ["--images", str(given.images), "--model", str(given.model(start.backend))]
        command += given.words.get(start.backend, [])
        try:
            done = subprocess.run(
                [*command, "--spawned-ns", str(time.monotonic_ns())],
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            raise LenetTrtError(f"it took longer than {TIMEOUT_S} s") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise LenetTrtError(said[-1])
    answer: dict[str, Any] = json.loads(done.stdout)
    facts = answer["facts"]
    if start.loading and facts["loading"] != start.loading:
        raise LenetTrtError(
            f"{_LOADING} is {start.loading.upper()}, and the driver loads {facts['loading']}: it ignores the variable"
        )
    answer["error"] = relative_error(np.array(answer.pop("logits")), given.wanted)
    if not answer["error"] <= MOST_ERROR:
        raise LenetTrtError(f"its answer is wrong: relative error {answer['error']:.1e}")
    return answer


def _add(found: Recording, start: Start, batch: int, samples: Sequence[Mapping[str, Any]], why: str | None) -> None:
    """Add the row of a configuration; times are in microseconds."""
    if not samples:
        found.cannot(NAMES[start.backend], start.case(batch), why or "it was interrupted before it was timed")
        return
    names = [name for name in PHASES if name in samples[0]["phases_ns"]]
    phases = {name: [sample["phases_ns"][name] / 1e3 for sample in samples] for name in names}
    totals = [math.fsum(values) for values in zip(*phases.values(), strict=True)]
    extra: dict[str, Any] = {
        "phases": {name: summarize(values).without_samples().as_json() for name, values in phases.items()},
        "error": max(sample["error"] for sample in samples),
    }
    # How long an answer takes after each stage of the process: the remedies of stages leave this time.
    later = names[names.index("load") :]
    after = {
        "preloaded": [sum(sample["phases_ns"][name] for name in later) / 1e3 for sample in samples],
        "ready": phases["first"],
        "second": [sample["second_ns"] / 1e3 for sample in samples],
        "steady": [sample["steady_ns"] / 1e3 for sample in samples],
    }
    for name, values in after.items():
        extra[name] = summarize(values).as_json()
        extra[f"{name}_us"] = extra[name]["median_us"]
    facts = [sample["facts"] for sample in samples]
    for name, key in (("context_bytes", "context_mib"), ("used_bytes", "used_mib")):
        if name in facts[0]:
            extra[key] = round(float(np.median([fact[name] for fact in facts])) / 2**20)
    if "first_by_layer_ns" in facts[0]:
        layers = [fact["first_by_layer_ns"] for fact in facts]
        extra["first_by_layer_us"] = {name: float(np.median([e[name] for e in layers])) / 1e3 for name in layers[0]}
    if "variant" in facts[0]:
        extra["variant"] = facts[0]["variant"]
    found.add(Row(NAMES[start.backend], start.case(batch), summarize(totals), None, extra))
