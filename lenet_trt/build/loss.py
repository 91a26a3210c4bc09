"""Refuse a model that lost too much, and warn of one that may have."""

from __future__ import annotations

import warnings

from lenet_trt.build.evaluate import Evaluation
from lenet_trt.errors import LenetTrtError, LenetTrtWarning
from lenet_trt.tensorrt.summary import difference_text

FP16_RANGE = "fp16 has numbers from 6e-8 to 65,504 alone"
# The loss in points that is allowed by allowing any: results that are NaN or infinite too.
ANY_LOSS = 100.0
# A relative error in norm above this is seldom the rounding of 16 bits.
_LARGE_DIFFERENCE = 5e-2


def refuse_lost_numbers(evaluation: Evaluation, max_drop: float, what: str, fix: str) -> None:
    """Refuse a model that gives NaN or infinity where the model given has numbers.

    ``what`` made it so, and ``fix`` says how to go on.

    Raises:
        LenetTrtError: it does, and not every loss is allowed.
    """
    if evaluation.infinite != "built" or max_drop >= ANY_LOSS:
        return
    points = ""
    if evaluation.drop_points:
        points = f", and costs {evaluation.drop_points:.2f} points of accuracy"
    raise LenetTrtError(
        f"{what} gives NaN or infinity where the model given has numbers ({evaluation.data}){points}; nothing was "
        f"written. {fix}, or allow it with --max-drop {ANY_LOSS:g}"
    )


def warn_of_difference(evaluation: Evaluation) -> None:
    """Warn where outputs differ by more than roundings do."""
    difference = evaluation.difference
    if evaluation.infinite is None and (difference is None or difference <= _LARGE_DIFFERENCE):
        return
    text = f"{difference_text(evaluation.as_dict())} ({evaluation.data})"
    if evaluation.infinite is None:
        text += f", and roundings seldom differ by more than {_LARGE_DIFFERENCE:g}"
    if evaluation.correct is None:
        text += ": labelled images (--images, --labels) tell whether the answers are still right"
    warnings.warn(text, LenetTrtWarning, stacklevel=2)
