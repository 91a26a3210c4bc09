"""Measure the suite ``engines``: TensorRT's own layers against our plugins, in engines that trtexec times in turns."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from lenet_trt.bench.record import Record, Row, RowCase
from lenet_trt.bench.suite import Options, Recording, recording
from lenet_trt.bench.tables import Column, duration
from lenet_trt.bench.trtexec_engines import Engine, built, output, timed
from lenet_trt.cuda.gpus import first_gpu, gpus
from lenet_trt.cuda.statistics import summarize
from lenet_trt.draw.chart import Chart, Series
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_file
from lenet_trt.kernel.bind import Shape
from lenet_trt.kernel.examples import relative_error
from lenet_trt.profile.trtexec import Trtexec, find_trtexec

TAKES_ONLY = True
BATCHES = (1, 32, 256, 1024, 10_000)
QUICK_BATCHES = (1, 1024)
LARGEST = 10_000
ROUNDS, QUICK_ROUNDS = 3, 1
ITERATIONS = 200
# TensorRT's own MatMul takes a quarter of a second.
MATMUL_ITERATIONS = 5
CHECKED_CONV = 64
OURS, THEIRS = "lenet_trt in TensorRT", "TensorRT"
# The flags with which trtexec builds each backend's engine; --noTF32 keeps float32 exact.
FLAGS: Mapping[str, Sequence[str]] = {
    THEIRS: ("--noTF32",),
    f"{THEIRS}, TF32": (),
    f"{THEIRS}, level 5": ("--noTF32", "--builderOptimizationLevel=5"),
    OURS: ("--noTF32",),
}

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class EngineWorkload:
    """Describe a network whose engines are compared: TensorRT builds ``plain``, and ``embedded`` with our kernels.

    ``backends``: names in ``FLAGS``, each with the batches at which it is measured. ``draw`` makes the inputs of a
    batch, ``expected`` the output in float64. ``checked`` maps a batch to the batch whose results are compared: the
    output of a large batch is too large to be written as text.
    """

    name: str
    plain: onnx.ModelProto
    embedded: Callable[[], onnx.ModelProto]
    backends: Mapping[str, Sequence[int]]
    draw: Callable[[int], Arrays]
    expected: Callable[[Arrays], NDArray[np.float64]]
    flags: Sequence[str] = ()
    iterations: int = ITERATIONS
    checked: Callable[[int], int] = lambda batch: batch
    batched: bool = True


def measure(options: Options) -> Record:
    """Build all engines, compare their results with float64, and time them in turns."""
    with recording("engines", options) as found:
        try:
            tool = find_trtexec(options.trtexec)
            library = _library(options)
            gpu = first_gpu()
            if gpu is None:
                raise LenetTrtError(f"engines are timed on a GPU, and there is none here: {gpus().problem}")
        except LenetTrtError as problem:
            for backend in FLAGS:
                found.cannot(backend, {"workload": "any"}, problem)
            return found.finish()
        found.details["trtexec"] = str(tool)
        found.details["library_sha256"] = sha256_file(library)
        found.details["flags"] = {name: [*flags, *options.trtexec_flags] for name, flags in FLAGS.items()}
        found.notes = _notes(tool)
        with tempfile.TemporaryDirectory(prefix="lenet-trt-engines-") as folder:
            for workload in _workloads(options, f"sm_{gpu.sm}"):
                if not options.only or any(text in workload.name for text in options.only):
                    _Bench(tool, library, Path(folder), options, found).run(workload)
    return found.finish()


def _library(options: Options) -> Path:
    if not options.library.is_file():
        raise LenetTrtError(
            f"the plugin library {options.library} is not there: compile it with lenet-trt library, or name it with "
            "--library"
        )
    return options.library.resolve()


@dataclass(frozen=True)
class _Bench:
    """Build and time the engines of one workload."""

    tool: Trtexec
    library: Path
    folder: Path
    options: Options
    found: Recording

    def run(self, workload: EngineWorkload) -> None:
        """Add a row for every backend and batch."""
        engines: dict[tuple[str, int], Engine] = {}
        checked: dict[int, tuple[Arrays, NDArray[np.float64]]] = {}
        errors: dict[tuple[str, int], float] = {}
        for backend, batches in workload.backends.items():
            for batch in batches:
                try:
                    engines[backend, batch] = self._engine(workload, backend, batch, engines)
                    size = workload.checked(batch)
                    if size not in checked:
                        inputs = workload.draw(size)
                        checked[size] = inputs, workload.expected(inputs)
                    errors[backend, batch] = self._error(engines[backend, batch], *checked[size])
                except LenetTrtError as problem:
                    engines.pop((backend, batch), None)
                    self.found.cannot(backend, _case(workload, batch), problem)
        times: dict[tuple[str, int], list[float]] = {key: [] for key in engines}
        for turn in range(QUICK_ROUNDS if self.options.quick else ROUNDS):
            self.found.say(f"{workload.name}: turn {turn + 1}")
            for key, engine in engines.items():
                shapes = _shapes(workload, key[1])
                slow = workload.iterations if key[0] != OURS else ITERATIONS
                times[key] += timed(self.tool, engine, shapes, slow, self.folder)
            self.found.sample_clocks()
        for (backend, batch), engine in engines.items():
            extra = {"error": errors[backend, batch], "build_seconds": engine.build_seconds, "ours": backend == OURS}
            stats = summarize(times[backend, batch])
            self.found.add(Row(backend, _case(workload, batch), stats, None, extra))

    def _engine(
        self, workload: EngineWorkload, backend: str, batch: int, engines: Mapping[tuple[str, int], Engine]
    ) -> Engine:
        """Build an engine: TensorRT gets one for each batch, and chooses for that batch; ours gets one for all."""
        if backend == OURS and (same := [engine for (name, _), engine in engines.items() if name == OURS]):
            return same[0]
        stem = f"{workload.name}-{backend}-{batch}".replace(" ", "_").replace(",", "")
        model = self.folder / f"{stem}.onnx"
        onnx.save(workload.embedded() if backend == OURS else workload.plain, model)
        sizes = (1, batch, LARGEST) if backend == OURS else (workload.checked(batch), batch, batch)
        shapes = [_shapes(workload, size) for size in sizes] if workload.batched else []
        flags = [*FLAGS[backend], *workload.flags, *self.options.trtexec_flags]
        library = self.library if backend == OURS else None
        engine = built(self.tool, model, self.folder / f"{stem}.engine", flags, shapes, library)
        self.found.say(f"{workload.name}, {backend}, batch {batch}: built in {engine.build_seconds:.0f} s")
        return engine

    def _error(self, engine: Engine, inputs: Arrays, wanted: NDArray[np.float64]) -> float:
        return relative_error(output(self.tool, engine, inputs, self.folder).reshape(wanted.shape), wanted)


def _case(workload: EngineWorkload, batch: int) -> RowCase:
    return {"workload": workload.name, "batch": batch} if workload.batched else {"workload": workload.name}


def _shapes(workload: EngineWorkload, batch: int) -> dict[str, Shape]:
    if not workload.batched:
        return {}
    (value,) = workload.plain.graph.input
    sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    return {value.name: (batch, *sizes[1:])}


def _workloads(options: Options, target: str) -> Iterator[EngineWorkload]:
    from lenet_trt.export.cases import ConvCase, MatMulCase, conv_model, matmul_model
    from lenet_trt.export.lenet5 import SHIPPED
    from lenet_trt.fuse.stage import fuse
    from lenet_trt.kernel.registry import kernel
    from lenet_trt.onnx_model.precision import convert, half_inputs_and_outputs
    from lenet_trt.tensorrt.library.embed import embedded

    batches = options.batches or (QUICK_BATCHES if options.quick else BATCHES)
    network = onnx.load(SHIPPED)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in network.graph.initializer}

    def with_plugins(model: onnx.ModelProto) -> Callable[[], onnx.ModelProto]:
        return lambda: embedded(fuse(model).model, [target])

    def images(batch: int) -> Arrays:
        return {"images": np.random.default_rng(batch).random((batch, 1, 28, 28), np.float32)}

    def logits(inputs: Arrays) -> NDArray[np.float64]:
        arrays = [weights[tensor.name.replace("_", ".")] for tensor in kernel("lenet5").inputs[1:]]
        return np.asarray(kernel("lenet5").reference(*(a.astype(np.float64) for a in (inputs["images"], *arrays))))

    every = tuple(batch for batch in batches if batch <= LARGEST)
    some = tuple(batch for batch in every if batch in (1, 1024))
    exact = {THEIRS: every, f"{THEIRS}, TF32": every, f"{THEIRS}, level 5": some, OURS: every}
    half = {THEIRS: every, OURS: every}
    yield EngineWorkload("LeNet-5 fp32", network, with_plugins(network), exact, images, logits)
    converted = convert(copy.deepcopy(network), "fp16")
    yield EngineWorkload("LeNet-5 fp16", network, with_plugins(converted), half, images, logits, ("--fp16",))

    product = matmul_model(MatMulCase())
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in product.graph.input}
    for precision, dtype in (("fp32", np.float32), ("fp16", np.float16)):
        model, flags = (product, ()) if precision == "fp32" else (half_inputs_and_outputs(product), _half_flags(2))

        def operands(_: int, dtype: type[np.generic] = dtype) -> Arrays:
            random = np.random.default_rng(0)
            return {name: random.standard_normal(shape, np.float32).astype(dtype) for name, shape in shapes.items()}

        yield EngineWorkload(
            f"MatMul {precision}",
            product,
            with_plugins(model),
            dict.fromkeys((THEIRS, OURS), (1,)),
            operands,
            lambda inputs: np.matmul(*(array.astype(np.float64) for array in inputs.values())),
            (*flags, "--avgTiming=1"),
            MATMUL_ITERATIONS,
            batched=False,
        )
    for title, case in (
        ("Conv", ConvCase(batch=None)),
        ("Conv + ReLU + pool", ConvCase(batch=None, activation="relu", pool=True)),
    ):
        layer = conv_model(case)
        for precision, dtype in (("fp32", np.float32), ("fp16", np.float16)):
            model, flags = (layer, ()) if precision == "fp32" else (half_inputs_and_outputs(layer), _half_flags(1))
            backends = (THEIRS, f"{THEIRS}, TF32", OURS) if precision == "fp32" else (THEIRS, OURS)

            def drawn(batch: int, dtype: type[np.generic] = dtype) -> Arrays:
                return {"images": images(batch)["images"].astype(dtype)}

            yield EngineWorkload(
                f"{title} {precision}",
                layer,
                with_plugins(model),
                dict.fromkeys(backends, (LARGEST,)),
                drawn,
                _convolution(model, pooled=case.pool),
                flags,
                checked=lambda batch: CHECKED_CONV,
            )


def _convolution(model: onnx.ModelProto, *, pooled: bool) -> Callable[[Arrays], NDArray[np.float64]]:
    from lenet_trt.kernel.registry import kernel

    arrays = [onnx.numpy_helper.to_array(tensor).astype(np.float64) for tensor in model.graph.initializer]
    filters, bias = sorted(arrays, key=lambda array: -array.ndim)
    name, choice = ("conv5x5_bias_relu_pool2", {}) if pooled else ("conv5x5_bias", {"activation": "none"})
    reference = kernel(name).reference
    return lambda inputs: np.asarray(reference(inputs["images"].astype(np.float64), filters, bias, **choice))


def _half_flags(inputs: int) -> tuple[str, ...]:
    return ("--fp16", f"--inputIOFormats={','.join(['fp16:chw'] * inputs)}", "--outputIOFormats=fp16:chw")


def _notes(tool: Trtexec) -> list[str]:
    """Return sentences that say how the times and errors were measured."""
    return [
        f"Times are the GPU's for one inference, by {tool} with a CUDA graph, a spinning wait and no copies; {ROUNDS} "
        "turns of all engines of a workload, and the median of all inferences. Inputs stay in the L2 cache where they "
        "fit. TensorRT has an engine for each batch, our plugin one for all.",
        "The error is relative to float64.",
    ]


def columns(record: Record) -> list[Column]:
    """Return the columns: workload, batch, backend, time with its interval, factor to ours, error and build time."""

    def faster(row: Row) -> str:
        ours = record.find(OURS, **row.case)
        if row.stats is None or ours is None or ours.stats is None or row.backend == OURS:
            return "-"
        return f"{row.stats.median_us / ours.stats.median_us:.3g}"

    return [
        Column("workload", lambda row: str(row.case["workload"]), left=True),
        Column("batch", lambda row: str(row.case.get("batch", "-"))),
        Column("backend", lambda row: row.backend, left=True),
        Column("median", lambda row: duration(row.stats.median_us) if row.stats else "-"),
        Column(
            "95% interval",
            lambda row: f"{duration(row.stats.low_us)} to {duration(row.stats.high_us)}" if row.stats else "-",
        ),
        Column("it / ours", faster),
        Column("error", lambda row: f"{row.extra['error']:.1e}" if row.extra.get("error") is not None else "-"),
        Column("build", lambda row: f"{row.extra['build_seconds']:.0f} s" if "build_seconds" in row.extra else "-"),
    ]


def charts(record: Record) -> list[Chart]:
    """Draw microseconds per image over the batch for LeNet-5, in both precisions."""
    found = []
    for workload in ("LeNet-5 fp32", "LeNet-5 fp16"):
        rows = [row for row in record.timed if row.case["workload"] == workload]
        names = list(dict.fromkeys(row.backend for row in rows if "level" not in row.backend))
        series = [_series([row for row in rows if row.backend == name], name) for name in names]
        if any(len(each.x) > 1 for each in series):
            where = f"{record.gpu}, {record.details.get('trtexec')}, CUDA graph, no copies"
            title = f"{workload} in a TensorRT engine"
            unit = "microseconds an image"
            found.append(Chart(title, "batch", unit, series, True, True, (where,), named_at_ends=True))
    return found


def _series(rows: Sequence[Row], name: str) -> Series:
    points = [(int(row.case["batch"]), row.stats) for row in rows if row.stats]
    return Series(
        name,
        [batch for batch, _ in points],
        [stats.median_us / batch for batch, stats in points],
        emphasis=name == OURS,
        low=[stats.low_us / batch for batch, stats in points],
        high=[stats.high_us / batch for batch, stats in points],
    )
