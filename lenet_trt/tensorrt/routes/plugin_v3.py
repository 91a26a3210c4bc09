"""IPluginV3 in Python: every declared kernel as a TensorRT plugin, for TensorRT 10 and 11 and TensorRT-RTX >= 1.7.

One generic plugin is made of the declaration. Weights are inputs of the node (constants of the network), attributes
are plugin fields that the engine stores. Kernels are compiled and loaded when shapes become known
(``on_shape_change``); ``enqueue`` launches and does nothing else. Engines with such plugins need this process
to have registered them before they are deserialized.

Source: IPluginV3 and IPluginCreatorV3One of tensorrt 10.16 and 11.4 and tensorrt_rtx 1.7.1. Building was tried with
tensorrt_rtx 1.7.1; what TensorRT calls at run time was not (it needs a GPU that it supports).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lenet_trt.cuda.launch import prepare
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.bind import UNKNOWN, Shape
from lenet_trt.kernel.dims import Algebra, AxisValue, as_dim
from lenet_trt.kernel.pattern import DOMAIN

if TYPE_CHECKING:
    from lenet_trt.kernel.declaration import Attribute, AttributeValue, Kernel

# Element types by the names that TensorRT's DataType gives them.
DATA_TYPES = {
    "float32": "FLOAT",
    "float16": "HALF",
    "bfloat16": "BF16",
    "int8": "INT8",
    "uint8": "UINT8",
    "int32": "INT32",
    "int64": "INT64",
    "bool": "BOOL",
}
# Calls prepared for so many different shapes are kept in each execution context.
_KEPT_LAUNCHERS = 64
_KEPT_FAILURES = 16

Function = TypeVar("Function", bound=Callable[..., Any])

_creators: dict[tuple[str, str], Any] = {}
_failures: list[tuple[str, BaseException]] = []


def register(trt: Any, kernels: Iterable[Kernel]) -> tuple[str, ...]:
    """Register a creator for each kernel in TensorRT's plugin registry; again for the same kernel does nothing.

    ``trt`` is the flavor's module. Returns the kernels' names.

    Raises:
        LenetTrtError: TensorRT refuses a creator, as when another library has registered that name.
    """
    registry = trt.get_plugin_registry()
    names = []
    for kernel in kernels:
        names.append(kernel.name)
        key = (trt.__name__, kernel.name)
        old = _creators.get(key)
        if old is not None and old.kernel is kernel:
            continue
        if old is not None:
            registry.deregister_creator(old)
        creator = _classes(trt)[0](kernel)
        if not registry.register_creator(creator, DOMAIN):
            raise LenetTrtError(
                f"TensorRT does not register the plugin {DOMAIN}::{kernel.name} version {kernel.version}: "
                "another library has registered that name; do not load both"
            )
        _creators[key] = creator
    return tuple(names)


@contextmanager
def reporting() -> Iterator[None]:
    """Turn what goes wrong inside a plugin, which TensorRT only prints, into an error of the call around it.

    Raises:
        LenetTrtError: a plugin failed while the block ran; says which, where and why.
    """
    _failures.clear()
    try:
        yield
    except Exception as error:
        if not _failures:
            raise
        raise _report() from error
    if _failures:
        raise _report() from _failures[0][1]


def _report() -> LenetTrtError:
    where, error = _failures[0]
    detail = str(error) if isinstance(error, LenetTrtError) else f"{type(error).__name__}: {error}"
    return LenetTrtError(f"the plugin {where} failed: {detail}")


def _remembered(function: Function) -> Function:
    """Keep the exception of a callback: TensorRT prints it to stderr and goes on with a message of its own."""

    @functools.wraps(function)
    def call(self: Any, *arguments: Any) -> Any:
        try:
            return function(self, *arguments)
        except BaseException as error:
            if len(_failures) < _KEPT_FAILURES:  # the first ones tell; a run that nobody watches may fail for ever
                _failures.append((f"{self.kernel.name} ({function.__name__})", error))
            raise

    return call  # type: ignore[return-value]


@functools.cache
def _classes(trt: Any) -> tuple[type, type]:
    """The creator and the plugin, derived from that flavor's interfaces."""
    bases = (trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime)
    element_types = {
        getattr(trt.DataType, name): element for element, name in DATA_TYPES.items() if hasattr(trt.DataType, name)
    }
    data_types = {element: data_type for data_type, element in element_types.items()}

    class KernelPlugin(*bases):  # type: ignore[misc]
        """A declared kernel with its attributes chosen."""

        def __init__(self, kernel: Kernel, attributes: Mapping[str, AttributeValue]) -> None:
            for base in bases:
                base.__init__(self)
            self.kernel = kernel
            self.attributes = dict(attributes)
            self.num_outputs = len(kernel.outputs)
            self.plugin_name = kernel.name
            self.plugin_namespace = DOMAIN
            self.plugin_version = kernel.version
            self._launchers: dict[tuple[Shape, ...], Callable[[Sequence[int], int], None]] = {}
            self._launcher: Callable[[Sequence[int], int], None] | None = None

        def get_capability_interface(self, kind: Any) -> Any:
            return self

        @_remembered
        def clone(self) -> Any:
            return KernelPlugin(self.kernel, self.attributes)

        # While an engine is built.

        @_remembered
        def get_output_data_types(self, input_types: Sequence[Any]) -> list[Any]:
            seen = [element_types.get(kind, str(kind)) for kind in input_types]
            for types in self.kernel.types:
                if seen == [types.resolve(tensor.dtype) for tensor in self.kernel.inputs]:
                    return [data_types[types.resolve(t.dtype)] for t in self.kernel.outputs]
            offered = "; ".join(
                f"{types.name}: {', '.join(types.resolve(t.dtype) for t in self.kernel.inputs)}"
                for types in self.kernel.types
            )
            raise LenetTrtError(f"its inputs have types {', '.join(seen)}; it is declared for {offered}")

        @_remembered
        def get_output_shapes(self, inputs: Any, shape_inputs: Any, builder: Any) -> list[Any]:
            algebra = _expressions(trt, self.kernel, inputs, builder)
            shapes = []
            for tensor in self.kernel.outputs:
                shape = trt.DimsExprs(len(tensor.shape))
                for index, size in enumerate(tensor.shape):
                    shape[index] = as_dim(size).fold(algebra)
                shapes.append(shape)
            return shapes

        @_remembered
        def supports_format_combination(self, position: int, tensors: Any, num_inputs: int) -> bool:
            if tensors[position].desc.format != trt.TensorFormat.LINEAR:
                return False
            seen = [element_types.get(tensors[i].desc.type) for i in range(position + 1)]
            declared = (*self.kernel.inputs, *self.kernel.outputs)[: position + 1]
            return any(seen == [types.resolve(tensor.dtype) for tensor in declared] for types in self.kernel.types)

        @_remembered
        def configure_plugin(self, inputs: Any, outputs: Any) -> None:
            descriptions = [entry.desc for entry in inputs]
            shapes = [tuple(max(size, UNKNOWN) for size in entry.dims) for entry in descriptions]
            dtypes = [element_types[entry.type] for entry in descriptions]
            self.kernel.specialize(shapes, dtypes, self.attributes)

        # In the engine: what is stored, and what runs.

        @_remembered
        def get_fields_to_serialize(self) -> Any:
            fields = [
                trt.PluginField(
                    attribute.name,
                    np.array([attribute.macro_value(self.attributes[attribute.name])], dtype=np.int32),
                    trt.PluginFieldType.INT32,
                )
                for attribute in self.kernel.attributes
            ]
            return trt.PluginFieldCollection(fields)

        @_remembered
        def attach_to_context(self, resources: Any) -> Any:
            return self.clone()

        @_remembered
        def set_tactic(self, tactic: int) -> None:
            """There is one: the declaration chooses the variant by shape and GPU."""

        @_remembered
        def on_shape_change(self, inputs: Any, outputs: Any) -> None:
            shapes = tuple(tuple(int(size) for size in entry.dims) for entry in inputs)
            if min((size for shape in shapes for size in shape), default=0) < 0:
                return  # a size is not known yet; TensorRT calls again when it is
            if shapes not in self._launchers:
                if len(self._launchers) >= _KEPT_LAUNCHERS:
                    self._launchers.clear()
                dtypes = [element_types[entry.type] for entry in inputs]
                self._launchers[shapes] = prepare(self.kernel.bind(shapes, dtypes, self.attributes))
            self._launcher = self._launchers[shapes]

        @_remembered
        def enqueue(
            self,
            input_desc: Any,
            output_desc: Any,
            inputs: Sequence[int],
            outputs: Sequence[int],
            workspace: int,
            stream: int,
        ) -> None:
            if self._launcher is None:
                raise LenetTrtError("TensorRT launches it without having told it the shapes")
            self._launcher((*inputs, *outputs), stream)

    class KernelCreator(trt.IPluginCreatorV3One):
        """Makes the plugin, from an ONNX node's attributes or from what an engine stored."""

        def __init__(self, kernel: Kernel) -> None:
            super().__init__()
            self.kernel = kernel
            self.name = kernel.name
            self.plugin_namespace = DOMAIN
            self.plugin_version = kernel.version
            # TensorRT's parser hands over the fields that are named here and drops the others.
            self.field_names = trt.PluginFieldCollection(
                [
                    trt.PluginField(attribute.name, np.array([], dtype=np.int32), trt.PluginFieldType.INT32)
                    for attribute in kernel.attributes
                ]
            )

        @_remembered
        def create_plugin(self, name: str, fields: Any, phase: Any) -> Any:
            given = {field.name: np.asarray(field.data).ravel() for field in fields}
            attributes = {
                attribute.name: _value(attribute, given.get(attribute.name)) for attribute in self.kernel.attributes
            }
            return KernelPlugin(self.kernel, attributes)

    return KernelCreator, KernelPlugin


