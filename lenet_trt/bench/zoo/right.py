"""Compare the results of an engine with those of ONNX Runtime: a parser may drop what it does not know of a node."""

from __future__ import annotations

from typing import Any

import numpy as np

from lenet_trt.bench.engine_tool import Arrays, Engine, EngineTool, outputs_of
from lenet_trt.bench.zoo.cases import ZooCase
from lenet_trt.kernel.examples import relative_error

# Of all inputs. TensorRT's program writes results as text: these take 10 MB.
MOST_NUMBERS = 1 << 20
# A deep network with random weights rounds more than a layer; what is beyond this computes something else.
LIMITS = {"fp32": 5e-5, "fp16": 5e-2}


def checked_results(
    tool: EngineTool, engine: Engine, case: ZooCase, inputs: Arrays, *, smallest: bool
) -> dict[str, Any]:
    """Return how far an engine's result is from the float model's in norm, and whether that is right.

    Results of the smallest batch are compared, and others that are no long text. Networks with several outputs are not:
    the detector's depend on the order of nearly equal scores.
    """
    if len(case.plain.graph.output) != 1:
        return {}
    if not smallest and case.batch * case.exported.numbers_of_one > MOST_NUMBERS:
        return {}
    (wanted,) = case.wanted
    (seen,) = outputs_of(tool, engine, case.plain, inputs)
    error = relative_error(seen.reshape(wanted.shape), np.asarray(wanted, np.float64))
    return {"engine_error": error, "right": bool(error <= LIMITS[case.precision])}
