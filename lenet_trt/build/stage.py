"""Build an engine from ONNX, and write engine, sidecar and the model that was built."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto

from lenet_trt import __version__
from lenet_trt.build.evaluate import Evaluation, evaluate
from lenet_trt.build.loss import FP16_RANGE, refuse_lost_numbers, warn_of_difference
from lenet_trt.build.request import NARROW, BuildRequest
from lenet_trt.cuda.compile import source_sha256
from lenet_trt.cuda.gpus import first_gpu, sm_text
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import atomic_path, exclusive, is_special, sha256_file
from lenet_trt.fuse.stage import chosen_kernels, fuse
from lenet_trt.kernel.registry import kernel
from lenet_trt.onnx_model.attention import ATTENTION_OPSET, written_out
from lenet_trt.onnx_model.fixed_axes import batch_sizes, with_sizes
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes, recorded, refuse_copy
from lenet_trt.onnx_model.precision import convert, has_fp32_gemm, kinds_of, refuse_plugin_nodes
from lenet_trt.onnx_model.profiles import inputs_of, parse_batch, profile_for
from lenet_trt.onnx_model.quantization import FLOAT8_OPSET, at_opset, check_quantization, quantized_nodes
from lenet_trt.onnx_model.read import (
    described_tensors,
    load_lenet5,
    load_model,
    load_quantized_lenet5,
    model_files,
    model_fingerprint,
)
from lenet_trt.overwrite import beside, guard, says
from lenet_trt.tensorrt.engine import engine_from_onnx
from lenet_trt.tensorrt.find_library import DEFAULT_LIBRARY, library_for_build
from lenet_trt.tensorrt.flavors import Flavor, select
from lenet_trt.tensorrt.routes import chosen_route
from lenet_trt.tensorrt.routes.protocol import Route
from lenet_trt.tensorrt.sidecar import (
    FileRecord,
    Sidecar,
    described_by,
    made_by,
    model_path,
    read_sidecar,
    sidecar_path,
)


@dataclass(frozen=True)
class Built:
    """Hold the path of an engine, its sidecar, and whether an existing engine was used again."""

    engine: Path
    sidecar: Sidecar
    reused: bool


def build(request: BuildRequest, *, progress: bool = False, command: Sequence[str] = ()) -> Built:
    """Build an engine, unless the one on disk was built from the same inputs.

    Raises:
        UsageError: the request contradicts itself, the model or the flavor.
        LenetTrtError: the model cannot be read, converted or built, or the files cannot be written; whatever was on
            disk before is unchanged.
    """
    engine = request.engine
    if engine.suffix == ".json":
        raise UsageError(f"-o {engine}: the engine's sidecar has the suffix .json: use .engine for the engine")
    if engine.suffix == ".onnx":
        raise UsageError(f"-o {engine}: .onnx is the suffix of a model: use .engine for the engine")
    if engine.is_dir():
        raise UsageError(f"-o {engine}: that is a folder; name a file in it, such as {engine / request.default_name}")
    if is_special(engine):
        raise UsageError(f"-o {engine}: that is a device or a FIFO; an engine is a file, with its sidecar beside it")
    if request.precision in NARROW and request.onnx is not None:
        if quantized := quantized_nodes(load_model(request.onnx)):
            raise UsageError(
                f"--{request.precision}: {request.onnx} is quantized already (it has {', '.join(quantized)}), and its "
                f"own types are what is built: leave --{request.precision} out"
            )
        raise UsageError(
            f"--{request.precision}: {request.onnx} has to be calibrated with training images first: "
            f"lenet-trt quantize {request.onnx} --{request.precision} --data FOLDER, then build from what it writes"
        )
    smallest, _, largest = parse_batch(request.batch or request.default_batch)
    flavor = select(request.flavor)
    if not flavor.can.timing_cache and request.options.timing_cache is not None:
        raise UsageError(
            f"--timing-cache: {flavor.product} does not time kernels while it builds: leave this option out"
        )
    if not flavor.can.optimization_level and request.options.optimization_level is not None:
        raise UsageError(f"--optimization-level: {flavor.product} has none; leave it out")
    route = chosen_route(flavor, request.plugin_route)
    targets = flavor.targets(request.sms)
    flavor.check_types(frozenset({request.precision or "fp32"}), targets, has_fp32_gemm=False)
    inputs = _inputs(request, flavor, targets, route)
    with exclusive(engine):
        data = None if request.images is None else request.images.sha256()
        _guard(engine, request)
        if not request.force and (old := _same_as_before(engine, inputs, data)) is not None:
            _gate(Evaluation(**old.evaluation), request)
            return Built(engine, old, reused=True)
        original, origin = load_lenet5() if request.onnx is None else (load_model(request.onnx), str(request.onnx))
        refuse_copy(original, origin)
        original = with_sizes(original, request.sizes, request.batch, request.shapes or ())
        if smallest == largest and (batch := batch_sizes(original, largest)):  # an open axis would be of no use
            request = replace(request, sizes={**request.sizes, **batch}, batch=None)
            original = with_sizes(original, batch)
        precise = _with_precision(original, request, flavor)
        reads_attention = flavor.can.opset >= ATTENTION_OPSET
        ports = inputs_of(precise)
        profiles = profile_for(ports, request.batch, request.shapes, request.default_batch)
        usual = {
            axis: size
            for name, profile in profiles.items()
            for axis, size in zip(ports[name], profile.opt, strict=True)
            if isinstance(axis, str)
        }
        model = fuse(written_out(precise, halves=not reads_attention), request.plugins, targets or None, usual).model
        flavor.check_types(kinds_of(model), targets, bool(targets and flavor.can.fp32_gemm_sm) and has_fp32_gemm(model))
        flavor.check_gpu()
        kernels = list(plugin_nodes(model).values())
        library = library_for_build(request.library) if kernels and route.needs_library else None
        opt = {name: profile.opt for name, profile in profiles.items()}
        evaluation = evaluate(model, original, opt, request.images, progress=progress)
        _gate(evaluation, request)
        serialized = model.SerializeToString()
        plan = engine_from_onnx(
            model,
            flavor,
            profiles=profiles,
            targets=targets,
            options=request.options,
            plugins=kernels,
            route=route,
            library=library,
            half_allowed=request.precision == "fp16",
            progress=progress,
        )
        sidecar = Sidecar(
            engine=FileRecord.of(engine.name, plan),
            onnx=FileRecord.of(model_path(engine).name, serialized),
            inputs=inputs,
            origin=origin,
            plugins=_plugin_records(model, route.name),
            tensors=described_tensors(model, profiles),
            evaluation=evaluation.as_dict(),
            made={**made_by(command), "onnx": onnx.__version__},
            library=None if library is None else FileRecord.of(library.name, library.read_bytes()),
        )
        _write(engine, sidecar, plan, serialized)
    return Built(engine, sidecar, reused=False)


def _guard(engine: Path, request: BuildRequest) -> None:
    """Refuse to replace what is no engine of ours: one of ours, even a damaged one, has a sidecar beside it."""
    sidecar = sidecar_path(engine)
    mark = says('"engine": {', '"sha256": "')
    outputs = {sidecar: mark, engine: beside(sidecar, mark), model_path(engine): beside(sidecar, mark)}
    model = [] if request.onnx is None else model_files(request.onnx)
    guard(outputs, [*model, request.options.timing_cache, request.library], request.overwrite)
    other = described_by(sidecar)
    if not request.overwrite and other is not None and other.name != engine.name and sidecar_path(other) == sidecar:
        raise LenetTrtError(
            f"{sidecar} is the sidecar of {other}, and that of {engine} would replace it: give -o another name before "
            "the suffix, or say --overwrite"
        )
    if request.options.timing_cache is not None:  # written too; what is there is checked by TensorRT, which reads it
        guard({request.options.timing_cache: lambda _: True}, model, request.overwrite)


def _inputs(request: BuildRequest, flavor: Flavor, targets: Sequence[int], route: Route) -> dict[str, Any]:
    """Return everything on which the engine depends, as JSON values that compare equal after a round trip."""
    gpu = None if flavor.can.builds_without_gpu else first_gpu()
    library = (request.library or DEFAULT_LIBRARY) if route.needs_library else None
    options = asdict(request.options)
    del options["timing_cache"]  # a memory of timings, not a wish
    return {
        "lenet_trt": __version__,
        "model": "lenet5" if request.onnx is None else request.onnx.name,
        "model_fingerprint": model_fingerprint(request.onnx),
        "flavor": flavor.name,
        "flavor_version": flavor.version,
        "targets": [sm_text(sm) for sm in targets],
        "gpu": None if gpu is None else f"{gpu.name} ({gpu.capability})",
        "precision": request.precision,
        "plugins": request.plugins,
        "plugin_route": request.plugin_route,
        "library": sha256_file(library) if library is not None and library.is_file() else None,
        "kernels": {kernel.name: source_sha256(kernel) for kernel in chosen_kernels(request.plugins)},
        "batch": request.batch or (request.default_batch if request.shapes is None else None),
        "shapes": None
        if request.shapes is None
        else [{name: list(shape) for name, shape in shapes.items()} for shapes in request.shapes],
        "sizes": dict(request.sizes),
        "options": options,
    }


def _same_as_before(engine: Path, inputs: dict[str, Any], data: str | None) -> Sidecar | None:
    """Return the sidecar on disk if its inputs and images are equal and its engine is whole, else None."""
    try:
        sidecar = read_sidecar(sidecar_path(engine))
    except LenetTrtError:
        return None
    judged = data is None or sidecar.evaluation.get("data_sha256") == data
    same = judged and sidecar.inputs == inputs and sidecar.mismatch(engine) is None
    return sidecar if same else None


def _with_precision(model: ModelProto, request: BuildRequest, flavor: Flavor) -> ModelProto:
    """Return the model in the precision that is asked for.

    Raises:
        UsageError: the model, or this TensorRT, does not go with that precision.
        LenetTrtError: the model is quantized in a way that TensorRT refuses.
    """
    precision, kinds = request.precision, kinds_of(model)
    if precision in NARROW:
        return with_sizes(load_quantized_lenet5(precision), request.sizes)
    if precision == "fp32" and (narrow := kinds & {"fp16", "bf16"}):
        raise UsageError(
            f"--fp32: the model computes in {', '.join(sorted(narrow))} already, and a strongly typed engine follows "
            "the model: leave --fp32 out, or export the model in float32"
        )
    if precision in ("fp16", "bf16"):
        refuse_plugin_nodes(model, precision)
    if not quantized_nodes(model):
        return model if precision is None else convert(model, precision)
    check_quantization(model)
    if precision == "bf16":
        raise UsageError("--bf16: the model is quantized, and scales are in fp32 or fp16: take --fp16, or leave it out")
    if not flavor.can.half_scales:  # with --fp16 the builder is allowed to compute the rest in fp16
        if "fp16" in kinds:
            raise UsageError(
                f"{flavor.product} takes scales in fp32 alone: give the model that was quantized without --fp16, and "
                "say --fp16 here"
            )
        return model
    return convert(at_opset(model, FLOAT8_OPSET), precision) if precision == "fp16" else model


def _plugin_records(model: ModelProto, route: str) -> list[dict[str, Any]]:
    """Return a record of each plugin node, also of those already in the model, with its route into TensorRT."""
    known = {entry["node"]: entry for entry in recorded(model)}
    return [
        {
            "node": node,
            "kernel": name,
            "version": kernel(name).version,
            "types": known.get(node, {}).get("types"),
            "replaced": known.get(node, {}).get("replaced", []),
            "route": route,
            "source_sha256": source_sha256(kernel(name)),
        }
        for node, name in plugin_nodes(model).items()
    ]


def _gate(evaluation: Evaluation, request: BuildRequest) -> None:
    refuse_lost_numbers(evaluation, request.max_drop, request.precision or "--plugins", _wider(request))
    if evaluation.drop_points > request.max_drop:
        raise LenetTrtError(
            f"{request.precision or '--plugins'} costs {evaluation.drop_points:.2f} points of accuracy "
            f"({evaluation.correct_before} -> {evaluation.correct} of {evaluation.total} right), "
            f"more than the {request.max_drop:g} allowed; nothing was written. "
            f"Allow it with --max-drop {evaluation.drop_points + 0.01:.2f}, "
            "or keep a higher precision"
        )
    if request.precision not in NARROW:  # in 8 bits random inputs differ much: they are beyond the calibrated range
        warn_of_difference(evaluation)


def _wider(request: BuildRequest) -> str:
    """Say how to get a model that computes with a larger range."""
    if request.precision == "fp16":
        return f"{FP16_RANGE}: take --bf16, which has the range of float32, or leave --fp16 out"
    return "Leave the plugins out" if request.precision in (None, "fp32") else f"Leave --{request.precision} out"


def _write(engine: Path, sidecar: Sidecar, plan: bytes, model: bytes) -> None:
    """Write all files completely before any replaces an old one, so that a full disk changes nothing."""
    with ExitStack() as stack:
        for path, content in (
            (sidecar_path(engine), sidecar.to_json().encode()),
            (model_path(engine), model),
            (engine, plan),
        ):
            stack.enter_context(atomic_path(path)).write_bytes(content)
