"""Quantize an ONNX model: calibrate, leave out layers that lose too much, measure, and write model and record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto, numpy_helper

from lenet_trt import __version__
from lenet_trt.build.evaluate import Evaluation, evaluate, is_digit_classifier
from lenet_trt.build.loss import FP16_RANGE, refuse_lost_numbers
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import atomic_path, exclusive
from lenet_trt.images.batches import batches
from lenet_trt.onnx_model.fixed_axes import with_sizes
from lenet_trt.onnx_model.onnx_runtime import onnx_runtime
from lenet_trt.onnx_model.ports import ports
from lenet_trt.onnx_model.precision import constants, convert
from lenet_trt.onnx_model.quantization import FLOAT8_OPSET, LARGEST, at_opset, check_quantization, in_float8
from lenet_trt.onnx_model.read import load_lenet5, load_model, model_files, model_fingerprint
from lenet_trt.overwrite import beside, guard, says
from lenet_trt.quantize.data import Calibration, calibration_data
from lenet_trt.quantize.insert import layers_of, prepared, quantized, quantized_layers
from lenet_trt.quantize.record import CalibrationRecord, LayerRecord, QuantizedRecord, read_record, record_path
from lenet_trt.quantize.request import QuantizeRequest
from lenet_trt.quantize.search import Judge, SearchResult, search
from lenet_trt.tensorrt.sidecar import FileRecord, made_by

_BATCH = 64
_READ_AT_ONCE = 1000
# Two sets may have a few images in common by chance, such as blank ones.
_MOST_SHARED = 0.01


@dataclass(frozen=True)
class Quantized:
    """Hold the path of a quantized model, its record, and whether it was there already."""

    model: Path
    record: QuantizedRecord
    reused: bool


def quantize(request: QuantizeRequest, *, progress: bool = False, command: Sequence[str] = ()) -> Quantized:
    """Quantize a model, unless the one on disk was made from the same inputs.

    Raises:
        UsageError: the request contradicts itself or the model.
        LenetTrtError: something cannot be read, quantized or written, or costs more than allowed; whatever was on disk
            before is unchanged.
    """
    path = request.model
    if path.suffix != ".onnx" or path.is_dir():
        raise UsageError(f"-o {path}: wanted the name of a file that ends in .onnx")
    given = [] if request.onnx is None else model_files(request.onnx)
    record_mark = says('"model": {', '"calibration": {')
    marks = {path: beside(record_path(path), record_mark), record_path(path): record_mark}
    original, origin = load_lenet5() if request.onnx is None else (load_model(request.onnx), str(request.onnx))
    original = with_sizes(original, request.sizes)
    model = prepared(original)
    _check_kept(request, model)
    data = _data(request, model)
    _check_apart(request, model, data)
    inputs = _inputs(request, data)
    with exclusive(path):
        guard(marks, given, request.overwrite)
        if (old := _same_as_before(path, inputs)) is not None:
            _gate(Evaluation(**old.evaluation), request)
            return Quantized(path, old, reused=True)
        judge = Judge(model, data, _batch(model, data))
        result, found = _quantized(model, data, judge, request, progress)
        evaluation = _evaluated(result, original, judge, request, progress)
        _gate(evaluation, request)
        content = result.SerializeToString(deterministic=True)
        record = QuantizedRecord(
            model=FileRecord.of(path.name, content),
            inputs=inputs,
            origin=origin,
            layers=_layers(model, found, request),
            calibration=CalibrationRecord(data.source, len(data), data.sha256(), found.change, judge.classifies),
            evaluation=evaluation.as_dict(),
            made=made_by(command),
        )
        with ExitStack() as stack:
            for file, text in ((record_path(path), record.to_json().encode()), (path, content)):
                stack.enter_context(atomic_path(file)).write_bytes(text)
    return Quantized(path, record, reused=False)


def _quantized(
    model: ModelProto, data: Calibration, judge: Judge, request: QuantizeRequest, progress: bool
) -> tuple[ModelProto, SearchResult]:
    """Quantize a prepared model, as far as it keeps its answers on the calibration data."""

    def narrowed(int8: ModelProto) -> ModelProto:
        narrow = in_float8(int8) if request.narrow == "fp8" else int8
        return convert(at_opset(narrow, FLOAT8_OPSET), "fp16") if request.rest == "fp16" else narrow

    int8 = quantized(model, data, _batch(model, data), request.method, progress)
    found = search(int8, judge, narrowed, request.keep, request.max_change, progress)
    result = narrowed(found.model)
    check_quantization(result)
    return result, found


def _evaluated(
    result: ModelProto, original: ModelProto, judge: Judge, request: QuantizeRequest, progress: bool
) -> Evaluation:
    """Judge by labelled images, or by the calibration data where there are none: random inputs are out of range."""
    method = f"ONNX Runtime {onnx_runtime().__version__} on the CPU"
    if request.images is not None or is_digit_classifier(original):
        evaluation = evaluate(result, original, {}, request.images, progress=progress)
        if evaluation.correct is not None:
            return replace(evaluation, method=method)
    # The judge has no NaN and no infinity of the float model.
    return Evaluation.of(judge.error(result), lost=True, method=method, data=f"calibration data: {judge.source}")


def _batch(model: ModelProto, data: Calibration) -> int:
    first = ports(model)[0][0].axes[0]
    return first if isinstance(first, int) else min(_BATCH, len(data))


def _data(request: QuantizeRequest, model: ModelProto) -> Calibration:
    """Choose the calibration data; MNIST's training images for LeNet-5 where nothing else is named."""
    inputs = ports(model)[0]
    if request.data or request.onnx is not None:
        return calibration_data(request.data, inputs, request.options, request.count, request.seed)
    from lenet_trt.export.download import training_folder

    found = calibration_data((str(training_folder()),), inputs, request.options, request.count, request.seed)
    return replace(found, source="MNIST's training images")


