"""Check with ONNX Runtime on the CPU that the model for an engine still gives the right answers."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto
from tqdm import tqdm

from lenet_trt.build.difference import Outputs, infinite_in, loses_numbers, outputs_difference
from lenet_trt.build.labelled import LabelledImages, judge, right_answers
from lenet_trt.errors import LenetTrtError
from lenet_trt.export.geometry import CLASSES, IMAGE_SHAPE
from lenet_trt.kernel.shapes import Shape
from lenet_trt.onnx_model.onnx_runtime import onnx_runtime
from lenet_trt.onnx_model.profiles import axes_of, inputs_of
from lenet_trt.runtimes.ort import runner

RANDOM_INPUTS = "random inputs"
_SEED = 20
# Below this share of right answers a model of LeNet-5's shape is not an MNIST classifier, and a drop says nothing.
_IS_MNIST = 0.5


@dataclass(frozen=True)
class Evaluation:
    """Hold the answers of ONNX Runtime.

    ``correct`` of ``total`` labelled images for the model built from, ``correct_before`` for the model given (None
    where there are none and it is no MNIST classifier). ``data`` says which images, ``data_sha256`` is theirs where
    they are the user's. ``difference`` is the relative error of the outputs against the model given,
    in norm, over those images or over random inputs. Where it is infinite it is None, and ``infinite`` says whose
    outputs are NaN or infinite where the other's are not: those of the model "built" from or of the model "given".
    ``problem`` says why nothing was measured.
    """

    correct: int | None = None
    correct_before: int | None = None
    total: int | None = None
    difference: float | None = None
    method: str = f"ONNX Runtime {onnx_runtime().__version__} on the CPU, on the ONNX that the engine is built from"
    problem: str | None = None
    data: str = "MNIST test images"
    data_sha256: str | None = None
    infinite: Literal["built", "given"] | None = None

    @classmethod
    def of(cls, difference: float, lost: bool, **facts: Any) -> Evaluation:
        """Hold a difference, which may be infinite, and other fields; ``lost``: numbers became NaN or infinite."""
        number = difference if math.isfinite(difference) else None
        return cls(difference=number, infinite=infinite_in(difference, lost), **facts)

    @property
    def drop_points(self) -> float:
        """Return the loss of accuracy against the given model, in percentage points; 0 where it is unknown."""
        if self.correct is None or self.correct_before is None or not self.total:
            return 0.0
        return 100.0 * (self.correct_before - self.correct) / self.total

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for a sidecar."""
        return asdict(self)


def evaluate(
    model: ModelProto,
    before: ModelProto,
    shapes: Mapping[str, Shape],
    images: LabelledImages | None = None,
    *,
    progress: bool = False,
) -> Evaluation:
    """Compare ``model`` with ``before``, the model from which it was converted or fused.

    ``images`` are what both are judged by. Without them a classifier of MNIST's digits is judged by its test set, and
    others by random inputs of ``shapes``. ``progress``: say on standard error that this is being done.

    Raises:
        LenetTrtError: the images cannot be read, or are not for this model.
    """
    if progress and (images is not None or model is not before or is_digit_classifier(before)):
        tqdm.write("comparing with ONNX Runtime on the CPU", file=sys.stderr)
    if images is not None:
        found = judge(model, before, images)
        return Evaluation.of(**asdict(found), data=str(images), data_sha256=images.sha256())
    try:
        if is_digit_classifier(before):
            evaluation = _on_mnist(model, before)
            if evaluation.correct_before is not None:
                return evaluation
        if model is before:
            return Evaluation(problem="the model was not changed, and there is no labelled data for it")
        inputs = random_inputs(before, shapes)
        return _compared(runner(model)(inputs), runner(before)(inputs), data=RANDOM_INPUTS)
    except LenetTrtError as error:
        return Evaluation(problem=str(error))


def is_digit_classifier(model: ModelProto) -> bool:
    """Return whether the model takes [n, 1, 28, 28] float images and returns [n, 10]."""
    inputs = inputs_of(model)
    outputs = [axes_of(value) for value in model.graph.output]
    (axes,) = inputs.values() if len(inputs) == 1 else ((),)
    return (
        len(outputs) == 1
        and axes[1:] == IMAGE_SHAPE
        and isinstance(axes[0], str)
        and outputs[0][1:] == (CLASSES,)
        and model.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    )


def random_inputs(model: ModelProto, shapes: Mapping[str, Shape]) -> dict[str, NDArray[Any]]:
    """Return seeded inputs: normal numbers for floating-point tensors, 0 and 1 for the others."""
    generator = np.random.default_rng(_SEED)
    wanted = inputs_of(model)
    inputs = {}
    for value in model.graph.input:
        if value.name not in wanted:
            continue
        fixed = tuple(axis if isinstance(axis, int) else 1 for axis in axes_of(value))
        shape = shapes.get(value.name, fixed)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if np.issubdtype(dtype, np.floating) or value.type.tensor_type.elem_type == TensorProto.BFLOAT16:
            inputs[value.name] = generator.standard_normal(shape, dtype=np.float32).astype(dtype)
        else:
            inputs[value.name] = generator.integers(0, 2, shape).astype(dtype)
    return inputs


def _on_mnist(model: ModelProto, before: ModelProto) -> Evaluation:
    from lenet_trt.export.accuracy import logits_of
    from lenet_trt.export.mnist import test_set

    images, labels = test_set()
    (name,) = inputs_of(before)

    def logits(network: ModelProto) -> NDArray[Any]:
        run = runner(network)
        return logits_of(lambda batch: run({name: batch})[0], images)

    expected = logits(before)
    found = expected if model is before else logits(model)
    correct_before, correct = (right_answers(values, labels) for values in (expected, found))
    if correct_before < _IS_MNIST * len(labels):
        return Evaluation()
    return _compared([found], [expected], correct=correct, correct_before=correct_before, total=len(labels))


def _compared(outputs: Outputs, reference: Outputs, **facts: Any) -> Evaluation:
    return Evaluation.of(outputs_difference(outputs, reference), loses_numbers(outputs, reference), **facts)
