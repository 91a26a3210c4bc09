"""Run by test_python_route_on_gpu.py in a process of its own: TensorRT's run-time calls of the plugin, made by hand.

The plugin is the real one, on full TensorRT's real bindings and descriptors; only TensorRT itself, which would make
these calls, is not there.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from declared_kernels import DECLARED, declared
from lenet_trt.cuda.driver import Buffer, Stream, current_context
from lenet_trt.cuda.tuned import variant_for
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import registry
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.examples import SEED, bounds, expected_outputs, kernel_inputs, plain_inputs
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.tensorrt.data_types import data_types
from lenet_trt.tensorrt.routes import python
from tensorrt_stubs import load_bindings

trt = load_bindings()
NAMES = data_types(trt)
LARGEST_ELEMENTS = 1 << 22


def descriptor(shape: tuple[int, ...], dtype: str) -> Any:
    entry = trt.PluginTensorDesc()
    entry.dims, entry.type, entry.format = trt.Dims(shape), NAMES[dtype], trt.TensorFormat.LINEAR
    return entry


def largest(descriptors: list[Any]) -> list[Any]:
    """The same tensors as a profile describes them."""
    entries = []
    for each in descriptors:
        entry = trt.DynamicPluginTensorDesc()
        entry.desc.type, entry.desc.dims, entry.max = each.type, each.dims, each.dims
        entries.append(entry)
    return entries


def error_of(bound: Bound, plugin: Any, stream: Stream) -> float:
    """Launch once as TensorRT would; the output's distance from the reference, in parts of the tolerance."""
    plain = plain_inputs(bound, np.random.default_rng(SEED))
    arrays = kernel_inputs(bound, plain)
    given = [descriptor(*pair) for pair in zip(bound.input_shapes, bound.input_dtypes, strict=True)]
    made = [descriptor(*pair) for pair in zip(bound.output_shapes, bound.output_dtypes, strict=True)]
    inputs = [Buffer(array.nbytes) for array in arrays]
    for buffer, array in zip(inputs, arrays, strict=True):
        buffer.write(array)
    wanted = expected_outputs(bound, plain)
    dtypes = [numpy_dtype(dtype) for dtype in bound.output_dtypes]
    outputs = [Buffer(array.size * dtype.itemsize) for array, dtype in zip(wanted, dtypes, strict=True)]
    for buffer in outputs:
        buffer.write(np.full(buffer.size_bytes, 0xFF, dtype=np.uint8))  # NaN in every type
    plugin.on_shape_change(given, made)
    pointers = [buffer.pointer for buffer in inputs], [buffer.pointer for buffer in outputs]
    workspace = Buffer(max(plugin.get_workspace_size(largest(given), largest(made)), 1))
    workspace.write(np.full(workspace.size_bytes, 0xFF, dtype=np.uint8))
    plugin.enqueue(given, made, *pointers, workspace.pointer, stream.handle)
    stream.synchronize()
    worst = 0.0
    for buffer, array, dtype in zip(outputs, wanted, dtypes, strict=True):
        seen = buffer.read().view(dtype).reshape(array.shape).astype(np.float64)
        error = float(np.linalg.norm(seen - array)) / max(float(np.linalg.norm(array)), 1e-30)
        assert not np.isnan(error), "outputs were left unwritten"
        worst = max(worst, error / max(bound.types.tolerance, 1e-12))
    return worst


def main() -> None:
    stream = Stream()
    answer: dict[str, dict[str, float]] = {}
    for kernel in (*registry.kernels().values(), *map(declared, DECLARED)):
        creator = python._classes(trt)[0](kernel)
        contexts: dict[tuple[Any, ...], Any] = {}
        worst: dict[str, float] = {}
        for bound in bounds(kernel):
            if max(int(np.prod(shape)) for shape in (*bound.input_shapes, *bound.output_shapes)) > LARGEST_ELEMENTS:
                continue
            numbers = {a.name: a.number(bound.attributes[a.name]) for a in kernel.attributes}
            key = (bound.types.name, bound.specialized.static_axes, tuple(numbers.items()))
            if key not in contexts:  # as an engine makes one, and a context for it; other batch sizes reuse it
                arrays = python.stored_arrays(kernel, bound.attributes)
                fields = python.plugin_fields(trt, kernel, arrays)
                contexts[key] = creator.create_plugin("p", fields, trt.TensorRTPhase.RUNTIME).attach_to_context(None)
            try:
                error = error_of(bound, contexts[key], stream)
            except (AssertionError, LenetTrtError) as problem:
                variant = variant_for(bound, current_context())
                call = f"{kernel.name} {variant.name} {bound.types.name} {dict(bound.axes)} {numbers}"
                raise SystemExit(f"{call}: {problem}") from problem
            worst[bound.types.name] = max(worst.get(bound.types.name, 0.0), error)
        answer[kernel.name] = worst
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
