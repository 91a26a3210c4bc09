"""Bind one call of a kernel: find axis values, types and attributes from its inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.attributes import attribute_sizes, chosen_values
from lenet_trt.kernel.call_types import element_sizes, types_error, types_of_call
from lenet_trt.kernel.dims import AxisValue, Condition, as_dim
from lenet_trt.kernel.layouts import LAYOUTS
from lenet_trt.kernel.shapes import UNKNOWN, Shape, check_requirements, evaluated_shape, solved_axes
from lenet_trt.kernel.tensor_maps import SpecializedMap, specialized_map
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.options import GIVE_SIZES

if TYPE_CHECKING:
    from lenet_trt.kernel.attributes import AttributeValue
    from lenet_trt.kernel.choice import TunedChoice
    from lenet_trt.kernel.declaration import Kernel
    from lenet_trt.kernel.tensors import Types
    from lenet_trt.kernel.variants import Launch, Variant

# Sources hold a size that is compiled in as an int, and count up to a stride of a block beyond it.
MOST_COMPILED_IN = 2**30
_NO_SIZES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Specialized:
    """Hold a kernel with everything that is fixed when it is compiled; runtime axes are still open."""

    kernel: Kernel
    types: Types
    static_axes: tuple[tuple[str, int], ...]
    attributes: tuple[tuple[str, AttributeValue], ...]

    @cached_property
    def macros(self) -> tuple[str, ...]:
        """Return the macros with which the source is compiled, as NAME=VALUE."""
        types = (
            f"TYPE_{name.upper()}={ELEMENT_TYPES[dtype].cuda_name}" for name, dtype in self.types.variables.items()
        )
        axes = (f"AXIS_{name.upper()}={value}" for name, value in self.static_axes)
        declared = {attribute.name: attribute for attribute in self.kernel.attributes}
        attributes = (f"ATTR_{name.upper()}={declared[name].macro(value)}" for name, value in self.attributes)
        return (*types, *axes, *attributes)

    @cached_property
    def known_sizes(self) -> Mapping[str, int]:
        """Return the static axes, the integer attributes and the element sizes, by the names of ``Dim``."""
        named = attribute_sizes(self.kernel, dict(self.attributes))
        return {**dict(self.static_axes), **named, **element_sizes(self.types)}

    @property
    def known_output_shapes(self) -> tuple[Shape, ...]:
        """Return the shapes of the outputs; -1 for sizes that a runtime axis decides."""
        sizes = self.known_sizes
        shapes = ([*map(as_dim, tensor.shape)] for tensor in self.kernel.outputs)
        return tuple(tuple(d.evaluate(sizes) if d.axes <= sizes.keys() else UNKNOWN for d in dims) for dims in shapes)

    @property
    def quantized(self) -> bool:
        """Say whether an input or output has a type that QuantizeLinear produces."""
        dtypes = self.types.of((*self.kernel.inputs, *self.kernel.outputs))
        return any(ELEMENT_TYPES[dtype].quantized for dtype in dtypes)

    def supports(self, variant: Variant, sm: int) -> bool:
        """Return whether the variant is for that architecture, with these types and sizes."""
        return variant.supports(sm, self.types, self.known_sizes)

    def launch(self, variant: Variant) -> Launch:
        """Return the variant's (first) launch as expressions of the runtime axes alone."""
        return variant.launch.substitute(self.known_sizes)

    def maps(self, variant: Variant) -> tuple[SpecializedMap, ...]:
        """Return the tensor maps of the variant's (first) launch.

        Raises:
            LenetTrtError: hardware copies no boxes of these sizes.
        """
        numbers = {tensor.name: index for index, tensor in enumerate(self.kernel.inputs)}
        dtypes = self.types.of(self.kernel.inputs)
        try:
            return tuple(
                specialized_map(each, numbers[each.tensor], dtypes[numbers[each.tensor]])
                for each in self.launch(variant).maps
            )
        except LenetTrtError as error:
            raise LenetTrtError(f"{self.kernel.name} {variant.name}: {error}") from None


