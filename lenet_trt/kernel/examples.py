"""Make the data for checks of a kernel: random inputs and expected results, and compare results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.functions import call_declared
from lenet_trt.kernel.saturate import is_quantized
from lenet_trt.kernel.tensors import Tensor
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.kernel.variants import Variant

SEED = 20
_DRAWS = 20
_LARGEST_DRAW_BYTES = 1 << 26


@dataclass(frozen=True)
class ExampleCase:
    """Hold one call of one variant; ``--case`` takes any part of ``str(case)``."""

    bound: Bound
    variant: Variant

    def __str__(self) -> str:
        axes = ",".join(f"{name}={value}" for name, value in self.bound.axes.items())
        return f"{self.variant.name} {self.bound.types.name} {axes}{attributes_text(self.bound)}"


def bounds(kernel: Kernel) -> Iterator[Bound]:
    """Yield every declared example with every combination of types and of attributes that ``requires`` allows."""
    for types, example in itertools.product(kernel.types, kernel.examples):
        choices = [[(a.name, value) for value in a.examples] for a in kernel.attributes if a.name not in example]
        for chosen in itertools.product(*choices):
            if kernel.takes(example, dict(chosen)):
                yield kernel.bind_axes(example, types, dict(chosen))


def attributes_text(bound: Bound) -> str:
    """Return the attributes of a call as people read them, each after a space."""
    return "".join(f" {a.name}={a.text(bound.attributes[a.name])}" for a in bound.kernel.attributes)


def cases(kernel: Kernel, sm: int | None = None) -> Iterator[ExampleCase]:
    """Yield every call that a variant can run, preferred or not; with ``sm``, only those for that architecture."""
    for bound in bounds(kernel):
        for variant in kernel.variants:
            runs = bound.specialized.supports(variant, variant.min_sm if sm is None else sm)
            if runs and bound.fits(variant):
                yield ExampleCase(bound, variant)


def resized(case: ExampleCase, rng: np.random.Generator) -> ExampleCase | None:
    """Return the variant's call with random sizes between 1 and the largest example, or None if none fits."""
    kernel = case.bound.kernel
    for _ in range(_DRAWS):
        axes = dict(case.bound.axes)
        for axis in kernel.axes:
            if not axis.static:
                largest = max(example[axis.name] for example in kernel.examples)
                axes[axis.name] = round(largest ** rng.random())
        try:
            bound = kernel.bind_axes(axes, case.bound.types, case.bound.attributes)
        except LenetTrtError:  # sizes that the kernel says it is not for
            continue
        if bound.fits(case.variant) and bound.dram_bytes <= _LARGEST_DRAW_BYTES:
            return ExampleCase(bound, case.variant)
    return None


def plain_inputs(bound: Bound, rng: np.random.Generator) -> list[np.ndarray]:
    """Draw the inputs as ONNX has them, in the types of the call.

    Normally distributed; weights are divided by the root of their fan-in, so that results stay in
    the range of half precision however deep the kernel is. Integers are drawn from -4 to 4, and quantized numbers from
    all that the type has, so that sums saturate.
    """
    return [_draw(bound, tensor, rng) for tensor in bound.kernel.plain_inputs]


