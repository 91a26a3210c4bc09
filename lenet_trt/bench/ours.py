"""Make contenders from a kernel's declaration: each variant that can run the call, and the one that it picks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch

from lenet_trt.bench.gains import PRODUCT
from lenet_trt.bench.workload import Contender, Inputs, Mode, TorchCall
from lenet_trt.cuda.driver import current_context
from lenet_trt.cuda.launch import prepare
from lenet_trt.cuda.tuned import variant_for
from lenet_trt.errors import LenetTrtError
from lenet_trt.floors.floor import Work
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.functions import call_declared
from lenet_trt.kernel.layouts import LAYOUTS, LINEAR
from lenet_trt.kernel.shapes import Shape
from lenet_trt.kernel.tensors import Types
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.kernel.variants import Variant
from lenet_trt.runtimes.graph.torch_op import stored, viewed


def types_of(kernel: Kernel, **variables: str) -> Types:
    """Return the kernel's types in which these type variables have these element types.

    Raises:
        LenetTrtError: the kernel is not declared for these element types.
    """
    for types in kernel.types:
        if all(types.variables.get(name) == dtype for name, dtype in variables.items()):
            return types
    raise LenetTrtError(f"{kernel.name} is not declared for {variables}")


def call_work(bound: Bound) -> Work:
    """Return the bytes and operations of a call, from the declaration."""
    return Work(
        _bytes(bound.input_shapes, bound.input_dtypes), _bytes(bound.output_shapes, bound.output_dtypes), bound.flops
    )


def contenders(bound: Bound, weights: Mapping[str, torch.Tensor], modes: tuple[Mode, ...]) -> list[Contender]:
    """Make a contender for each variant that can run the call, and ``product``: the one that is chosen, timed again.

    ``weights`` are the constant inputs by name, as torch has them; the call's inputs are the others, in order.
    """
    context = current_context()
    placed = _placed(bound, weights)
    chosen = variant_for(bound, context)
    made = [_contender(variant.name, bound, variant, placed, modes) for variant in bound.runnable(context.sm)]
    return [_contender(PRODUCT, bound, chosen, placed, modes), *made]


def _contender(
    name: str, bound: Bound, variant: Variant, placed: Mapping[str, torch.Tensor], modes: tuple[Mode, ...]
) -> Contender:
    return Contender(name, True, launcher(bound, variant, placed), modes, {"variant": variant.name})


def launcher(bound: Bound, variant: Variant, placed: Mapping[str, torch.Tensor]) -> Callable[[Inputs], TorchCall]:
    """Return a function that prepares a variant for an input set; each set has its own outputs, as in a peer's graph.

    The call gives the first output.
    """
    kernel = bound.kernel
    for tensor in (*kernel.inputs, *kernel.outputs):
        if not (tensor.layout == LINEAR or LAYOUTS[tensor.layout].packs_last):
            raise LenetTrtError(
                f"{kernel.name}: {tensor.name} has the layout {tensor.layout}, which torch's tensors cannot have: time "
                "it in an engine (lenet-trt bench engines)"
            )

    def ready(inputs: Inputs) -> TorchCall:
        outputs = [
            torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")
            for shape, dtype in zip(bound.stored_output_shapes, bound.output_dtypes, strict=True)
        ]
        first = viewed(outputs[0], LAYOUTS[kernel.outputs[0].layout], bound.output_shapes[0])
        launch = prepare(bound, variant)
        given = iter(inputs)
        tensors = [
            placed[t.name] if t.name in placed else stored(next(given), LAYOUTS[t.layout]) for t in kernel.inputs
        ]
        workspace = [torch.empty(launch.workspace_bytes, dtype=torch.uint8, device="cuda")] * bool(
            launch.workspace_bytes
        )
        pointers = [tensor.data_ptr() for tensor in (*tensors, *outputs, *workspace)]
        stream = torch.cuda.current_stream().cuda_stream

        def call(keep: Sequence[torch.Tensor] = (*tensors, *outputs, *workspace)) -> torch.Tensor:
            launch(pointers, stream)
            return first

        return call

    return ready


def _placed(bound: Bound, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Put the weights on the GPU, in the call's types and packed as the kernel needs them."""
    kernel = bound.kernel
    dtypes = {t.name: getattr(torch, bound.types.resolve(t.dtype)) for t in (*kernel.inputs, *kernel.plain_inputs)}
    if kernel.packing is None:
        return {name: tensor.to("cuda", dtypes[name]).contiguous() for name, tensor in weights.items()}
    plain = {name: w.cpu().to(dtypes[name]).numpy() for name, w in weights.items()}
    packed = call_declared(kernel.name, "pack", kernel.packing.pack, plain)
    return {name: torch.from_numpy(array).cuda() for name, array in packed.items()}


def _bytes(shapes: Sequence[Shape], dtypes: Sequence[str]) -> int:
    return sum(math.prod(shape) * ELEMENT_TYPES[dtype].size_bytes for shape, dtype in zip(shapes, dtypes, strict=True))
