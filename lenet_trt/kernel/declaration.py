"""Define the declaration of a kernel, from which every route, check and listing is derived."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.attributes import AnyAttribute, AttributeValue, attribute_sizes, chosen_values
from lenet_trt.kernel.bind import Bound, Shape, Specialized, bind, specialize
from lenet_trt.kernel.dims import MULTIPROCESSORS, AxisValue, Condition, Constant, Dim, DimLike, as_dim
from lenet_trt.kernel.layouts import LAYOUTS, LEAST_RANK, LINEAR
from lenet_trt.kernel.types import ELEMENT_TYPES

if TYPE_CHECKING:
    import numpy as np

OLDEST_SM = 75
MAX_BLOCK_THREADS = 1024
INT32_MAX = 2**31 - 1
# Dynamic shared memory that a block may have on each architecture, in KiB. On one that is not named it is taken to be
# the least that any has had since sm_80. Source: CUDA C++ Programming Guide 13.0, technical specifications.
_SHARED_KIB = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}
_LEAST_SHARED_KIB = 99


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
    checks draw for it, as for the scales of quantized tensors (True: 0.05 and 0.2).
    """

    name: str
    shape: tuple[DimLike, ...]
    dtype: str
    doc: str
    weight: bool = False
    positive: bool | tuple[float, float] = False
    layout: str = LINEAR


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


