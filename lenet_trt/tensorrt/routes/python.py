"""Offer every declared kernel as an IPluginV3 in Python, for TensorRT 10 and 11 and TensorRT-RTX >= 1.7.

One generic plugin is made of the declaration. Weights are inputs of the node (constants of the network), attributes
are plugin fields that the engine stores. Kernels are compiled and loaded when shapes become known
(``on_shape_change``); ``enqueue`` launches and does nothing else. Engines with such plugins need this process
to have registered them before they are deserialized.

Source: IPluginV3 and IPluginCreatorV3One of tensorrt 10.16 and 11.4 and tensorrt_rtx 1.7.1. Building was tried with
tensorrt_rtx 1.7.1; what TensorRT calls at run time was not (it needs a GPU that it supports).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lenet_trt.cuda.compile import source_sha256
from lenet_trt.cuda.launch import EmptyLauncher, Launcher, prepare
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.attributes import attribute_sizes, chosen_values, stored_values
from lenet_trt.kernel.bind import largest_workspace
from lenet_trt.kernel.call_types import types_beginning, types_of_call
from lenet_trt.kernel.dims import Algebra, AxisValue, as_dim
from lenet_trt.kernel.layouts import LAYOUTS
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.registry import kernel as kernel_named
from lenet_trt.kernel.registry import kernels
from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.tensorrt.data_types import data_types
from lenet_trt.tensorrt.routes.failures import remembered

if TYPE_CHECKING:
    from onnx import ModelProto

    from lenet_trt.kernel.attributes import AttributeValue
    from lenet_trt.kernel.declaration import Kernel
    from lenet_trt.tensorrt.flavors import Flavor

# Calls prepared for so many different shapes are kept in each execution context.
_KEPT_LAUNCHERS = 64

# The element type of each kind of attribute in plugin fields.
_FIELD_TYPES: Mapping[str, type[np.generic]] = {"int": np.int32, "float": np.float32}

_creators: dict[tuple[str, str], Any] = {}


class PythonRoute:
    """Define the route ``python``: see ``Route``."""

    name = "python"
    title = "IPluginV3 in Python, which the process that runs the engine registers first"
    needs_library = False
    needs_python = True
    network_flags: tuple[str, ...] = ()

    def obstacle(self, flavor: Flavor) -> str | None:
        """Say why the flavor does not take plugins this way; None when it does."""
        return None if flavor.can.python_plugins else "TensorRT takes plugins in Python from 10.1 on"

    def parsed(self, model: ModelProto, flavor: Flavor, targets: Sequence[int]) -> ModelProto:
        """Return the fused model unchanged: its nodes name the kernel and the namespace."""
        return model

    def layer_type(self, flavor: Flavor) -> str:
        """Name the type of the plugins' layers."""
        return "PLUGIN_V3"

    def register(self, flavor: Flavor, kernels: Sequence[Kernel], library: Path | None) -> None:
        """Register a creator for each kernel."""
        register_creators(flavor.trt, kernels)

    def load(self, flavor: Flavor, entries: Sequence[Mapping[str, Any]], library: Path | None) -> None:
        """Register the kernels that the engine was built with.

        Raises:
            LenetTrtError: a kernel's source changed since.
        """
        wanted = {entry["kernel"]: entry for entry in entries}
        found = [kernel_named(name) for name in wanted]
        for each in found:
            if source_sha256(each) != wanted[each.name]["source_sha256"]:
                raise LenetTrtError(
                    f"the kernel {each.name} changed since the engine was built, and the weights inside may be packed "
                    "for the old one: build the engine again"
                )
        register_creators(flavor.trt, found)

    def load_any(self, flavor: Flavor, library: Path | None) -> None:
        """Register every kernel."""
        if self.obstacle(flavor) is None:
            register_creators(flavor.trt, kernels().values())

    def program_obstacle(self) -> str | None:
        """Say why ``trtexec`` cannot load such an engine."""
        return "its plugins need Python"


def register_creators(trt: Any, kernels: Iterable[Kernel]) -> tuple[str, ...]:
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


