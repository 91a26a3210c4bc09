"""Check a declaration: find everything in it that contradicts itself or names something that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lenet_trt.kernel.attributes import IntegerAttribute, attribute_sizes, chosen_values
from lenet_trt.kernel.dims import ARCHITECTURE, MODEL_AXES, MULTIPROCESSORS, AxisValue, Condition, Dim, DimLike
from lenet_trt.kernel.layouts import LAYOUTS, LEAST_RANK, LINEAR
from lenet_trt.kernel.tensor_maps import FIRST_SM, UNIT_BYTES
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.kernel.variants import MAX_BLOCK_THREADS, OLDEST_SM, Variant

if TYPE_CHECKING:
    from lenet_trt.kernel.declaration import Kernel


def declaration_problems(kernel: Kernel) -> Iterator[str]:
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
    yield from _part_problems(kernel)
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
    of_types = {f"sizeof_{name}" for t in kernel.types for name in t.variables}
    of_claims = sizes | of_types | ARCHITECTURE.axes | MODEL_AXES.axes
    yield from _unknown("claims", kernel.claims, of_claims)
    if kernel.in_groups is not None:
        yield from _unknown("in_groups", [kernel.in_groups], of_claims)
    if not kernel.examples:
        yield "examples is empty"
    named_rightly = not attribute_problems and (kernel.requires is None or kernel.requires.axes <= sizes)
    for example in kernel.examples:
        if set(example) - {attribute.name for attribute in kernel.attributes} != axes:
            yield f"example {dict(example)} does not name exactly the axes {sorted(axes)}"
        elif named_rightly and not kernel.takes(example, {}):
            yield f"example {dict(example)} is not allowed with the first example of each attribute ({kernel.requires})"
    if kernel.resident is not None and kernel.resident.launch.maps:
        yield f"variant {kernel.resident.name}: it stays on the GPU, and has tensor maps of one call"
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
        for variable, dtype in types.variables.items():
            if dtype not in storable:
                yield f"types {types.name}: {variable} is {dtype!r}, which is none of {', '.join(storable)}"
        for tensor in (*kernel.inputs, *kernel.outputs):
            if tensor.dtype not in types.variables and tensor.dtype not in storable:
                yield f"{tensor.name} has dtype {tensor.dtype}, which is none of {', '.join(storable)}"
        if not any(v.supports(OLDEST_SM, types) and v.takes_any_size for v in kernel.variants):
            yield (
                f"types {types.name} has no variant that runs any size on sm_{OLDEST_SM} and up "
                "(one without when and prefer)"
            )


def _part_problems(kernel: Kernel) -> Iterator[str]:
    integers = {attribute.name for attribute in kernel.attributes if isinstance(attribute, IntegerAttribute)}
    for tensor in kernel.inputs:
        if tensor.part and (tensor.part not in integers or len(tensor.shape) < 2):
            yield f"{tensor.name} has the part {tensor.part}; wanted an IntegerAttribute, and two axes or more"


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
        yield from _map_problems(kernel, part, known)
    yield from _unknown("workspace", [variant.workspace], known)
    if variant.when is not None:
        yield from _unknown("when", [variant.when], known)
    if variant.prefer is not None:
        yield from _unknown("prefer", [variant.prefer], known | MULTIPROCESSORS.axes)
    for name in variant.types or ():
        if name not in {types.name for types in kernel.types}:
            yield f"types {name} is not declared"


def _map_problems(kernel: Kernel, part: Variant, known: set[str]) -> Iterator[str]:
    if not part.launch.maps:
        return
    if part.min_sm < FIRST_SM:
        yield f"it has tensor maps, which sm_{FIRST_SM} is the first to have: min_sm={FIRST_SM}"
    if kernel.alignment % UNIT_BYTES:
        yield f"it has tensor maps, for which alignment has to be a multiple of {UNIT_BYTES}"
    compiled_in = known - {axis.name for axis in kernel.axes if not axis.static}
    for each in part.launch.maps:
        yield from each.problems([tensor.name for tensor in kernel.inputs])
        yield from _unknown("tensor map", each.shape, known)
        for size in each.box:
            if isinstance(size, Dim) and size.axes - compiled_in:
                yield f"the box of a tensor map is {size}, which is not compiled in (static axes)"


def _duplicates(what: str, items: Sequence[Any]) -> Iterator[str]:
    names = [item.name for item in items]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{what} has {name} twice"


def _unknown(what: str, sizes: Iterable[DimLike | Condition], known: set[str]) -> Iterator[str]:
    for size in sizes:
        used = size.axes if isinstance(size, (Dim, Condition)) else frozenset()
        if used - known:
            yield f"{what} uses {', '.join(sorted(used - known))}, which is no axis and no integer attribute"
