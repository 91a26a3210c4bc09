"""Run by test_ptx.py in a process of its own: the route against the real ``tensorrt.plugin``.

TensorRT's expression builder is C++ and needs its library, so expressions are recorded and then evaluated here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest

from tensorrt_stubs import load_bindings

trt = load_bindings()

import tensorrt.plugin as quick  # noqa: E402
from tensorrt_bindings.plugin._lib import QDP_REGISTRY  # noqa: E402
from tensorrt_bindings.plugin._tensor import SymIntExpr  # noqa: E402

from declared_kernels import DECLARED, declared  # noqa: E402
from lenet_trt.cuda.compile import Module  # noqa: E402
from lenet_trt.cuda.driver import Context  # noqa: E402
from lenet_trt.errors import LenetTrtError  # noqa: E402
from lenet_trt.kernel import registry  # noqa: E402
from lenet_trt.kernel.bind import Bound, Specialized  # noqa: E402
from lenet_trt.kernel.declaration import Kernel  # noqa: E402
from lenet_trt.kernel.layouts import LAYOUTS  # noqa: E402
from lenet_trt.kernel.variants import Variant  # noqa: E402
from lenet_trt.tensorrt.data_types import data_types  # noqa: E402
from lenet_trt.tensorrt.routes import ptx  # noqa: E402

H200 = Context(key=0, device=0, sm=90, multiprocessors=132)
_OPERATIONS = {
    "SUM": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "PROD": lambda a, b: a * b,
    "FLOOR_DIV": lambda a, b: a // b,
    "CEIL_DIV": lambda a, b: -(-a // b),
    "MIN": min,
    "MAX": max,
}
_DATA_TYPES = data_types(trt)


@dataclass(frozen=True)
class Expression:
    """What the recording builder makes: a number, a named size, or an operation on two."""

    value: int | None = None
    name: str | None = None
    operation: str | None = None
    operands: tuple[Expression, ...] = ()

    def is_constant(self) -> bool:
        return self.value is not None

    def get_constant_value(self) -> int:
        assert self.value is not None
        return self.value

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        if self.operation is not None:
            return _OPERATIONS[self.operation](*(operand.evaluate(sizes) for operand in self.operands))
        return sizes[self.name] if self.name is not None else self.get_constant_value()


# tensorrt.plugin tells symbolic sizes by this type; only TensorRT's library can make one.
trt.IDimensionExpr = Expression


class Recorder:
    """Stands in for TensorRT's IExprBuilder."""

    def constant(self, value: int) -> Expression:
        return Expression(value=value)

    def operation(self, kind: Any, left: Expression, right: Expression) -> Expression:
        return Expression(operation=kind.name, operands=(left, right))


def described(kernel: Kernel, bound: Bound) -> tuple[list[Any], dict[str, int]]:
    """Tensor descriptions of a call's inputs; the sizes of runtime axes are symbols, returned with their values."""
    static = dict(bound.specialized.static_axes)
    inputs, sizes = [], {}
    for tensor, shape, dtype in zip(kernel.inputs, bound.input_shapes, bound.input_dtypes, strict=True):
        entry = quick.TensorDesc()
        entry.dtype = _DATA_TYPES[dtype]
        entry.shape_expr = quick.ShapeExprs(len(shape))
        for index, (wanted, size) in enumerate(zip(tensor.shape, shape, strict=True)):
            expression = quick.ShapeExpr(size)
            if str(wanted) in bound.axes and str(wanted) not in static:
                sizes[str(wanted)] = size
                expression._int_expr = Expression(name=str(wanted))
            entry.shape_expr[index] = expression
        entry.shape = quick.Shape(tuple(shape))
        inputs.append(entry)
    return inputs, sizes


def not_compiled(specialized: Specialized, variant: Variant, target: str, *, maps: bool) -> Module:
    """Stand in for ``compile_variant`` where the launch alone is compared."""
    return Module(b"", target, specialized.kernel.entry(variant), ())


def check(kernel: Kernel, bound: Bound, *, compiled: bool = True) -> int:
    """Compare every tactic that the route offers for a call with what the declaration says; return how many.

    ``compiled``: compile the first as well; tests/cuda/test_compile.py compiles every variant.
    """
    definition = QDP_REGISTRY[f"lenet_trt::{kernel.name}"]
    numbers = [a.number(bound.attributes[a.name]) for a in kernel.attributes]
    named = dict(zip((a.name for a in kernel.attributes), numbers, strict=True))
    SymIntExpr._exprBuilder = Recorder()
    inputs, sizes = described(kernel, bound)
    outputs = definition.register_func(*inputs, **named)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for output, shape, dtype in zip(outputs, bound.output_shapes, bound.output_dtypes, strict=True):
        assert isinstance(output, quick.TensorDesc)
        assert output.dtype == _DATA_TYPES[dtype]
        assert tuple(size._expr.evaluate(sizes) for size in output.shape_expr) == shape
        output.shape = quick.Shape(tuple(shape))

    (combination,) = definition.autotune_func(*inputs, *numbers, outputs)
    (typed,) = combination._get_combinations()
    assert list(typed.types) == [_DATA_TYPES[d] for d in (*bound.input_dtypes, *bound.output_dtypes)]
    layouts = [LAYOUTS[tensor.layout].tensorrt_name for tensor in (*kernel.inputs, *kernel.outputs)]
    assert [layout.name for layout in typed.layouts] == layouts
    assert all(kernel.variants[tactic - 1].is_one_launch for tactic in typed.tactics)
    assert typed.tactics, f"no variant of {kernel.name} fits {dict(bound.axes)}"
    usual = bound.variant(H200.sm, H200.sizes)
    assert not usual.is_one_launch or usual.name in {kernel.variants[tactic - 1].name for tactic in typed.tactics}

    for tactic in typed.tactics:
        variant = kernel.variants[tactic - 1]
        compiles = compiled and tactic == typed.tactics[0]
        with nullcontext() if compiles else patch.object(ptx, "compile_variant", not_compiled):
            name, code, parameters, extras = definition.aot_impl_func(*inputs, *numbers, outputs, tactic)
        assert name == kernel.entry(variant)
        if compiles:
            assert f".entry {name}(" in code
            assert f".target sm_{H200.sm}" in code
        assert isinstance(parameters, quick.KernelLaunchParams)
        assert isinstance(extras, quick.SymIntExprs)
        wanted = [dim.evaluate({**bound.axes, **H200.sizes}) for dim in bound.specialized.launch(variant).dims]
        seen = [getattr(parameters, field)._expr.evaluate(sizes) for field in ("grid_x", "grid_y", "grid_z")]
        seen.append(parameters.shared_mem._expr.evaluate(sizes))
        for extra in extras:
            assert isinstance(extra, quick.SymInt32)
            seen.append(extra._expr.evaluate(sizes))
        assert seen == wanted, (kernel.name, variant.name, seen, wanted)
        block = [getattr(parameters, field)._expr.get_constant_value() for field in ("block_x", "block_y", "block_z")]
        assert tuple(block) == variant.launch.block
    SymIntExpr._exprBuilder = None
    return len(typed.tactics)