def kernel_inputs(bound: Bound, plain: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Rearrange plain inputs into the kernel's inputs.

    Raises:
        LenetTrtError: the declared packing does not give the declared inputs.
    """
    kernel = bound.kernel
    by_name = {tensor.name: array for tensor, array in zip(kernel.plain_inputs, plain, strict=True)}
    if kernel.packing is not None:
        weights = {tensor.name: by_name[tensor.name] for tensor in kernel.packing.plain}
        by_name.update(call_declared(kernel.name, "pack", kernel.packing.pack, weights))
    arrays = []
    for tensor, shape, dtype in zip(kernel.inputs, bound.input_shapes, bound.input_dtypes, strict=True):
        array = by_name.get(tensor.name)
        if array is None or array.shape != shape or array.dtype != numpy_dtype(dtype):
            seen = "nothing" if array is None else f"{list(array.shape)} {array.dtype}"
            raise LenetTrtError(f"{kernel.name}: pack gives {seen} for {tensor.name}, not {list(shape)} {dtype}")
        arrays.append(np.asarray(array, order="C"))  # ascontiguousarray would give a scalar an axis
    return arrays


def expected_outputs(bound: Bound, plain: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute the outputs in float64 from the same values that the kernel gets.

    Raises:
        LenetTrtError: the reference raises, or its results do not have the declared shapes.
    """
    exact = [array.astype(np.float64) if _is_float(array) else array for array in plain]
    with np.errstate(all="ignore"):
        result = call_declared(bound.kernel.name, "the reference", bound.kernel.reference, *exact, **bound.attributes)
    outputs = list(result) if isinstance(result, tuple) else [result]
    shapes = tuple(np.shape(output) for output in outputs)
    if shapes != bound.output_shapes:
        raise LenetTrtError(f"{bound.kernel.name}: the reference gives {shapes}, not {bound.output_shapes}")
    return [np.asarray(output, np.float64) for output in outputs]


def disagreement(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> str | None:
    """Say how an output differs from what is expected, or None where it is right.

    Integers are compared as integers: with the reference's rounding and saturation, and whatever the tolerance is.
    """
    if got.dtype.kind not in "iub":
        error = relative_error(got, wanted)
        return None if error <= tolerance else f"relative error {error:.2e}, more than {tolerance:.0e}"
    wrong = np.argwhere(got.astype(np.float64) != wanted)
    if not len(wrong):
        return None
    first = tuple(wrong[0])
    return (
        f"{len(wrong)} of {got.size} integers differ; the first, at {list(map(int, first))}, is {got[first]} and not "
        f"{wanted[first]:.0f}"
    )


def relative_error(got: np.ndarray, wanted: np.ndarray) -> float:
    """Return norm(got - wanted) / norm(wanted) of ``error_and_norm``; infinity where norm(wanted) alone is 0."""
    error, norm = error_and_norm(got, wanted)
    if norm == 0.0:
        return 0.0 if error == 0.0 else math.inf
    return error / norm


def error_and_norm(got: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """Return norm(got - wanted) and norm(wanted) over the finite wanted values.

    The first is infinity where NaN or infinity differ. A value too large for the type of ``got`` has to be infinite in
    it.
    """
    with np.errstate(all="ignore"):
        rounded = wanted.astype(got.dtype).astype(np.float64)
    values = got.astype(np.float64)
    finite = np.isfinite(rounded)
    norm = float(np.linalg.norm(wanted[finite]))
    if not np.array_equal(values[~finite], rounded[~finite], equal_nan=True) or not np.isfinite(values[finite]).all():
        return math.inf, norm
    return float(np.linalg.norm(values[finite] - wanted[finite])), norm


def _draw(bound: Bound, tensor: Tensor, rng: np.random.Generator) -> np.ndarray:
    from lenet_trt.kernel.dims import as_dim

    shape = tuple(as_dim(size).evaluate(bound.sizes) for size in tensor.shape)
    dtype = numpy_dtype(bound.types.resolve(tensor.dtype))
    if tensor.positive:
        least, most = tensor.positive if isinstance(tensor.positive, tuple) else (0.05, 0.2)
        return rng.uniform(least, most, shape).astype(dtype)
    if is_quantized(dtype.name):
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(-4 if dtype.kind == "i" else 0, 5, shape).astype(dtype)
    scale = 1 / math.sqrt(max(math.prod(shape[1:]), 1)) if tensor.weight and len(shape) > 1 else 1.0
    return (rng.standard_normal(shape, np.float32) * np.float32(scale)).astype(dtype)


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind not in "iu"