@functools.cache
def _classes(trt: Any) -> tuple[type, type]:
    """Return the creator and the plugin, derived from that flavor's interfaces."""
    bases = (trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime)
    known_types = data_types(trt)
    element_types = {kind: element for element, kind in known_types.items()}
    formats = {layout.name: getattr(trt.TensorFormat, layout.tensorrt_name) for layout in LAYOUTS.values()}

    class KernelPlugin(*bases):  # type: ignore[misc]
        """Run a declared kernel with chosen attributes."""

        def __init__(self, kernel: Kernel, attributes: Mapping[str, AttributeValue]) -> None:
            for base in bases:
                base.__init__(self)
            self.kernel = kernel
            self.attributes = chosen_values(kernel, attributes)
            self.num_outputs = len(kernel.outputs)
            self.plugin_name = kernel.name
            self.plugin_namespace = DOMAIN
            self.plugin_version = kernel.version
            # TensorRT reads these after get_fields_to_serialize has returned, and its binding does not hold them.
            self._stored = stored_arrays(kernel, self.attributes)
            self._launchers: dict[tuple[Shape, ...], Launcher | EmptyLauncher] = {}
            self._launcher: Launcher | EmptyLauncher | None = None

        def get_capability_interface(self, kind: Any) -> Any:
            return self

        @remembered
        def clone(self) -> Any:
            return KernelPlugin(self.kernel, self.attributes)

        # While an engine is built.

        @remembered
        def get_output_data_types(self, input_types: Sequence[Any]) -> list[Any]:
            types = types_of_call(self.kernel, [element_types.get(kind, str(kind)) for kind in input_types])
            return [known_types[dtype] for dtype in types.of(self.kernel.outputs)]

        @remembered
        def get_output_shapes(self, inputs: Any, shape_inputs: Any, builder: Any) -> list[Any]:
            algebra = _expressions(trt, self.kernel, inputs, builder)
            named = attribute_sizes(self.kernel, self.attributes)
            shapes = []
            for tensor in self.kernel.outputs:
                shape = trt.DimsExprs(len(tensor.shape))
                for index, size in enumerate(tensor.shape):
                    shape[index] = as_dim(size).substitute(named).fold(algebra)
                shapes.append(shape)
            return shapes

        @remembered
        def supports_format_combination(self, position: int, tensors: Any, num_inputs: int) -> bool:
            if tensors[position].desc.format != formats[(*self.kernel.inputs, *self.kernel.outputs)[position].layout]:
                return False
            seen = [element_types.get(tensors[i].desc.type, "") for i in range(position + 1)]
            return any(types_beginning(self.kernel, seen))

        @remembered
        def configure_plugin(self, inputs: Any, outputs: Any) -> None:
            descriptions = [entry.desc for entry in inputs]
            shapes = [tuple(max(size, UNKNOWN) for size in entry.dims) for entry in descriptions]
            dtypes = [element_types[entry.type] for entry in descriptions]
            self.kernel.specialize(shapes, dtypes, self.attributes)

        @remembered
        def get_workspace_size(self, inputs: Any, outputs: Any) -> int:
            shapes = [tuple(max(int(size), 0) for size in entry.max) for entry in inputs]
            dtypes = [element_types[entry.desc.type] for entry in inputs]
            return largest_workspace(self.kernel, shapes, dtypes, self.attributes)

        # In the engine: what is stored, and what runs.

        @remembered
        def get_fields_to_serialize(self) -> Any:
            return plugin_fields(trt, self.kernel, self._stored)

        @remembered
        def attach_to_context(self, resources: Any) -> Any:
            return self.clone()

        @remembered
        def set_tactic(self, tactic: int) -> None:
            """Accept the only tactic, since the declaration chooses the variant by shape and GPU."""

        @remembered
        def on_shape_change(self, inputs: Any, outputs: Any) -> None:
            self._launcher = None  # that of other shapes must not run where these are refused
            shapes = tuple(tuple(int(size) for size in entry.dims) for entry in inputs)
            if min((size for shape in shapes for size in shape), default=0) < 0:
                return  # a size is not known yet; TensorRT calls again when it is
            if shapes not in self._launchers:
                if len(self._launchers) >= _KEPT_LAUNCHERS:
                    self._launchers.clear()
                dtypes = [element_types[entry.type] for entry in inputs]
                self._launchers[shapes] = prepare(self.kernel.bind(shapes, dtypes, self.attributes))
            self._launcher = self._launchers[shapes]

        @remembered
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
            scratch = (workspace,) if self._launcher.workspace_bytes else ()
            self._launcher((*inputs, *outputs, *scratch), stream)

    class KernelCreator(trt.IPluginCreatorV3One):
        """Make the plugin from an ONNX node's attributes, or from the data that an engine stored."""

        def __init__(self, kernel: Kernel) -> None:
            super().__init__()
            self.kernel = kernel
            self.name = kernel.name
            self.plugin_namespace = DOMAIN
            self.plugin_version = kernel.version
            # TensorRT's parser hands over the fields that are named here and drops the others.
            empty = {name: data[:0] for name, data in stored_arrays(kernel, chosen_values(kernel, {})).items()}
            self.field_names = plugin_fields(trt, kernel, empty)

        @remembered
        def create_plugin(self, name: str, fields: Any, phase: Any) -> Any:
            given = {field.name: np.asarray(field.data).ravel() for field in fields}
            numbers = {name: data[0].item() for name, data in given.items() if data.size}
            plugin = KernelPlugin(self.kernel, stored_values(self.kernel, numbers))
            # TensorRT-RTX 1.7.1 deletes the plugin when its network goes. Python would delete it again, which damages
            # the heap, so Python keeps it for ever: it is small. To be left out when that is mended there.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(plugin))
            return plugin

    return KernelCreator, KernelPlugin


def stored_arrays(kernel: Kernel, values: Mapping[str, AttributeValue]) -> dict[str, np.ndarray]:
    """Return the attributes as TensorRT stores them; it reads the arrays in place, so the caller holds them."""
    return {
        attribute.name: np.array([attribute.number(values[attribute.name])], _FIELD_TYPES[attribute.type_name])
        for attribute in kernel.attributes
    }


def plugin_fields(trt: Any, kernel: Kernel, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return the attributes as plugin fields with these contents."""
    kinds = {"int": trt.PluginFieldType.INT32, "float": trt.PluginFieldType.FLOAT32}
    return trt.PluginFieldCollection(
        [trt.PluginField(each.name, arrays[each.name], kinds[each.type_name]) for each in kernel.attributes]
    )


def _expressions(trt: Any, kernel: Kernel, inputs: Any, builder: Any) -> Algebra[Any]:
    """Lower to TensorRT's symbolic sizes: axes are sizes of the inputs, operations go to its expression builder."""
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
