"""Define the declaration of a kernel, from which every route, check and listing is derived."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.attributes import AnyAttribute, AttributeValue, attribute_sizes, chosen_values
from lenet_trt.kernel.bind import Bound, Specialized, bind, specialize
from lenet_trt.kernel.dims import Condition, DimLike, as_dim
from lenet_trt.kernel.layouts import LINEAR
from lenet_trt.kernel.problems import declaration_problems
from lenet_trt.kernel.shapes import Shape
from lenet_trt.kernel.tensors import Axis, Packing, Tensor, Types
from lenet_trt.kernel.variants import Variant

if TYPE_CHECKING:
    import numpy as np

INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class BesidePlugins:
    """Say where a kernel replaces nodes at sizes that it does not claim: where they are next to other plugins.

    A plugin gives one of its inputs, or plugins alone read its first output; ``both``: both hold. ``sizes`` hold too.
    """

    both: bool = False
    sizes: Condition | None = None


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
    memory; no ordinary call uses it. ``by_name``: it is used only where it is named, since no
    engine with it was measured. ``claims``: sizes at which it was measured to be as fast as libraries are, or
    faster; where it is not named, it replaces nodes only if the sizes that are known make one of these
    conditions hold (none: wherever it fits). A claim, and ``in_groups``, may name ``ARCHITECTURE`` and
    ``MODEL_AXES``. ``beside_plugins``: where it also replaces nodes, since TensorRT's compiler has less to join
    there. ``in_groups``: sizes at which it also replaces nodes in a group of places that read each other's outputs,
    where few tensors are converted between TensorRT's layouts and the plugins'. ``joined_by``: ONNX operators that
    TensorRT joins with its own layer in front of them: before these the kernel replaces nothing unless it is named, or
    another kernel replaces the operator too.

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
    claims: tuple[Condition, ...] = ()
    packing: Packing | None = None
    resident: Variant | None = None
    patterns: tuple[Any, ...] = field(default=(), repr=False)
    alignment: int = 16
    max_elements: int = INT32_MAX
    version: str = "1"
    by_name: bool = False
    beside_plugins: BesidePlugins | None = None
    in_groups: Condition | None = None
    joined_by: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        problems = list(declaration_problems(self))
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