def tactics_for_range(
    kernel: Kernel, example: Mapping[str, int], axis: str, least: int, most: int, name: str | None = None
) -> set[str]:
    """The variants that the route offers when one axis is open between two sizes, as a profile has it.

    ``name``: that of a kernel with the same tensors.
    """
    definition = QDP_REGISTRY[f"lenet_trt::{name or kernel.name}"]
    ends = [kernel.bind_axes({**example, axis: size}, kernel.types[0]) for size in (least, most)]
    SymIntExpr._exprBuilder = Recorder()
    inputs, _ = described(kernel, ends[0])
    for entry, low, high in zip(inputs, *(end.input_shapes for end in ends), strict=True):
        if low != high:
            dynamic = trt.DynamicPluginTensorDesc()
            dynamic.desc.dims = trt.Dims([a if a == b else -1 for a, b in zip(low, high, strict=True)])
            dynamic.min, dynamic.opt, dynamic.max = trt.Dims(low), trt.Dims(high), trt.Dims(high)
            entry.shape = quick.Shape(dynamic)
    numbers = [a.number(ends[0].attributes[a.name]) for a in kernel.attributes]
    (combination,) = definition.autotune_func(*inputs, *numbers, ())
    SymIntExpr._exprBuilder = None
    (typed,) = combination._get_combinations()
    offered = {kernel.variants[tactic - 1] for tactic in typed.tactics}
    assert all(end.fits(variant) for end in ends for variant in offered)
    return {variant.name for variant in offered}


def refused(kernels: Iterable[Kernel], gpu: Context, said: str) -> None:
    """Check that the route refuses to register these."""
    with pytest.raises(LenetTrtError, match=said):
        ptx.register_ptx(trt, kernels, gpu, lazy=True)


def main() -> None:
    kernels = [*registry.kernels().values(), *map(declared, DECLARED)]
    names = tuple(kernel.name for kernel in kernels)
    assert ptx.register_ptx(trt, kernels, H200, lazy=True) == names
    assert ptx.register_ptx(trt, kernels, H200, lazy=True) == names, "again: nothing happens"
    refused(kernels, replace(H200, sm=80), "is registered for a GPU of sm_90 in this process already")
    other = registry.kernel("maxpool2")
    refused([replace(other)], H200, "another kernel of that name")
    refused([replace(other, name="another", version="2")], H200, "has version 2; .* use the route python")
    softmax = declared("split_softmax")
    split = replace(softmax, name="another", variants=(replace(softmax.variants[0], prefer=None),))
    refused([split], H200, r"another \(fp32\) runs every size only by several launches or with workspace")
    tactics = {}
    for kernel in kernels:
        offered = 0
        for types in kernel.types:
            example = next(e for e in kernel.examples if min(kernel.bind_axes(e, types).axes.values()) > 0)
            offered += check(kernel, kernel.bind_axes(example, types), compiled=types is kernel.types[0])
        last = {a.name: a.examples[-1] for a in kernel.attributes}
        if last and kernel.takes(kernel.examples[-1], last):
            check(kernel, kernel.bind_axes(kernel.examples[-1], kernel.types[0], last), compiled=False)
        tactics[kernel.name] = offered
    pool = declared("average_pool3")
    images = {"n": 3, "c": 6, "h": 5, "w": 9, "pad": 0}
    assert tactics_for_range(pool, images, "w", 3, 9) == {"plain"}
    # Nothing checks the sizes of such a plugin while it runs.
    narrow = replace(pool, name="narrow_pool", requires=pool.inputs[0].shape[3] <= 9, examples=(images,))
    ptx.register_ptx(trt, [narrow], H200, lazy=True)
    assert tactics_for_range(pool, images, "w", 3, 9, narrow.name) == {"plain"}
    with pytest.raises(LenetTrtError, match="narrow_pool wants w <= 9, and the optimization profile allows other siz"):
        tactics_for_range(pool, images, "w", 3, 10, narrow.name)
    lenet5 = registry.kernel("lenet5")
    ranges = {
        f"{least}-{most}": sorted(tactics_for_range(lenet5, lenet5.examples[0], "n", least, most))
        for least, most in ((1, 1), (1, 16), (1, 100_000), (5000, 100_000))
    }
    json.dump({"ranges": ranges, "version": trt.__version__, "tactics": tactics}, sys.stdout)


if __name__ == "__main__":
    main()
