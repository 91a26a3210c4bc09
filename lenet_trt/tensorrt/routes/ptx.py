"""Put PTX into the engine by a quickly deployable plugin, ahead of time: ``trtexec --loadEngine`` then runs it.

The route is for full TensorRT (>= 10.9; TensorRT-RTX has no ``tensorrt.plugin``). Everything that TensorRT asks for is
derived from the declaration. Each variant that can run every batch size of the profile is a tactic, and the builder
times the tactics. A fused ONNX file is imported unchanged: its nodes carry the namespace and the kernel's choices.

Tested: the real ``tensorrt.plugin`` 11.4 accepts the registration, and gets the right types, PTX and symbolic launch
(tests/tensorrt/routes). Not tested: building and running such an engine, which needs TensorRT's own libraries and a
GPU. PTX that NVRTC 13.0 writes needs a driver for CUDA 13.

Source: tensorrt.plugin of the 11.4.0.106 bindings.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lenet_trt.cuda.compile import architectures, compile_variant
from lenet_trt.cuda.driver import Context, current_context
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.attributes import AttributeValue, attribute_sizes, chosen_values, stored_values
from lenet_trt.kernel.bind import Specialized
from lenet_trt.kernel.call_types import types_of_call
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.dims import Algebra, AxisValue, Condition, as_dim
from lenet_trt.kernel.layouts import LAYOUTS
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.kernel.tensors import Tensor
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.kernel.variants import Variant
from lenet_trt.tensorrt.data_types import data_types

if TYPE_CHECKING:
    from onnx import ModelProto

    from lenet_trt.tensorrt.flavors import Flavor

# tensorrt.plugin gives every plugin this version, so a node with another one would not find it.
_VERSION = "1"

_ANNOTATIONS: Mapping[str, type] = {"int": int, "float": float}

_registered: dict[str, tuple[Kernel, Context]] = {}


class PtxRoute:
    """Define the route ``ptx``: see ``Route``."""

    name = "ptx"
    title = "PTX inside the engine, which then needs nothing else"
    needs_library = False
    needs_python = False
    network_flags: tuple[str, ...] = ("PREFER_AOT_PYTHON_PLUGINS",)

    def obstacle(self, flavor: Flavor) -> str | None:
        """Say why the flavor does not take plugins this way; None when it does."""
        return None if flavor.can.ptx_plugins else "full TensorRT alone, from 10.9 on, takes plugins as PTX"

    def parsed(self, model: ModelProto, flavor: Flavor, targets: Sequence[int]) -> ModelProto:
        """Return the fused model unchanged: its nodes name the kernel and the namespace."""
        return model

    def layer_type(self, flavor: Flavor) -> str:
        """Name the type of the plugins' layers."""
        return "PLUGIN_V3"

    def register(self, flavor: Flavor, kernels: Sequence[Kernel], library: Path | None) -> None:
        """Register the kernels for the GPU in use."""
        register_ptx(flavor.trt, kernels)

    def load(self, flavor: Flavor, entries: Sequence[Mapping[str, Any]], library: Path | None) -> None:
        """Do nothing: the kernels are in the engine."""

    def load_any(self, flavor: Flavor, library: Path | None) -> None:
        """Do nothing: the kernels are in the engine."""

    def program_obstacle(self) -> str | None:
        """Return None: ``trtexec`` can run the engine."""
        return None


def register_ptx(
    trt: Any, kernels: Iterable[Kernel], gpu: Context | None = None, *, lazy: bool = False
) -> tuple[str, ...]:
    """Register the kernels as ``lenet_trt::<name>`` with an ahead-of-time implementation for one GPU.

    ``trt`` is TensorRT's module; ``gpu`` is what the engine is built for (None: the GPU in use). ``lazy`` leaves the
    creator itself to the first use through ``tensorrt.plugin.op``; the ONNX parser needs it registered.
    Again for the same kernel and GPU does nothing.

    Raises:
        LenetTrtError: this TensorRT has no ``tensorrt.plugin`` with ``aot_impl``; a kernel's version is not "1"; it has
            no variant of one launch without workspace that runs every size; or the name is registered already, for
            another kernel or GPU.
    """
    plugin: Any = None
    with contextlib.suppress(ImportError):  # answered below
        plugin = importlib.import_module(f"{trt.__name__}.plugin")
    if not hasattr(plugin, "aot_impl"):
        raise LenetTrtError(
            f"{trt.__name__} {getattr(trt, '__version__', '')} takes no plugins as PTX: TensorRT 10.9 or newer "
            "has (TensorRT-RTX has not); use the route python"
        )
    gpu = gpu or current_context()
    names = []
    for kernel in kernels:
        names.append(kernel.name)
        if kernel.name in _registered:
            _check_same(kernel, gpu)
            continue
        if kernel.version != _VERSION:
            raise LenetTrtError(
                f"{kernel.name} has version {kernel.version}; plugins as PTX can only have version {_VERSION}: "
                "use the route python"
            )
        for types in kernel.types:
            if not any(v.takes_any_size and v.is_one_launch for v in kernel.variants_for(gpu.sm, types)):
                raise LenetTrtError(
                    f"{kernel.name} ({types.name}) runs every size only by several launches or with workspace, and a "
                    "plugin as PTX is one launch without: use --plugin-route library or python"
                )
        described = _Described(trt, plugin, kernel, gpu)
        identity = f"{DOMAIN}::{kernel.name}"
        plugin.register(identity, lazy_register=lazy)(described.register)
        plugin.autotune(identity)(described.autotune)
        plugin.aot_impl(identity)(described.aot_impl)
        _registered[kernel.name] = (kernel, gpu)
    return tuple(names)