@dataclass(frozen=True)
class Launch:
    """Declare a launch of a call.

    ``extras`` are the int32 arguments between inputs and outputs, in order. Sizes may use
    ``size_of("T")`` and ``MULTIPROCESSORS``. ``shared_bytes`` is the dynamic shared memory only.
    ``workspace``: the address of the variant's workspace is its last argument, after the outputs.
    ``entry`` and ``source`` are those of the variant, where the launch does not say its own.
    """

    grid: tuple[DimLike, DimLike, DimLike]
    block: tuple[int, int, int]
    extras: tuple[DimLike, ...]
    shared_bytes: DimLike = 0
    workspace: bool = False
    entry: str | None = None
    source: str | None = None

    def substitute(self, values: Mapping[str, int]) -> Launch:
        """Return the same launch with some axes known."""
        x, y, z = (as_dim(size).substitute(values) for size in self.grid)
        extras = tuple(as_dim(extra).substitute(values) for extra in self.extras)
        return replace(self, grid=(x, y, z), extras=extras, shared_bytes=as_dim(self.shared_bytes).substitute(values))

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Return every expression of the launch: grid, shared memory, extras."""
        return tuple(as_dim(value) for value in (*self.grid, self.shared_bytes, *self.extras))


@dataclass(frozen=True)
class Variant:
    """Declare one implementation; the first one that can run a call and is preferred for it is used.

    It can run where the GPU is at least ``min_sm`` (with ``only_sm``: exactly that, since it is compiled with
    instructions that no other architecture has, as ``sm_90a``) and has the shared memory that it always needs,
    ``types`` (names; None: all) has the call's types, and ``when`` holds. ``prefer`` holds for the sizes at which it
    was the fastest (None: all). ``entry`` is the ``__global__`` name, by default ``<kernel>_<variant>``.
    ``stores_once``: it stores each element of its outputs once, so that a host that looks at them sees no other value.

    ``then`` are further launches of the same call, in order after ``launch``; the entry of the first of them is by
    default ``<kernel>_<variant>_2``. Each has the same arguments. ``workspace`` is the number of bytes of memory that
    a call needs between and in its launches; its content is undefined before the first. It may not depend on
    ``MULTIPROCESSORS``, since an engine fixes it for every GPU.
    """

    name: str
    launch: Launch
    note: str
    source: str = "kernel.cu"
    entry: str | None = None
    min_sm: int = OLDEST_SM
    only_sm: bool = False
    types: tuple[str, ...] | None = None
    when: Condition | None = None
    prefer: Condition | None = None
    stores_once: bool = False
    then: tuple[Launch, ...] = ()
    workspace: DimLike = 0

    @cached_property
    def parts(self) -> tuple[Variant, ...]:
        """Return a variant of one launch for each launch of a call, in order: each compiles as one."""
        return tuple(
            replace(
                self,
                name=self.name if index == 1 else f"{self.name}_{index}",
                launch=launch,
                source=launch.source or self.source,
                entry=launch.entry or (self.entry if index == 1 else None),
                then=(),
            )
            for index, launch in enumerate((self.launch, *self.then), 1)
        )

    @property
    def is_one_launch(self) -> bool:
        """Return whether a call is one launch that needs no workspace, as some routes want it."""
        return not self.then and not self.launch.workspace

    @property
    def takes_any_size(self) -> bool:
        """Return whether it runs every size and is preferred for every size that no earlier variant takes."""
        return self.when is None and self.prefer is None

    def runs_on(self, sm: int) -> bool:
        """Return whether that architecture has the instructions that the variant uses."""
        return sm == self.min_sm if self.only_sm else sm >= self.min_sm

    def supports(self, sm: int, types: Types) -> bool:
        """Return whether it is for that architecture and those types, for any sizes."""
        if not self.runs_on(sm) or (self.types is not None and types.name not in self.types):
            return False
        wanted = [as_dim(part.launch.shared_bytes) for part in self.parts]
        limit = 1024 * _SHARED_KIB.get(sm, _LEAST_SHARED_KIB)
        return all(shared.value <= limit for shared in wanted if isinstance(shared, Constant))


@dataclass(frozen=True)
class Packing:
    """Declare how weights are rearranged, once, when a plugin replaces ONNX nodes.

    ``plain`` are the weights as ONNX has them, in the order in which ``Kernel.reference`` takes
    them after the other inputs. ``pack`` maps plain arrays by name to the kernel's weights by
    name. ``unpack`` writes the ONNX nodes that undo it (see ``lenet_trt.pattern``).
    """

    plain: tuple[Tensor, ...]
    pack: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
    unpack: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Kernel:
    """Declare a CUDA kernel with everything that is known of it.

    ``reference`` computes the outputs in float64 from the plain inputs (see ``Packing``), with
    attributes as keywords. ``requires`` is the condition on its sizes. ``flops`` counts the
    operations that the math asks for. ``examples`` are axis values to check with: batch 1, odd
    sizes and large ones; an example may give attributes too, and is checked with every example
    of the others. Tensors of more than ``max_elements`` elements are refused. An integer
    attribute is a size too: shapes, launches and conditions name it like an axis. ``resident``: a
    form of the kernel that stays on the GPU and takes one request after the other from the host's
    memory; no ordinary call uses it. ``by_name``: it is used only where it is named, since no GPU
    has run it in this form.

    Raises:
        LenetTrtError: a field contradicts another one, or names something that does not exist.
    """

    name: str
    doc: str
    axes: tuple[Axis, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    types: tuple[Types, ...]
    variants: tuple[Variant, ...]
    reference: Callable[..., np.ndarray | tuple[np.ndarray, ...]]
    examples: tuple[Mapping[str, Any], ...]
    flops: DimLike
    source_dir: Path
    attributes: tuple[AnyAttribute, ...] = ()
    requires: Condition | None = None
    packing: Packing | None = None
    resident: Variant | None = None
    patterns: tuple[Any, ...] = field(default=(), repr=False)
    alignment: int = 16
    max_elements: int = INT32_MAX
    version: str = "1"
    by_name: bool = False

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise LenetTrtError(f"kernel {self.name}: " + "; ".join(problems))

    @property
    def static_axes(self) -> tuple[str, ...]:
        """Return the names of the axes that are compiled in, in declared order."""
        return tuple(axis.name for axis in self.axes if axis.static)

    @property
    def plain_inputs(self) -> tuple[Tensor, ...]:
        """Return the inputs as ONNX and ``reference`` have them, with weights not packed."""
        if self.packing is None:
            return self.inputs
        return tuple(t for t in self.inputs if not t.weight) + self.packing.plain

    def entry(self, variant: Variant) -> str:
        """Return the name of the variant's ``__global__`` function."""
        return variant.entry or f"{self.name}_{variant.name}"

    def variant(self, name: str) -> Variant:
        """Return the variant of that name."""
        return _named(self.variants, name, f"{self.name} has no variant")

    def types_named(self, name: str) -> Types:
        """Return the combination of types of that name."""
        return _named(self.types, name, f"{self.name} has no types")

    def variants_for(self, sm: int, types: Types) -> tuple[Variant, ...]:
        """Return the variants that an architecture can run with those types, in declared order."""
        return tuple(v for v in self.variants if v.supports(sm, types))

    @property
    def is_linear(self) -> bool:
        """Return whether every tensor has the layout that other programs give and take."""
        return all(tensor.layout == LINEAR for tensor in (*self.inputs, *self.outputs))

    def takes(self, axes: Mapping[str, Any], attributes: Mapping[str, AttributeValue]) -> bool:
        """Return whether ``requires`` allows these attributes with these axis values (see ``bind_axes``)."""
        named = attribute_sizes(self, chosen_values(self, self._with_attributes_of(axes, attributes)))
        if self.requires is None or not self.requires.axes & named.keys():
            return True  # a kernel whose examples are refused for their sizes alone is declared wrong
        return self.requires.evaluate({**named, **axes})

    def specialize(
        self,
        input_shapes: Sequence[Shape],
        input_dtypes: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> Specialized:
        """Fix everything that is compiled in; sizes of runtime axes may be unknown (-1)."""
        return specialize(self, input_shapes, input_dtypes, attributes or {})

    def bind(
        self,
        input_shapes: Sequence[Shape],
        input_dtypes: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> Bound:
        """Fix everything that one call needs: all axes, types, attributes and output shapes."""
        return bind(self, input_shapes, input_dtypes, attributes or {})

    def bind_axes(
        self,
        axes: Mapping[str, Any],
        types: Types,
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> Bound:
        """Return the call for these axis values, as ``bind`` does for the shapes that they give.

        ``axes`` may be an example that gives attributes too; these come before ``attributes``.
        """
        values = self._with_attributes_of(axes, attributes or {})
        sizes = {**axes, **attribute_sizes(self, chosen_values(self, values))}
        shapes = [tuple(as_dim(d).evaluate(sizes) for d in t.shape) for t in self.inputs]
        return self.bind(shapes, types.of(self.inputs), values)

    def _with_attributes_of(
        self, example: Mapping[str, Any], attributes: Mapping[str, AttributeValue]
    ) -> dict[str, AttributeValue]:
        given = {attribute.name: example[attribute.name] for attribute in self.attributes if attribute.name in example}
        return {**attributes, **given}


Item = TypeVar("Item", Types, Variant)


def _named(items: Sequence[Item], name: str, problem: str) -> Item:
    for item in items:
        if item.name == name:
            return item
    known = ", ".join(item.name for item in items)
    raise LenetTrtError(f"{problem} {name!r}; it has {known}")


def _problems(kernel: Kernel) -> Iterator[str]:
    """Return everything that is wrong with a declaration, so that one error message lists it all."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", kernel.name):
        yield "name is not lower-case words joined by _"
    tensors = (*kernel.inputs, *kernel.outputs)
    yield from _duplicates("axes", kernel.axes)
    yield from _duplicates("inputs and outputs", tensors)
    yield from _duplicates("attributes", kernel.attributes)
    yield from _duplicates("types", kernel.types)
    yield from _duplicates("variants", kernel.variants)
    yield from _type_problems(kernel)
    yield from _layout_problems(kernel)
    axes = {axis.name for axis in kernel.axes}
    attribute_problems = [problem for attribute in kernel.attributes for problem in attribute.problems()]
    yield from attribute_problems
    sizes = axes | (set() if attribute_problems else set(attribute_sizes(kernel, chosen_values(kernel, {}))))
    for attribute in kernel.attributes:
        if attribute.name in axes:
            yield f"{attribute.name} is an axis and an attribute"
    for tensor in (*tensors, *(kernel.packing.plain if kernel.packing else ())):
        yield from _unknown(f"shape of {tensor.name}", tensor.shape, sizes)
    solvable = {d.name for t in kernel.inputs for d in t.shape if isinstance(d, AxisValue)}
    for name in sorted(axes - solvable):
        yield f"axis {name} is no input's size by itself, so no call can tell its value"
    yield from _unknown("flops", [kernel.flops], sizes)
    if kernel.requires is not None:
        yield from _unknown("requires", [kernel.requires], sizes)
    if not kernel.examples:
        yield "examples is empty"
    named_rightly = not attribute_problems and (kernel.requires is None or kernel.requires.axes <= sizes)
    for example in kernel.examples:
        if set(example) - {attribute.name for attribute in kernel.attributes} != axes:
            yield f"example {dict(example)} does not name exactly the axes {sorted(axes)}"
        elif named_rightly and not kernel.takes(example, {}):
            yield f"example {dict(example)} is not allowed with the first example of each attribute ({kernel.requires})"
    for variant in (*kernel.variants, *filter(None, [kernel.resident])):
        for problem in _variant_problems(kernel, variant, sizes):
            yield f"variant {variant.name}: {problem}"


def _type_problems(kernel: Kernel) -> Iterator[str]:
    if not kernel.types:
        yield "types is empty"
    storable = [name for name, element in ELEMENT_TYPES.items() if element.in_kernels]
    for types in kernel.types:
        if set(types.variables) != set(kernel.types[0].variables):
            yield f"types {types.name} and {kernel.types[0].name} name different variables"
        for tensor in (*kernel.inputs, *kernel.outputs):
            if types.resolve(tensor.dtype) not in storable:
                known = ", ".join(storable)
                yield f"{tensor.name} has dtype {tensor.dtype}, which is none of {known}"
        if not any(v.supports(OLDEST_SM, types) and v.takes_any_size for v in kernel.variants):
            yield (
                f"types {types.name} has no variant that runs any size on sm_{OLDEST_SM} and up "
                "(one without when and prefer)"
            )


def _layout_problems(kernel: Kernel) -> Iterator[str]:
    for tensor in (*kernel.inputs, *kernel.outputs, *(kernel.packing.plain if kernel.packing else ())):
        if tensor.layout == LINEAR:
            continue
        if tensor.layout not in LAYOUTS:
            yield f"{tensor.name} has the layout {tensor.layout}, which is none of {', '.join(LAYOUTS)}"
            continue
        if tensor.weight:
            yield f"{tensor.name} is a weight with the layout {tensor.layout}: pack it instead (Packing)"
        if len(tensor.shape) < LEAST_RANK:
            yield f"{tensor.name} has the layout {tensor.layout}, which takes {LEAST_RANK} axes or more"
        known = LAYOUTS[tensor.layout].dtypes
        for types in kernel.types:
            if types.resolve(tensor.dtype) not in known:
                yield (
                    f"{tensor.name} has the layout {tensor.layout} in {types.name}; TensorRT has it for "
                    f"{', '.join(known)} alone"
                )


def _variant_problems(kernel: Kernel, variant: Variant, sizes: set[str]) -> Iterator[str]:
    for part in variant.parts:
        if not (kernel.source_dir / part.source).is_file():
            yield f"there is no file {kernel.source_dir / part.source}"
        if any(not isinstance(size, int) or size < 1 for size in part.launch.block):
            yield f"block {part.launch.block} is not three integers >= 1"
        x, y, z = part.launch.block
        if x * y * z > MAX_BLOCK_THREADS:
            yield f"block has {x * y * z} threads, more than {MAX_BLOCK_THREADS}"
    asks = any(part.launch.workspace for part in variant.parts)
    if asks is (variant.workspace == 0):
        yield "no launch asks for its workspace" if not asks else "a launch asks for workspace, and it declares none"
    known = sizes | {f"sizeof_{name}" for types in kernel.types for name in types.variables}
    for part in variant.parts:
        yield from _unknown("launch", part.launch.dims, known | MULTIPROCESSORS.axes)
    yield from _unknown("workspace", [variant.workspace], known)
    for what, condition in (("when", variant.when), ("prefer", variant.prefer)):
        if condition is not None:
            yield from _unknown(what, [condition], known)
    for name in variant.types or ():
        if name not in {types.name for types in kernel.types}:
            yield f"types {name} is not declared"


def _duplicates(what: str, items: Sequence[Any]) -> Iterator[str]:
    names = [item.name for item in items]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{what} has {name} twice"


def _unknown(what: str, sizes: Iterable[DimLike | Condition], known: set[str]) -> Iterator[str]:
    for size in sizes:
        used = size.axes if isinstance(size, (Dim, Condition)) else frozenset()
        if used - known:
            yield f"{what} uses {', '.join(sorted(used - known))}, which is no axis and no integer attribute"