def _value(attribute: Attribute, data: np.ndarray | None) -> AttributeValue:
    """The choice that a field's number stands for; without the field it is the default."""
    if data is None or data.size == 0:
        return attribute.choices[0]
    number = int(data[0])
    for choice in attribute.choices:
        if attribute.macro_value(choice) == number:
            return choice
    choices = ", ".join(str(attribute.macro_value(choice)) for choice in attribute.choices)
    raise LenetTrtError(f"its attribute {attribute.name} is {number}; it can be {choices}")


def _expressions(trt: Any, kernel: Kernel, inputs: Any, builder: Any) -> Algebra[Any]:
    """TensorRT's symbolic sizes: axes are sizes of the inputs, operations go to its expression builder."""
    axes: dict[str, Any] = {}
    for tensor, shape in zip(kernel.inputs, inputs, strict=True):
        if len(shape) != len(tensor.shape):
            wanted = ", ".join(str(size) for size in tensor.shape)
            raise LenetTrtError(f"{tensor.name} has {len(shape)} axes; wanted [{wanted}]")
        for index, size in enumerate(tensor.shape):
            if isinstance(size, AxisValue):
                axes.setdefault(size.name, shape[index])
    names = trt.DimensionOperation

    def operation(kind: Any) -> Callable[[Any, Any], Any]:
        return lambda left, right: builder.operation(kind, left, right)

    return Algebra(
        constant=builder.constant,
        axis=axes.__getitem__,
        operations={
            "add": operation(names.SUM),
            "subtract": operation(names.SUB),
            "multiply": operation(names.PROD),
            "floor_divide": operation(names.FLOOR_DIV),
            "ceil_divide": operation(names.CEIL_DIV),
            "minimum": operation(names.MIN),
            "maximum": operation(names.MAX),
        },
    )
