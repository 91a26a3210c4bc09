"""Find which of a kernel's declared types a call has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.types import ELEMENT_TYPES

if TYPE_CHECKING:
    from lenet_trt.kernel.declaration import Kernel
    from lenet_trt.kernel.tensors import Tensor, Types


class OtherTypesError(LenetTrtError):
    """Report that a kernel is declared for none of the types that it was given."""


def types_of_call(kernel: Kernel, input_dtypes: Sequence[str]) -> Types:
    """Return the declared types for inputs of these element types.

    Raises:
        LenetTrtError: none has; says which are declared.
    """
    seen = tuple(str(dtype) for dtype in input_dtypes)
    if len(seen) == len(kernel.inputs):
        for types in types_beginning(kernel, seen):
            return types
    raise types_error(kernel, "inputs", kernel.inputs, seen)


def types_error(kernel: Kernel, what: str, tensors: Sequence[Tensor], seen: Sequence[str]) -> LenetTrtError:
    """Say that tensors, which are ``what``, have none of the declared types."""
    offered = {types.name: types.of(tensors) for types in kernel.types}
    text = "; ".join(f"{name}: {', '.join(dtypes)}" for name, dtypes in offered.items())
    error = OtherTypesError if set(seen).isdisjoint(chain(*offered.values())) else LenetTrtError
    return error(f"{kernel.name} has {what} of types {', '.join(seen)}; it is declared for {text}")


def types_beginning(kernel: Kernel, dtypes: Sequence[str]) -> Iterator[Types]:
    """Yield the declared types in which the first inputs (and then outputs) have these element types."""
    tensors = (*kernel.inputs, *kernel.outputs)[: len(dtypes)]
    return (types for types in kernel.types if types.of(tensors) == tuple(dtypes))


def element_sizes(types: Types) -> dict[str, int]:
    """Return the bytes of an element of each type variable, by the names that conditions give them."""
    return {f"sizeof_{name}": ELEMENT_TYPES[dtype].size_bytes for name, dtype in types.variables.items()}