def _check_same(kernel: Kernel, gpu: Context) -> None:
    old, old_gpu = _registered[kernel.name]
    if old is not kernel or (old_gpu.sm, old_gpu.sizes) != (gpu.sm, gpu.sizes):
        raise LenetTrtError(
            f"{DOMAIN}::{kernel.name} is registered for a GPU of sm_{old_gpu.sm} in this process already; "
            "build for another GPU or another kernel of that name in a new process"
        )


class _Described:
    """Define the three functions that tensorrt.plugin wants of a plugin."""

    def __init__(self, trt: Any, plugin: Any, kernel: Kernel, gpu: Context) -> None:
        self.kernel = kernel
        self._plugin = plugin
        self._gpu = gpu
        self._data_types = data_types(trt)
        self._elements = {data_type: element for element, data_type in self._data_types.items()}
        tensor, one = plugin.TensorDesc, len(kernel.outputs) == 1
        outputs = tuple.__class_getitem__((tensor,) * len(kernel.outputs))
        inputs = [(entry.name, tensor) for entry in kernel.inputs]
        attributes = [(attribute.name, _ANNOTATIONS[attribute.type_name]) for attribute in kernel.attributes]
        code = tuple[str | bytes, str | bytes, plugin.KernelLaunchParams, plugin.SymIntExprs]
        rest = [("outputs", outputs)]
        self.register = _signed(self._register, [*inputs, *attributes], tensor if one else outputs)
        self.autotune = _signed(self._autotune, [*inputs, *attributes, *rest], list[plugin.AutoTuneCombination])
        self.aot_impl = _signed(self._aot_impl, [*inputs, *attributes, *rest, ("tactic", int)], code)

    def _register(self, *given: Any) -> Any:
        """Describe the outputs: shapes as expressions of the inputs' sizes, types by those of the inputs."""
        inputs = given[: len(self.kernel.inputs)]
        types = types_of_call(self.kernel, self._dtypes(inputs))
        algebra = self._algebra(inputs, self._plugin.ShapeExpr)
        values = chosen_values(self.kernel, self._values(given[len(inputs) :]))
        named = attribute_sizes(self.kernel, values)
        outputs = tuple(
            self._plugin.from_shape_expr(
                tuple(as_dim(size).substitute(named).fold(algebra) for size in tensor.shape),
                self._data_types[types.resolve(tensor.dtype)],
            )
            for tensor in self.kernel.outputs
        )
        return outputs[0] if len(outputs) == 1 else outputs

    def _autotune(self, *given: Any) -> Any:
        """Offer the network's types, the declared layouts, and the variants that can run the whole profile."""
        inputs = given[: len(self.kernel.inputs)]
        specialized = self._specialized(inputs, given[len(inputs) : -1])
        shapes = [tuple(entry.shape) for entry in inputs]
        bounds = [shapes]
        if any(entry.shape.is_dynamic for entry in inputs):
            dynamic = [entry.shape.is_dynamic for entry in inputs]
            bounds = [
                [
                    tuple(getattr(e.shape, bound)) if is_open else tuple(e.shape)
                    for e, is_open in zip(inputs, dynamic, strict=True)
                ]
                for bound in ("min", "max")
            ]
        axes = [self._axis_values(bound, specialized) for bound in bounds]
        if not _fits(self.kernel.requires, axes, specialized):
            raise LenetTrtError(
                f"{self.kernel.name} wants {self.kernel.requires}, and the optimization profile allows other sizes, "
                "which a plugin as PTX cannot refuse while it runs: allow fewer sizes, or use --plugin-route library"
            )
        tactics = [
            index
            for index, variant in enumerate(self.kernel.variants, 1)
            if variant.is_one_launch
            and specialized.supports(variant, self._gpu.sm)
            and _fits(variant.when, axes, specialized)
        ]
        resolved = specialized.types.of((*self.kernel.inputs, *self.kernel.outputs))
        types = ", ".join(ELEMENT_TYPES[element].tensorrt_plugin_name for element in resolved)
        tensors = (*self.kernel.inputs, *self.kernel.outputs)
        layouts = ", ".join(LAYOUTS[tensor.layout].tensorrt_name for tensor in tensors)
        return [self._plugin.AutoTuneCombination(types, layouts, tactics)]

    def _aot_impl(self, *given: Any) -> Any:
        """Give the kernel's name and PTX, its symbolic launch, and the integers between inputs and outputs."""
        tactic = given[-1]
        inputs = given[: len(self.kernel.inputs)]
        specialized = self._specialized(inputs, given[len(inputs) : -2])
        variant = self._variant(tactic, specialized)
        # TensorRT passes such a plugin addresses and integers, and nothing else.
        module = compile_variant(specialized, variant, _ptx_target(self._gpu.sm), maps=False)
        launch = specialized.launch(variant).substitute(self._gpu.sizes)
        algebra = self._algebra(inputs, self._plugin.ShapeExpr)
        grid = [as_dim(size).fold(algebra) for size in launch.grid]
        shared_bytes = as_dim(launch.shared_bytes).fold(algebra)
        parameters = self._plugin.KernelLaunchParams(*grid, *launch.block, shared_bytes)
        extras = self._plugin.SymIntExprs(len(launch.extras))
        for index, size in enumerate(launch.extras):
            extras[index] = self._plugin.SymInt32(as_dim(size).fold(algebra))
        return module.entry, module.image.rstrip(b"\0").decode(), parameters, extras

    def _variant(self, tactic: int, specialized: Specialized) -> Variant:
        if tactic > 0:
            return self.kernel.variants[tactic - 1]
        for variant in self.kernel.variants_for(self._gpu.sm, specialized.types):
            if variant.takes_any_size and variant.is_one_launch:
                return variant
        raise LenetTrtError(f"{self.kernel.name} has no variant for sm_{self._gpu.sm}")

    def _dtypes(self, inputs: Sequence[Any]) -> list[str]:
        return [self._elements.get(entry.dtype, str(entry.dtype)) for entry in inputs]

    def _specialized(self, inputs: Sequence[Any], numbers: Sequence[int | float]) -> Specialized:
        shapes = [tuple(_constant(size) for size in entry.shape_expr) for entry in inputs]
        return self.kernel.specialize(shapes, self._dtypes(inputs), self._values(numbers))

    def _values(self, numbers: Sequence[int | float]) -> dict[str, AttributeValue]:
        names = [attribute.name for attribute in self.kernel.attributes]
        return stored_values(self.kernel, dict(zip(names, numbers, strict=True)))

    def _axis_values(self, shapes: Sequence[Shape], specialized: Specialized) -> dict[str, int]:
        values = dict(specialized.known_sizes)
        for tensor, shape in zip(self.kernel.inputs, shapes, strict=True):
            for name, index in _own_axes(tensor):
                values[name] = int(shape[index])
        return values

    def _algebra(self, inputs: Sequence[Any], constant: Callable[[int], Any]) -> Algebra[Any]:
        sizes: dict[str, Any] = {}
        for tensor, entry in zip(self.kernel.inputs, inputs, strict=True):
            for name, index in _own_axes(tensor):
                sizes.setdefault(name, entry.shape_expr[index])
        return Algebra(
            constant=constant,
            axis=sizes.__getitem__,
            operations={
                "add": lambda a, b: a + b,
                "subtract": lambda a, b: a - b,
                "multiply": lambda a, b: a * b,
                "floor_divide": lambda a, b: a // b,
                "ceil_divide": self._plugin.cdiv,
                "minimum": self._plugin.min,
                "maximum": self._plugin.max,
            },
        )


