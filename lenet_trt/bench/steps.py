"""Run the numbered steps in ``plugins/*/steps`` as their headers say: several launches, with buffers between them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lenet_trt.cuda.compile import compile_for_launch
from lenet_trt.cuda.driver import ask, current_context, driver
from lenet_trt.cuda.launch import load_function
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.dims import as_dim
from lenet_trt.kernel.steps import Step, StepLaunch

if TYPE_CHECKING:
    import torch

    from lenet_trt.bench.workload import Inputs, TorchCall


def ready(step: Step, bound: Bound, weights: Mapping[str, torch.Tensor]) -> Callable[[Inputs], TorchCall]:
    """Return a function that prepares a step for an input set.

    ``weights`` are on the GPU, in the step's types. All input sets share the buffers.
    """
    import torch

    context = current_context()
    sizes = {**bound.axes, **bound.specialized.known_sizes, **context.sizes}
    output = bound.kernel.outputs[0]
    dtype = getattr(torch, bound.types.resolve(output.dtype))
    shapes = {output.name: output.shape, **step.buffers}
    functions = [_function(each, bound) for each in step.launches]
    made: dict[str, torch.Tensor] = {}

    def prepare(inputs: Inputs) -> TorchCall:
        if not made:
            for name, shape in shapes.items():
                made[name] = torch.empty([as_dim(d).evaluate(sizes) for d in shape], dtype=dtype, device="cuda")
            for function in functions:
                _copy_constants(function, step.constants, weights)
        given = [tensor.name for tensor in bound.kernel.inputs if tensor.name not in weights]
        tensors = {**weights, **made, **dict(zip(given, inputs, strict=True))}
        stream = torch.cuda.current_stream().cuda_stream
        launches = []
        for each, function in zip(step.launches, functions, strict=True):
            grid = [as_dim(d).evaluate(sizes) for d in each.grid]
            arguments = each.arguments
            values = [tensors[a].data_ptr() if isinstance(a, str) else as_dim(a).evaluate(sizes) for a in arguments]
            types = [ctypes.c_void_p if isinstance(a, str) else ctypes.c_int for a in arguments]
            shared = as_dim(each.shared_bytes).evaluate(sizes)
            launches.append((function, *grid, each.block, 1, 1, shared, stream, (tuple(values), tuple(types)), 0))

        def call(keep: Mapping[str, torch.Tensor] = tensors) -> torch.Tensor:
            for launch, each in zip(launches, step.launches, strict=True):
                ask(driver().cuLaunchKernel(*launch), f"cannot launch {each.entry}")
                if step.sync:
                    ask(driver().cuStreamSynchronize(stream), f"{each.entry} failed")
            return keep[output.name]

        return call

    return prepare


def _function(each: StepLaunch, bound: Bound) -> object:
    """Compile the function as a variant that only the benchmark knows, and return it."""
    context = current_context()
    module = compile_for_launch(bound.specialized, each.variant, context.sm)
    sizes = {**bound.axes, **bound.specialized.known_sizes, **context.sizes}
    return load_function(context, module, as_dim(each.shared_bytes).evaluate(sizes))


def _copy_constants(function: object, constants: Mapping[str, str], weights: Mapping[str, torch.Tensor]) -> None:
    """Fill the symbols that the function's module has."""
    cuda = driver()
    module = ask(cuda.cuFuncGetModule(function), "cannot find the module of a step")
    for symbol, name in constants.items():
        status, pointer, size = cuda.cuModuleGetGlobal(module, symbol.encode())
        if status == cuda.CUresult.CUDA_ERROR_NOT_FOUND:
            continue  # another file of the same step
        ask((status,), f"cannot find {symbol}")
        weight = weights[name]
        if size != weight.nbytes:
            raise ValueError(f"{symbol} has {size} bytes, and {name} {weight.nbytes}")
        ask(cuda.cuMemcpyDtoD(pointer, weight.data_ptr(), size), f"cannot fill {symbol}")
