"""Run kernels for ``lenet-trt check``: each function checks one property of one call.

A function returns None when the property holds, otherwise what was seen instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from lenet_trt.cuda.compile import compile_ahead, target_for
from lenet_trt.cuda.driver import Buffer, Stream, context_lost
from lenet_trt.cuda.launch import prepare
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.examples import (
    SEED,
    ExampleCase,
    disagreement,
    expected_outputs,
    kernel_inputs,
    plain_inputs,
    relative_error,
    resized,
)
from lenet_trt.kernel.layouts import LAYOUTS
from lenet_trt.kernel.types import ELEMENT_TYPES, numpy_dtype

# Every float type reads these bytes as NaN: reads outside an input, and elements that are never written, show.
_POISON = 0xFF
_OTHER_POISON = 0x11
_GUARD_BYTES = 4096
_INTEGER_PADDING = 77
_RANDOM_SIZES = 3


class Guarded:
    """Hold a tensor in device memory with guard bytes on both sides, at an address with only the promised alignment."""

    def __init__(self, size_bytes: int, alignment: int) -> None:
        self._start = _GUARD_BYTES + alignment
        self._size = size_bytes
        self._buffer = Buffer(self._start + size_bytes + _GUARD_BYTES)
        self.pointer = self._buffer.pointer + self._start
        self.fill(_POISON)

    def fill(self, byte: int) -> None:
        """Set every byte of the tensor; the guards get the poison."""
        host = np.full(self._buffer.size_bytes, _POISON, np.uint8)
        host[self._start : self._start + self._size] = byte
        self._buffer.write(host)

    def write(self, array: np.ndarray) -> None:
        """Copy the values in."""
        self._buffer.write(array, self._start)

    def read(self) -> tuple[np.ndarray, bool]:
        """Return the tensor's bytes, and whether the guards are unchanged."""
        host = self._buffer.read()
        end = self._start + self._size
        intact = bool((host[: self._start] == _POISON).all() and (host[end:] == _POISON).all())
        return host[self._start : end], intact


class Rig:
    """Set up one call in device memory: its inputs, poisoned outputs, its own stream and the launcher."""

    def __init__(self, case: ExampleCase, plain: Sequence[np.ndarray] | None = None) -> None:
        self.case = case
        bound = case.bound
        self.plain = _standard(bound)[0] if plain is None else list(plain)
        self._own = plain is not None
        # As they lie in memory; what a kernel reads of the padding, it must not use.
        self.inputs = [
            LAYOUTS[tensor.layout].store(array, np.nan if array.dtype.kind not in "iu" else _INTEGER_PADDING)
            for tensor, array in zip(bound.kernel.inputs, kernel_inputs(bound, self.plain), strict=True)
        ]
        alignment = bound.kernel.alignment
        self.memory = [Guarded(array.nbytes, alignment) for array in self.inputs]
        for guarded, array in zip(self.memory, self.inputs, strict=True):
            guarded.write(array)
        sizes = [ELEMENT_TYPES[dtype].size_bytes for dtype in bound.output_dtypes]
        for shape, size in zip(bound.stored_output_shapes, sizes, strict=True):
            self.memory.append(Guarded(int(np.prod(shape, dtype=np.int64)) * size, alignment))
        self.stream = Stream()
        self.launcher = prepare(bound, case.variant)
        workspace_bytes = self.launcher.workspace_bytes
        self.workspace = [Guarded(workspace_bytes, alignment)] if workspace_bytes else []
        self.pointers = [guarded.pointer for guarded in (*self.memory, *self.workspace)]

    def poison(self, byte: int = _POISON) -> None:
        """Overwrite the outputs and the workspace."""
        for guarded in (*self.memory[len(self.inputs) :], *self.workspace):
            guarded.fill(byte)

    def launch(self) -> None:
        """Launch the kernel once and wait."""
        self.launcher(self.pointers, self.stream.handle)
        self.stream.synchronize()

    def outputs(self) -> list[np.ndarray]:
        """Read the outputs.

        Raises:
            LenetTrtError: the kernel wrote outside of its outputs.
        """
        bound = self.case.bound
        tensors = (*bound.kernel.inputs, *bound.kernel.outputs)
        arrays = []
        for index, (tensor, guarded) in enumerate(zip(tensors, self.memory, strict=True)):
            data, intact = guarded.read()
            if not intact:
                raise LenetTrtError(f"memory just outside {tensor.name} was written")
            if index < len(self.inputs):
                if not np.array_equal(data, self.inputs[index].reshape(-1).view(np.uint8)):
                    raise LenetTrtError(f"the input {tensor.name} was written")
            else:
                output = index - len(self.inputs)
                dtype = numpy_dtype(bound.output_dtypes[output])
                stored = data.view(dtype).reshape(bound.stored_output_shapes[output])
                array, padding = LAYOUTS[tensor.layout].load(stored, bound.output_shapes[output])
                if padding.any():
                    raise LenetTrtError(
                        f"the padding of {tensor.name} is not zero, as its layout {tensor.layout} wants"
                    )
                arrays.append(array)
        if not all(guarded.read()[1] for guarded in self.workspace):
            raise LenetTrtError("memory just outside the workspace was written")
        return arrays

    def problem(self) -> str | None:
        """Say what is wrong with the outputs that are in memory now, or return None."""
        bound = self.case.bound
        wanted = expected_outputs(bound, self.plain) if self._own else _standard(bound)[1]
        found = (
            disagreement(got, each, bound.types.tolerance) for got, each in zip(self.outputs(), wanted, strict=True)
        )
        return next(filter(None, found), None)