@dataclass(frozen=True, eq=False)
class Bound:
    """Hold one call: a specialized kernel and the value of every axis."""

    specialized: Specialized
    axes: Mapping[str, int]
    input_shapes: tuple[Shape, ...]
    output_shapes: tuple[Shape, ...]

    @property
    def kernel(self) -> Kernel:
        return self.specialized.kernel

    @property
    def types(self) -> Types:
        return self.specialized.types

    @property
    def attributes(self) -> dict[str, AttributeValue]:
        return dict(self.specialized.attributes)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Return the value of everything that a ``Dim`` of the declaration may name, except the multiprocessors."""
        return {**self.specialized.known_sizes, **self.axes}

    @property
    def stored_input_shapes(self) -> tuple[Shape, ...]:
        """Return the sizes of the memory of each input, which differ from its shape where its layout does."""
        tensors = self.kernel.inputs
        return tuple(LAYOUTS[t.layout].stored_shape(s) for t, s in zip(tensors, self.input_shapes, strict=True))

    @property
    def stored_output_shapes(self) -> tuple[Shape, ...]:
        """Return the sizes of the memory of each output."""
        tensors = self.kernel.outputs
        return tuple(LAYOUTS[t.layout].stored_shape(s) for t, s in zip(tensors, self.output_shapes, strict=True))

    @property
    def input_dtypes(self) -> tuple[str, ...]:
        return self.types.of(self.kernel.inputs)

    @property
    def output_dtypes(self) -> tuple[str, ...]:
        return self.types.of(self.kernel.outputs)

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to compute, so that nothing is launched."""
        return all(0 in shape for shape in self.output_shapes)

    @property
    def flops(self) -> int:
        """Return the number of operations of the math."""
        return as_dim(self.kernel.flops).evaluate(self.sizes)

    @property
    def dram_bytes(self) -> int:
        """Return the bytes that must move: each input read once, each output written once."""
        shapes = (*self.stored_input_shapes, *self.stored_output_shapes)
        dtypes = (*self.input_dtypes, *self.output_dtypes)
        return sum(
            math.prod(shape) * ELEMENT_TYPES[dtype].size_bytes for shape, dtype in zip(shapes, dtypes, strict=True)
        )

    def check_size(self) -> None:
        """Refuse tensors that are larger than the kernel can index.

        Raises:
            LenetTrtError: a tensor has more than ``Kernel.max_elements`` elements.
        """
        kernel = self.kernel
        tensors = (*kernel.inputs, *kernel.outputs)
        for tensor, shape in zip(tensors, (*self.stored_input_shapes, *self.stored_output_shapes), strict=True):
            if math.prod(shape) > kernel.max_elements:
                raise LenetTrtError(
                    f"{tensor.name} has {math.prod(shape)} elements; {kernel.name} takes at most "
                    f"{kernel.max_elements} a tensor: split the batch"
                )

    def fits(self, variant: Variant) -> bool:
        """Return whether the variant can run these sizes."""
        return self._holds(variant.when)

    def prefers(self, variant: Variant, gpu: Mapping[str, int] = _NO_SIZES) -> bool:
        """Return whether the variant is preferred for these sizes; of several, the first declared one runs.

        ``gpu``: the sizes of the GPU, which a declaration may name (``MULTIPROCESSORS``).
        """
        return self._holds(variant.prefer, gpu)

    def _holds(self, condition: Condition | None, gpu: Mapping[str, int] = _NO_SIZES) -> bool:
        return condition is None or condition.evaluate({**self.sizes, **gpu} if gpu else self.sizes)

    def workspace_bytes(self, variant: Variant) -> int:
        """Return how much workspace the variant needs for these sizes."""
        return as_dim(variant.workspace).evaluate(self.sizes)

    def runnable(self, sm: int) -> tuple[Variant, ...]:
        """Return the variants that can run the call on that architecture."""
        return tuple(v for v in self.kernel.variants if self.specialized.supports(v, sm) and self.fits(v))

    def variant(self, sm: int, gpu: Mapping[str, int] = _NO_SIZES, tuned: Sequence[TunedChoice] = ()) -> Variant:
        """Return the variant that runs this call on that architecture.

        That is the first tuned choice for these sizes whose variant can run the call; without one, the first declared
        variant that can run it and is preferred for it. ``gpu``: the sizes of the GPU (see ``prefers``).

        Raises:
            LenetTrtError: the architecture is older than every variant.
        """
        usable = {v.name: v for v in self.runnable(sm)}
        for choice in tuned:
            is_for = choice.variant in usable and choice.is_for(self.types.name, self.attributes)
            if is_for and choice.condition.evaluate(self.sizes):
                return usable[choice.variant]
        for variant in usable.values():
            if self.prefers(variant, gpu):
                return variant
        oldest = min(variant.min_sm for variant in self.kernel.variants)
        raise LenetTrtError(f"{self.kernel.name} has no variant for sm_{sm}; it needs sm_{oldest} or newer")