def _check_kept(request: QuantizeRequest, model: ModelProto) -> None:
    names = [node.name for node in layers_of(model)]
    if unknown := [name for name in request.keep if name not in names]:
        raise UsageError(
            f"--keep {' '.join(unknown)}: there is no such layer with weights; there are {', '.join(names)}"
        )
    if set(names) <= set(request.keep):
        raise UsageError("--keep names every layer with weights: nothing is left to quantize")


def _check_apart(request: QuantizeRequest, model: ModelProto, data: Calibration) -> None:
    """Refuse to calibrate with the images that judge the accuracy: the figure would say nothing of new images."""
    if data.pixels is None:
        return
    known = {image.tobytes() for image in data.pixels}
    if request.images is not None:
        form = request.images.options.form(ports(model)[0])
        read = batches(request.images.sources, form, _READ_AT_ONCE, request.images.labels)
        shared = sum(image.tobytes() in known for batch in read for image in batch.pixels)
    elif is_digit_classifier(model):
        from lenet_trt.export.mnist import test_set

        shared = sum(image.tobytes() in known for image in test_set()[0])
    else:
        return
    if shared > _MOST_SHARED * len(data):
        judged = "MNIST's test set" if request.images is None else str(request.images)
        raise LenetTrtError(
            f"{shared} of the {len(data)} calibration images are also in {judged}, which the accuracy is measured "
            "with: calibrate with training images, and measure with others"
        )


def _inputs(request: QuantizeRequest, data: Calibration) -> dict[str, Any]:
    """Return everything on which the result depends, as JSON values that compare equal after a round trip."""
    return {
        "lenet_trt": __version__,
        "model": "lenet5" if request.onnx is None else request.onnx.name,
        "model_fingerprint": model_fingerprint(request.onnx),
        "sizes": dict(request.sizes),
        "narrow": request.narrow,
        "rest": request.rest,
        "data_sha256": data.sha256(),
        "seed": request.seed,
        "method": request.method,
        "keep": sorted(request.keep),
        "max_change": request.max_change,
        "judged_by_sha256": None if request.images is None else request.images.sha256(),
        "onnxruntime": onnx_runtime().__version__,
        "onnx": onnx.__version__,
    }


def _same_as_before(path: Path, inputs: dict[str, Any]) -> QuantizedRecord | None:
    try:
        record = read_record(record_path(path))
    except LenetTrtError:
        return None
    return record if record.inputs == inputs and record.describes(path) else None


def _layers(model: ModelProto, found: SearchResult, request: QuantizeRequest) -> list[LayerRecord]:
    """Describe each layer with weights of the float model."""
    scales = dict(constants(found.model.graph))
    made = {output: node for node in found.model.graph.node for output in node.output}
    largest = {
        node.name: float(numpy_helper.to_array(scales[made[node.input[0]].input[1]])) * LARGEST["int8"]
        for node in quantized_layers(found.model)
    }
    return [
        LayerRecord(
            node.name,
            node.op_type,
            request.narrow if node.name in largest else request.rest,
            _finite(found.errors.get(node.name)),
            largest.get(node.name),
        )
        for node in layers_of(model)
    ]


def _finite(error: float | None) -> float | None:
    return error if error is not None and math.isfinite(error) else None


def _gate(evaluation: Evaluation, request: QuantizeRequest) -> None:
    less = f"Leave more layers in {request.rest} with a smaller --max-change or with --keep, try another --method"
    narrow = f"{FP16_RANGE}: leave --fp16 out. {less}" if request.rest == "fp16" else less
    refuse_lost_numbers(evaluation, request.max_drop, f"{request.narrow}, the rest {request.rest},", narrow)
    if evaluation.drop_points > request.max_drop:
        raise LenetTrtError(
            f"{request.narrow} costs {evaluation.drop_points:.2f} points of accuracy "
            f"({evaluation.correct_before} -> {evaluation.correct} of {evaluation.total} right), more than the "
            f"{request.max_drop:g} allowed; nothing was written. {less}, or allow it with --max-drop "
            f"{evaluation.drop_points + 0.01:.2f}"
        )
