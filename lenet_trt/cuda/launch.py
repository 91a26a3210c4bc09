"""Launch kernels: everything is resolved once for each call signature; then each launch is one driver call."""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from lenet_trt.cuda.compile import Module, compile_for_launch
from lenet_trt.cuda.driver import Context, ask, capture_safe, current_context, driver
from lenet_trt.cuda.tensor_map import EncodedMap
from lenet_trt.cuda.tuned import variant_for
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import INT32_MAX
from lenet_trt.kernel.tensor_maps import SpecializedMap
from lenet_trt.kernel.variants import MAX_GRID_Y, Variant

_GRID_LIMITS = (INT32_MAX, MAX_GRID_Y, MAX_GRID_Y)
_DEFAULT_SHARED_LIMIT = 48 * 1024
_SLOT = 8
_SUCCESS = 0


class Launcher:
    """Hold a prepared call of a kernel: ``launcher(pointers, stream)`` puts it into a stream.

    ``pointers`` are the inputs' and then the outputs' device addresses, and last, where ``workspace_bytes`` is not 0,
    that of so much memory; ``stream`` is the raw handle. A call allocates nothing, waits for nothing and is safe from
    several threads.
    """

    def __init__(self, bound: Bound, variant: Variant, context: Context) -> None:
        self.bound = bound
        self.variant = variant
        kernel = bound.kernel
        self.workspace_bytes = bound.workspace_bytes(variant)
        tensors = len(kernel.inputs) + len(kernel.outputs)
        self._count = tensors + (1 if self.workspace_bytes else 0)
        self._mask = kernel.alignment - 1
        self._null_allowed = any(0 in shape for shape in (*bound.input_shapes, *bound.output_shapes))
        sizes = {**bound.axes, **context.sizes}
        # The memory has a slot for each tensor, one for the workspace, then one for each extra of any launch.
        extras: list[int] = []
        launches: list[tuple[tuple[Any, ...], list[int], list[EncodedMap]]] = []
        for part in variant.parts:
            launch = bound.specialized.launch(part)
            *grid, shared_bytes = (dim.evaluate(sizes) for dim in launch.dims[:4])
            own = [dim.evaluate(sizes) for dim in launch.dims[4:]]
            self._check_geometry(grid, own)
            module = compile_for_launch(bound.specialized, part, context.sm)
            function = load_function(context, module, shared_bytes)
            first = tensors + 1 + len(extras)
            order = [*range(len(kernel.inputs)), *range(first, first + len(own)), *range(len(kernel.inputs), tensors)]
            order += [tensors] * launch.workspace
            maps = [self._encoded(each, sizes) for each in bound.specialized.maps(part)]
            launches.append(((function, *grid, *launch.block, shared_bytes), order, maps))
            extras += own
        self._values = (ctypes.c_uint64 * (tensors + 1 + len(extras)))()
        for index, extra in enumerate(extras):
            struct.pack_into("<i", self._values, (tensors + 1 + index) * _SLOT, extra)
        base = ctypes.addressof(self._values)
        # Each table has the addresses of a launch's arguments, in the kernel's order: tensor maps are the last.
        self._tables = [
            (ctypes.c_void_p * (len(order) + len(maps)))(*(base + i * _SLOT for i in order), *(m.address for m in maps))
            for _, order, maps in launches
        ]
        self._maps = tuple(each for *_, maps in launches for each in maps)
        self._pack = struct.Struct(f"<{self._count}Q").pack_into
        self._lock = threading.Lock()
        # Pass the table's address: the bindings would lay out (values, types) anew for each launch.
        self._launch = driver().cuLaunchKernel
        self._launches = [
            (before, (ctypes.addressof(table), 0)) for (before, *_), table in zip(launches, self._tables, strict=True)
        ]

    def __call__(self, pointers: Sequence[int], stream: int) -> None:
        """Put the call into ``stream``.

        Raises:
            LenetTrtError: a pointer is null or misaligned, or the driver refuses the launch.
        """
        if len(pointers) != self._count or not (self._null_allowed or all(pointers)):
            self._refuse(pointers)
        together = 0
        for pointer in pointers:
            together |= pointer
        if together & self._mask:
            self._refuse(pointers)
        with self._lock:
            self._pack(self._values, 0, *pointers)
            for each in self._maps:  # the driver copies them, and the other arguments, in the launch
                each.follow(pointers[each.input])
            for before, after in self._launches:
                (status,) = self._launch(*before, stream, *after)
                if status != _SUCCESS:
                    break
        if status != _SUCCESS:
            name = f"{self.bound.kernel.name} {self.variant.name}"
            ask((status,), f"cannot launch {name} on {list(self.bound.input_shapes)}")

    def _encoded(self, which: SpecializedMap, sizes: Mapping[str, int]) -> EncodedMap:
        if math.prod(which.sizes(sizes)) > math.prod(self.bound.stored_input_shapes[which.input]):
            raise LenetTrtError(
                f"{self.bound.kernel.name} {self.variant.name}: the tensor map of {which.tensor} has the shape "
                f"{list(which.sizes(sizes))}, more elements than {which.tensor}"
            )
        return EncodedMap(which, sizes)

    def _check_geometry(self, grid: Sequence[int], extras: Sequence[int]) -> None:
        name = f"{self.bound.kernel.name} {self.variant.name}"
        shapes = ", ".join(str(list(shape)) for shape in self.bound.input_shapes)
        for size, limit in zip(grid, _GRID_LIMITS, strict=True):
            if not 1 <= size <= limit:
                raise LenetTrtError(f"{name} on {shapes} needs the grid {list(grid)}; CUDA allows {_GRID_LIMITS}")
        for value in extras:
            if abs(value) > INT32_MAX:
                raise LenetTrtError(f"{name} on {shapes} would get {value} as a 32-bit argument")

    def _refuse(self, pointers: Sequence[int]) -> None:
        kernel = self.bound.kernel
        if len(pointers) != self._count:
            raise LenetTrtError(f"{kernel.name} takes {self._count} pointers, not {len(pointers)}")
        names = [*(tensor.name for tensor in (*kernel.inputs, *kernel.outputs)), "the workspace"]
        for name, pointer in zip(names, pointers, strict=False):
            if pointer & self._mask or not (pointer or self._null_allowed):
                raise LenetTrtError(
                    f"{name} is at address {pointer:#x}; {kernel.name} wants a multiple of "
                    f"{kernel.alignment} bytes: copy it to memory of its own"
                )


