"""Declare what a kernel reads and writes: its axes, tensors, combinations of types, and how weights are packed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lenet_trt.kernel.dims import DimLike
from lenet_trt.kernel.layouts import LINEAR

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Axis:
    """Declare a named size; a static one is compiled in (macro ``AXIS_<NAME>``), others may differ in each call."""

    name: str
    doc: str
    static: bool = False


@dataclass(frozen=True)
class Tensor:
    """Declare an input or output: dense, last axis fastest, unless ``layout`` says another order (``kernel.layouts``).

    ``dtype`` is an element type ("float32") or a type variable ("T", macro ``TYPE_T``). A weight
    is constant in a network; the fuse step may rearrange it once. ``positive``: the smallest and largest number that
    checks draw for it, as for the scales of quantized tensors (True: 0.05 and 0.2). ``part``: the attribute that says
    which part of the tensor the kernel reads, where the axis before the last one counts parts. What a network slices
    into equal parts is then read where it lies.
    """

    name: str
    shape: tuple[DimLike, ...]
    dtype: str
    doc: str
    weight: bool = False
    positive: bool | tuple[float, float] = False
    layout: str = LINEAR
    part: str = ""


@dataclass(frozen=True, eq=False)
class Types:
    """Declare one combination of element types, and the error that the kernel may have with it.

    ``tolerance`` is the upper bound of norm(output - reference) / norm(reference), the reference in float64.
    """

    name: str
    variables: Mapping[str, str]
    tolerance: float

    def resolve(self, dtype: str) -> str:
        """Return the element type for a tensor's ``dtype``."""
        return self.variables.get(dtype, dtype)

    def of(self, tensors: Iterable[Tensor]) -> tuple[str, ...]:
        """Return the element types of several tensors."""
        return tuple(self.resolve(tensor.dtype) for tensor in tensors)


def float_types(fp32: float = 1e-6, fp16: float = 1e-3, bf16: float = 8e-3) -> tuple[Types, ...]:
    """Return the three float types for the variable T, each with this tolerance: of sums in float32, rounded once."""
    tolerances = {"fp32": ("float32", fp32), "fp16": ("float16", fp16), "bf16": ("bfloat16", bf16)}
    return tuple(Types(name, {"T": dtype}, tolerance) for name, (dtype, tolerance) in tolerances.items())


@dataclass(frozen=True)
class Packing:
    """Declare how weights are rearranged, once, when a plugin replaces ONNX nodes.

    ``plain`` are the weights as ONNX has them, in the order in which ``Kernel.reference`` takes
    them after the other inputs. ``pack`` maps plain arrays by name to the kernel's weights by
    name. ``unpack`` writes the ONNX nodes that undo it (see ``lenet_trt.pattern``); they may read
    the shapes of the kernel's other inputs, by their names.
    """

    plain: tuple[Tensor, ...]
    pack: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
    unpack: Callable[..., Any]