def _own_axes(tensor: Tensor) -> list[tuple[str, int]]:
    """Return the axes that are one size of the tensor, and the position of that size."""
    return [(size.name, index) for index, size in enumerate(tensor.shape) if isinstance(size, AxisValue)]


def _constant(size: Any) -> int:
    return int(size.constant_value()) if not size.is_fake and size.is_constant else UNKNOWN


def _fits(when: Condition | None, bounds: Sequence[Mapping[str, int]], specialized: Specialized) -> bool:
    """Return whether a condition holds for every size between the bounds."""
    if when is None:
        return True
    least, most = ({**axes, **specialized.known_sizes} for axes in (bounds[0], bounds[-1]))
    for part in when.comparisons:
        # Sizes are monotone in the axes, so an inequality between sizes of different axes can be told from the ends.
        open_axes = sorted(name for name in part.axes if least[name] != most[name])
        if open_axes and (part.relation not in ("<=", "<") or part.left.axes & part.right.axes & {*open_axes}):
            return False
        for ends in itertools.product(*({least[name], most[name]} for name in open_axes)):
            if not part.evaluate({**least, **dict(zip(open_axes, ends, strict=True))}):
                return False
    return True


def _ptx_target(sm: int) -> str:
    """Return the PTX target for the architecture, or for the newest older one that the compiler knows."""
    known = [each for each in architectures() if each <= sm]
    if not known:
        raise LenetTrtError(f"sm_{sm} is older than every architecture that the compiler here knows")
    return f"compute_{max(known)}"


def _signed(function: Callable[..., Any], parameters: Sequence[tuple[str, Any]], returns: Any) -> Callable[..., Any]:
    """Give a function the signature that tensorrt.plugin reads its schema from."""

    def call(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, *named.values())

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    entries = [inspect.Parameter(name, kind, annotation=annotation) for name, annotation in parameters]
    call.__signature__ = inspect.Signature(entries, return_annotation=returns)  # type: ignore[attr-defined]
    return call
