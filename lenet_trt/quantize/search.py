"""Find the layers that lose too much in 8 bits, on calibration data alone: the labelled images judge the result."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto
from tqdm import tqdm

from lenet_trt.build.difference import outputs_difference
from lenet_trt.build.loss import FP16_RANGE
from lenet_trt.errors import LenetTrtError
from lenet_trt.quantize.data import Calibration
from lenet_trt.quantize.insert import quantized_layers, without
from lenet_trt.runtimes.ort import runner


@dataclass(frozen=True)
class SearchResult:
    """Hold what the search chose.

    ``model``: int8 Q/DQ at the layers that are quantized. ``kept``: the layers that stay in float. ``errors``: by
    layer, the relative error in norm of the outputs where it is the only one that is quantized; empty where nothing
    had to be searched. ``change``: percent, with the layers that are quantized.
    """

    model: ModelProto
    kept: tuple[str, ...]
    errors: dict[str, float]
    change: float


class Judge:
    """Compare quantized models with the float model on calibration data."""

    def __init__(self, model: ModelProto, data: Calibration, batch: int) -> None:
        self._data, self._batch = data, batch
        self.source = data.source
        self._wanted = self._outputs(model)
        (first, *others) = self._wanted
        # Of several outputs the first need not be scores: the boxes of a detector, the values of a TopK.
        self.classifies = not others and first.ndim == 2 and first.shape[1] > 1
        broken = [output for output in self._wanted if not np.isfinite(output).all()]
        if broken:
            raise LenetTrtError(
                f"the float model gives NaN or infinity for {data.source}: calibrate with data that it computes"
            )

    def change(self, model: ModelProto) -> float:
        """Return the percent of samples that get another class or NaN; of a network that is no classifier the error."""
        found = self._outputs(model)
        if not self.classifies:
            return 100 * outputs_difference(found, self._wanted)
        classes, wanted = found[0].argmax(axis=1), self._wanted[0].argmax(axis=1)
        return 100 * float(((classes != wanted) | np.isnan(found[0]).any(axis=1)).mean())

    def error(self, model: ModelProto) -> float:
        """Return the relative error in norm of the outputs, which small changes show in too; infinity for NaN."""
        return outputs_difference(self._outputs(model), self._wanted)

    def _outputs(self, model: ModelProto) -> list[NDArray[Any]]:
        run = runner(model)
        parts = [run(feed) for feed in self._data.batches(self._batch)]
        return [np.concatenate([part[i].astype(np.float64) for part in parts]) for i in range(len(parts[0]))]


def search(
    model: ModelProto,
    judge: Judge,
    narrowed: Callable[[ModelProto], ModelProto],
    always_kept: tuple[str, ...],
    most: float,
    progress: bool,
) -> SearchResult:
    """Choose the layers of a quantized model that stay in float, so that the change is at most ``most`` percent.

    ``narrowed`` makes the form that is judged of a model of int8 Q/DQ. Layers are left out in the order of the error
    that each causes alone, as few as do.

    Raises:
        LenetTrtError: no layer can be quantized within that.
    """
    model = without(model, always_kept)
    change = judge.change(narrowed(model))
    if change <= most:
        return SearchResult(model, always_kept, {}, change)
    names = [node.name for node in quantized_layers(model)]
    tell = tqdm(names, "Searching layers", disable=not progress, leave=False, file=sys.stderr)
    errors = {name: judge.error(narrowed(without(model, [n for n in names if n != name]))) for name in tell}
    if all(map(math.isinf, errors.values())):
        raise LenetTrtError(
            f"whichever layer is quantized, the outputs are NaN or infinite for {judge.source}, and those of the float "
            f"model are not: leave --fp16 out where it was given ({FP16_RANGE}), or try another --method"
        )
    order = sorted(names, key=lambda name: -errors[name])
    few, many = 0, len(order)  # too few are left out; enough are
    changes = {many: 0.0}
    while many - few > 1:
        count = (few + many) // 2
        changes[count] = judge.change(narrowed(without(model, order[:count])))
        if progress:
            tqdm.write(f"{count} of {len(order)} layers in float: {changes[count]:.2f}% change", file=sys.stderr)
        few, many = (few, count) if changes[count] <= most else (count, many)
    if many < len(order):
        left = order[:many]
        return SearchResult(without(model, left), (*always_kept, *left), errors, changes[many])
    raise LenetTrtError(
        f"whichever layer is quantized, more than the {most:g}% allowed changes ({change:.2f}% with all of them; "
        f"{order[-1]} alone gives an error of {errors[order[-1]]:.1e}): allow it with --max-change, try another "
        "--method, or leave the model in fp16"
    )
