"""Offer kernels as torch operators, ``torch.ops.lenet_trt.<name>``: for tests, the graph runtime and users of torch.

Each has a fake, so that it works under ``torch.compile``, and can be captured in a CUDA graph. The operators are for
inference: they have no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from lenet_trt.cuda.launch import prepare
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.attributes import AttributeValue
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.layouts import LAYOUTS, MemoryLayout
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.registry import kernel as kernel_named
from lenet_trt.kernel.shapes import Shape

_MAX_PREPARED = 4096


@cache
def op(name: str) -> Callable[..., Any]:
    """Return the operator of a kernel, defined on first use: inputs in declared order, attributes as keywords.

    Inputs that are not contiguous or not aligned are first copied. Those of a kernel with layouts of TensorRT, which
    torch's tensors do not have, are copied into them, and its outputs back.

    Raises:
        LenetTrtError: there is no such kernel.
    """
    kernel = kernel_named(name)
    library = _library()
    library.define(_schema(kernel), tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, _cuda_implementation(kernel), "CUDA")
    library.impl(name, _cpu_implementation(kernel), "CPU")
    torch.library.register_fake(f"{DOMAIN}::{name}", _fake(kernel), lib=library)
    overload: Callable[..., Any] = getattr(getattr(torch.ops, DOMAIN), name).default
    return overload


@cache
def _library() -> Any:
    library: Any = torch.library.Library  # torch leaves its methods untyped
    return library(DOMAIN, "FRAGMENT")


def _schema(kernel: Kernel) -> str:
    arguments = [f"Tensor {tensor.name}" for tensor in kernel.inputs]
    if kernel.attributes:
        arguments.append("*")
    for attribute in kernel.attributes:
        default = attribute.examples[0]
        kind, text = ("str", f'"{default}"') if isinstance(default, str) else (attribute.type_name, str(default))
        arguments.append(f"{kind} {attribute.name}={text}")
    outputs = ", ".join(["Tensor"] * len(kernel.outputs))
    returns = outputs if len(kernel.outputs) == 1 else f"({outputs})"
    return f"{kernel.name}({', '.join(arguments)}) -> {returns}"


def _bind(kernel: Kernel, tensors: tuple[torch.Tensor, ...], attributes: dict[str, AttributeValue]) -> Bound:
    dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
    return kernel.bind([tuple(tensor.shape) for tensor in tensors], dtypes, attributes)


def _result(outputs: list[torch.Tensor]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _fake(kernel: Kernel) -> Callable[..., Any]:
    def fake(*tensors: torch.Tensor, **attributes: AttributeValue) -> Any:
        bound = _bind(kernel, tensors, attributes)
        return _result(
            [
                tensors[0].new_empty(shape, dtype=getattr(torch, dtype))
                for shape, dtype in zip(bound.output_shapes, bound.output_dtypes, strict=True)
            ]
        )

    return fake


def _cpu_implementation(kernel: Kernel) -> Callable[..., Any]:
    def refuse(*tensors: torch.Tensor, **attributes: AttributeValue) -> Any:
        raise LenetTrtError(f"{kernel.name} runs on CUDA tensors; these are on the CPU: move them with .cuda()")

    return refuse


def _cuda_implementation(kernel: Kernel) -> Callable[..., Any]:
    mask = kernel.alignment - 1
    is_linear = kernel.is_linear
    prepared: dict[Any, Any] = {}

    def prepare_call(key: Any, tensors: tuple[torch.Tensor, ...], attributes: dict[str, AttributeValue]) -> Any:
        device = tensors[0].device
        for tensor, declared in zip(tensors, kernel.inputs, strict=True):
            if tensor.device != device:
                raise LenetTrtError(f"{kernel.name}: {declared.name} is on {tensor.device}, not on {device}")
        bound = _bind(kernel, tensors, attributes)
        outputs = [
            (shape, getattr(torch, dtype))
            for shape, dtype in zip(bound.stored_output_shapes, bound.output_dtypes, strict=True)
        ]
        if len(prepared) >= _MAX_PREPARED:  # changing sizes must not fill the memory
            prepared.clear()
        launcher = prepare(bound)
        workspace = [((launcher.workspace_bytes,), torch.uint8)] if launcher.workspace_bytes else []
        entry = prepared[key] = (launcher, [*outputs, *workspace], device)
        return entry

    def run(*tensors: torch.Tensor, **attributes: AttributeValue) -> Any:
        index = tensors[0].get_device()
        if index != torch.cuda.current_device():
            with torch.cuda.device(index):
                return run(*tensors, **attributes)
        key = (index, *[(t.shape, t.dtype, t.get_device()) for t in tensors], *attributes.items())
        entry = prepared.get(key) or prepare_call(key, tensors, attributes)
        launcher, specs, device = entry
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in specs]  # outputs, then the workspace
        if not is_linear:
            tensors = tuple(stored(t, LAYOUTS[d.layout]) for t, d in zip(tensors, kernel.inputs, strict=True))
        dense = [t if t.is_contiguous() and not t.data_ptr() & mask else _aligned(t, mask) for t in tensors]
        # The raw handle, which torch's compiled code uses too; current_stream() takes longer than the checks.
        launcher([t.data_ptr() for t in (*dense, *made)], torch._C._cuda_getCurrentRawStream(index))
        results = made[: len(kernel.outputs)]
        if not is_linear:
            shapes = launcher.bound.output_shapes
            results = [
                loaded(t, LAYOUTS[d.layout], shape) for t, d, shape in zip(results, kernel.outputs, shapes, strict=True)
            ]
        return _result(results)

    return run


def stored(tensor: torch.Tensor, layout: MemoryLayout) -> torch.Tensor:
    """Return the tensor as it lies in memory in a layout: a view where torch has it so already."""
    if not layout.pack:
        return tensor
    channels, height, width = tensor.shape[-3:]
    missing = -channels % layout.pack
    padded = torch.nn.functional.pad(tensor, (0, 0, 0, 0, 0, missing)) if missing else tensor
    if not layout.packs_last:
        packs = -(-channels // layout.pack)
        padded = padded.reshape(*tensor.shape[:-3], packs, layout.pack, height, width)
    return padded.movedim(-3, -1).contiguous()


def viewed(memory: torch.Tensor, layout: MemoryLayout, shape: Shape) -> torch.Tensor:
    """Return the tensor of that shape that lies so in memory: a view, unless each pack has planes of its own."""
    if not layout.pack:
        return memory
    padded = -(-shape[-3] // layout.pack) * layout.pack
    whole = memory.movedim(-1, -3).reshape(*shape[:-3], padded, *shape[-2:])
    return whole[..., : shape[-3], :, :]


def loaded(memory: torch.Tensor, layout: MemoryLayout, shape: Shape) -> torch.Tensor:
    """Return the tensor of that shape, dense, that lies so in memory."""
    return viewed(memory, layout, shape).contiguous()


def _aligned(tensor: torch.Tensor, mask: int) -> torch.Tensor:
    """Return a dense, aligned copy, or the tensor itself where only strides of axes of size 1 are unusual."""
    dense = tensor.contiguous()
    return dense.clone() if dense.data_ptr() & mask else dense