@lru_cache(maxsize=2)
def _standard(bound: Bound) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the random inputs of a call and the expected outputs; they are kept while its variants are checked."""
    plain = plain_inputs(bound, np.random.default_rng(SEED))
    return plain, expected_outputs(bound, plain)


def values(case: ExampleCase) -> str | None:
    """Check that outputs agree with the float64 reference, that all are written, and that nothing else is written."""
    rig = Rig(case)
    for byte in (_POISON, _OTHER_POISON):
        rig.poison(byte)
        rig.launch()
        problem = rig.problem()
        if problem:
            return problem
    return None


def random_sizes(case: ExampleCase) -> str | None:
    """Check that random sizes of the runtime axes, other than the examples', give right results."""
    rng = np.random.default_rng([SEED, *case.bound.axes.values()])
    for _ in range(_RANDOM_SIZES):
        other = resized(case, rng)
        problem = None if other is None else values(other)
        if problem:
            return f"with {other}: {problem}"
    return None


def special_values(case: ExampleCase) -> str | None:
    """Check that NaN and infinity in an input reach the outputs where the reference has them."""
    for value in (np.nan, np.inf, -np.inf):
        rng = np.random.default_rng(SEED)
        plain = plain_inputs(case.bound, rng)
        first = plain[0].reshape(-1)
        if first.dtype.kind in "iu" or first.size == 0:
            return None
        first[rng.integers(0, first.size, max(1, min(3, first.size // 64)))] = value
        rig = Rig(case, plain)
        rig.launch()
        problem = rig.problem()
        if problem:
            return f"with {value} in {case.bound.kernel.inputs[0].name}: {problem}"
    return None


def number_range(case: ExampleCase) -> str | None:
    """Check that single precision keeps its range: numbers far from 1 are as exact as those near 1.

    First the first input is scaled by 2**40 and 2**-40. Then the weights are scaled by 2**20 and 2**-20, without
    biases, and the first input by the inverse: so the layers after the first one (such as tanh) stay well-conditioned.
    Where they do not, as the steps of a recurrence, the scaling says nothing and is skipped (``is_ill_conditioned``).
    """
    types, tensors = case.bound.types, case.bound.kernel.plain_inputs
    if any(types.resolve(tensor.dtype) != "float32" for tensor in tensors):
        return None
    weights = [tensor for tensor in tensors if tensor.weight]
    for exponent, scaled in ((40, tensors[:1]), (-40, tensors[:1]), (20, weights), (-20, weights)):
        if not scaled:
            continue
        plain = plain_inputs(case.bound, np.random.default_rng(SEED))
        for tensor, array in zip(tensors, plain, strict=True):
            if tensor in scaled:
                bias = tensor.weight and array.ndim == 1
                array *= np.float32(0.0 if bias else 2.0**exponent)
        if scaled is weights and not tensors[0].weight:
            plain[0] *= np.float32(2.0**-exponent)
        rig = Rig(case, plain)
        rig.launch()
        problem = rig.problem()
        if problem and not is_ill_conditioned(case.bound, plain):
            return f"with {', '.join(tensor.name for tensor in scaled)} times 2**{exponent}: {problem}"
    return None


def is_ill_conditioned(bound: Bound, plain: Sequence[np.ndarray]) -> bool:
    """Return whether the exact outputs change by a quarter of the tolerance where inputs do by 2**-24.

    Each changes by a random part of 2**-24 of it, as single precision rounds. A quarter: a kernel rounds sums too.
    """
    rng = np.random.default_rng(SEED)
    changed = [
        array if array.dtype.kind in "iu" else array * (1 + rng.uniform(-(2.0**-24), 2.0**-24, array.shape))
        for array in plain
    ]
    exact = zip(expected_outputs(bound, changed), expected_outputs(bound, plain), bound.output_dtypes, strict=True)
    return any(
        relative_error(other, each) > bound.types.tolerance / 4
        for other, each, dtype in exact
        if numpy_dtype(dtype).kind not in "iub"
    )


def graph(case: ExampleCase) -> str | None:
    """Check that each launch of a call is captured as a kernel node, and nothing else is: it allocates and waits for
    nothing; and that the graph replays right.
    """
    rig = Rig(case)
    with rig.stream.capture() as captured:
        rig.launcher(rig.pointers, rig.stream.handle)
    wanted = len(case.variant.parts)
    if (captured.nodes, captured.kernel_nodes) != (wanted, wanted):
        return (
            f"the captured graph has {captured.nodes} nodes, {captured.kernel_nodes} of them kernels; {wanted} "
            f"{'is' if wanted == 1 else 'are'} wanted"
        )
    for _ in range(2):
        rig.poison()
        captured.replay(rig.stream)
        rig.stream.synchronize()
        problem = rig.problem()
        if problem:
            return f"replayed: {problem}"
    return None


def misaligned(case: ExampleCase) -> str | None:
    """Check that a pointer with less alignment than declared is refused before anything is launched."""
    rig = Rig(case)
    names = [*(tensor.name for tensor in (*case.bound.kernel.inputs, *case.bound.kernel.outputs)), "workspace"]
    for index, name in enumerate(names[: len(rig.pointers)]):
        pointers = list(rig.pointers)
        pointers[index] += case.bound.kernel.alignment // 2
        try:
            rig.launcher(pointers, rig.stream.handle)
        except LenetTrtError:
            continue
        return f"a misaligned {name} was accepted"
    return None


def empty(case: ExampleCase) -> str | None:
    """Check that a call without any output element launches and writes nothing, and the results where others are empty.

    Without a batch, every kernel has nothing to do; of other sizes its ``requires`` may say that they are not 0.
    """
    kernel = case.bound.kernel
    for index, name in enumerate(axis.name for axis in kernel.axes if not axis.static):
        axes = {**case.bound.axes, name: 0}
        try:
            bound = kernel.bind_axes(axes, case.bound.types, case.bound.attributes)
        except LenetTrtError:
            if index == 0:  # the batch
                raise
            continue
        if not bound.empty and not bound.fits(case.variant):
            continue
        rig = Rig(ExampleCase(bound, case.variant), plain_inputs(bound, np.random.default_rng(SEED)))
        rig.launch()
        if bound.empty:  # the reference need not take it
            rig.outputs()
        elif problem := rig.problem():
            return f"with {name} = 0: {problem}"
    return None


def compile_calls(calls: Iterable[ExampleCase], sm: int, progress: bool = False) -> None:
    """Compile what the calls launch, on all cores. ``progress``: see ``compile_each``."""
    parts = ((call.bound.specialized, part, target_for(sm)) for call in calls for part in call.variant.parts)
    compile_ahead(parts, line_info=True, progress=progress)


CHECKS: dict[str, Callable[[ExampleCase], str | None]] = {
    "values": values,
    "random": random_sizes,
    "special": special_values,
    "range": number_range,
    "graph": graph,
    "misaligned": misaligned,
    "empty": empty,
}


def run_check(name: str, case: ExampleCase) -> str | None:
    """Run one of ``CHECKS``; a launch that fails counts as what was seen."""
    lost = context_lost()
    if lost:
        return f"not run: an earlier call ended with {lost}, and nothing runs in this process after it"
    try:
        return CHECKS[name](case)
    except LenetTrtError as error:
        return str(error)
