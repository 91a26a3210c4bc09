"""Compare the results of an engine with those of ONNX Runtime: a parser may drop what it does not know of a node."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from lenet_trt.bench.engine_tool import Arrays, Engine, EngineTool, outputs_of
from lenet_trt.bench.zoo.models import ExportedNetwork
from lenet_trt.kernel.examples import relative_error
from lenet_trt.runtimes.ort import runner

# Of all inputs. TensorRT's program writes results as text: these take 10 MB.
MOST_NUMBERS = 1 << 20
# A deep network with random weights rounds more than a layer; what is beyond this computes something else.
LIMITS = {"fp32": 5e-5, "fp16": 5e-2}


def is_compared(exported: ExportedNetwork, batch: int, smallest: int) -> bool:
    """Return whether results of a batch are compared: those of the smallest one, and others that are no long text."""
    return batch == smallest or batch * exported.numbers_of_one <= MOST_NUMBERS


def checked_results(
    tool: EngineTool, engine: Engine, model: onnx.ModelProto, inputs: Arrays, precision: str
) -> dict[str, Any]:
    """Return how far an engine's result is from the float model's in norm, and whether that is right.

    Networks with several outputs are not compared: the detector's depend on the order of nearly equal scores.
    """
    if len(model.graph.output) != 1:
        return {}
    (wanted,) = runner(model)(inputs)
    (seen,) = outputs_of(tool, engine, model, inputs)
    error = relative_error(seen.reshape(wanted.shape), np.asarray(wanted, np.float64))
    return {"engine_error": error, "right": bool(error <= LIMITS[precision])}