def specialize(
    kernel: Kernel,
    input_shapes: Sequence[Shape],
    input_dtypes: Sequence[str],
    attributes: Mapping[str, AttributeValue],
) -> Specialized:
    """Fix everything that is compiled in: static axes, types and attributes.

    Shapes: one for each input; -1 is allowed where a runtime axis is not known yet.

    Raises:
        LenetTrtError: the inputs do not fit the declaration.
    """
    values = chosen_values(kernel, attributes)
    named = attribute_sizes(kernel, values)
    axes = solved_axes(kernel, kernel.inputs, [tuple(shape) for shape in input_shapes], named)
    types = types_of_call(kernel, input_dtypes)
    for name in kernel.static_axes:
        if axes.get(name, UNKNOWN) < 1:
            known = axes.get(name, UNKNOWN) != UNKNOWN
            raise LenetTrtError(
                f"{kernel.name} compiles in the size of axis {name}; it must be known and >= 1, "
                f"and is {axes[name] if known else 'unknown'}: {'give the input a size there' if known else GIVE_SIZES}"
            )
        if axes[name] > MOST_COMPILED_IN:
            raise LenetTrtError(
                f"{kernel.name} compiles in the size of axis {name}; it is {axes[name]}, and can be at most "
                f"{MOST_COMPILED_IN}: leave this layer to TensorRT"
            )
    check_requirements(kernel, {**named, **axes})
    return Specialized(
        kernel,
        types,
        tuple((name, axes[name]) for name in kernel.static_axes),
        tuple(values.items()),
    )


def check_plain_weights(
    kernel: Kernel,
    shapes: Sequence[Shape],
    dtypes: Sequence[str],
    attributes: Mapping[str, AttributeValue],
) -> None:
    """Check what ``Packing.pack`` is to rearrange, the weights as ONNX has them, before it does.

    Raises:
        LenetTrtError: the kernel is not declared for weights of these shapes or types.
    """
    plain = () if kernel.packing is None else kernel.packing.plain
    if not any(types.of(plain) == tuple(dtypes) for types in kernel.types):
        raise types_error(kernel, "weights", plain, dtypes)
    named = attribute_sizes(kernel, chosen_values(kernel, attributes))
    check_requirements(kernel, {**named, **solved_axes(kernel, plain, shapes, named)})


def bind(
    kernel: Kernel,
    input_shapes: Sequence[Shape],
    input_dtypes: Sequence[str],
    attributes: Mapping[str, AttributeValue],
) -> Bound:
    """Fix everything that one call needs.

    Raises:
        LenetTrtError: the inputs do not fit the declaration, or the kernel is not for their sizes.
    """
    shapes = tuple(tuple(shape) for shape in input_shapes)
    specialized = specialize(kernel, shapes, input_dtypes, attributes)
    named = attribute_sizes(kernel, dict(specialized.attributes))
    axes = solved_axes(kernel, kernel.inputs, shapes, named)
    open_axes = [axis.name for axis in kernel.axes if axis.name not in axes]
    if open_axes:
        raise LenetTrtError(f"{kernel.name}: the size of axis {', '.join(open_axes)} is unknown")
    outputs = tuple(evaluated_shape(kernel, tensor, {**named, **axes}) for tensor in kernel.outputs)
    return Bound(specialized, axes, shapes, outputs)


def largest_workspace(
    kernel: Kernel,
    largest_shapes: Sequence[Shape],
    input_dtypes: Sequence[str],
    attributes: Mapping[str, AttributeValue],
) -> int:
    """Return the workspace, in bytes, that suffices for every call with inputs of these shapes or smaller ones.

    Raises:
        LenetTrtError: the kernel is not declared for these types.
    """
    types = types_of_call(kernel, input_dtypes)
    known = {**attribute_sizes(kernel, chosen_values(kernel, attributes)), **element_sizes(types)}
    most: dict[str, int] = {}
    for tensor, shape in zip(kernel.inputs, largest_shapes, strict=True):
        for declared, size in zip(tensor.shape, shape, strict=True):
            if isinstance(declared, AxisValue):
                most[declared.name] = max(most.get(declared.name, 0), size)
    fixed = {**known, **{name: size for name, size in most.items() if name in kernel.static_axes}}

    def may_run(variant: Variant) -> bool:
        """Return whether types and static sizes leave it possible."""
        possible = variant.when is None or variant.when.decided(fixed) is not False
        return possible and (variant.types is None or types.name in variant.types)

    used = filter(may_run, kernel.variants)
    return max((as_dim(variant.workspace).substitute(known).largest(most) for variant in used), default=0)