class EmptyLauncher:
    """Launch nothing, for a call that computes nothing (a batch of 0)."""

    workspace_bytes = 0

    def __init__(self, bound: Bound) -> None:
        self.bound = bound

    def __call__(self, pointers: Sequence[int], stream: int) -> None:
        """Do nothing."""


def prepare(bound: Bound, variant: Variant | None = None) -> Launcher | EmptyLauncher:
    """Compile, load and lay out the call for the current GPU, so that launching it is cheap.

    Without a ``variant``, the tuned or declared choice is used (see ``cuda.tuned``).

    Raises:
        LenetTrtError: no GPU, no variant for it, or the call is too large to launch.
    """
    if bound.empty:
        return EmptyLauncher(bound)
    bound.check_size()
    context = current_context()
    return Launcher(bound, variant or variant_for(bound, context), context)


def load_function(context: Context, module: Module, shared_bytes: int) -> Any:
    """Load a compiled kernel into the current context, once, and allow it ``shared_bytes`` of dynamic shared memory."""
    function = _load(context, module)
    if shared_bytes > _DEFAULT_SHARED_LIMIT:
        with _shared_lock:
            if shared_bytes > _shared_allowed.get(int(function), 0):
                attribute = driver().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                ask(
                    driver().cuFuncSetAttribute(function, attribute, shared_bytes),
                    f"{module.entry} needs {shared_bytes} bytes of shared memory, more than this GPU has",
                )
                _shared_allowed[int(function)] = shared_bytes
    return function


_shared_lock = threading.Lock()
_shared_allowed: dict[int, int] = {}


@cache
def _load(context: Context, module: Module) -> Any:
    with capture_safe():
        loaded = ask(driver().cuModuleLoadData(module.image), f"cannot load {module.entry} for {module.target}")
        return ask(driver().cuModuleGetFunction(loaded, module.entry.encode()), f"cannot find {module.entry}")
