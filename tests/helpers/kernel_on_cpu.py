"""Run a kernel's source on the CPU: ``cuda_on_cpu`` has what it includes, and every thread is a fiber."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.kernel.attributes import AttributeValue
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.examples import disagreement, expected_outputs, kernel_inputs, plain_inputs
from lenet_trt.kernel.layouts import LAYOUTS
from lenet_trt.kernel.tensor_maps import SpecializedMap
from lenet_trt.kernel.types import ELEMENT_TYPES, numpy_dtype
from lenet_trt.kernel.variants import Variant
from shared_session import made_once

HEADERS = Path(__file__).parent / "cuda_on_cpu"
MULTIPROCESSORS = 2
# Shared memory is a variable of a thread, and no constructor makes it.
COMPILER = ("g++", "-std=c++17", "-Og", "-w", "-fno-extern-tls-init")
needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ compiles the kernel for the CPU")

# Its arguments are the launch, the kernel's integers and the lengths of its outputs: calls of all sizes share it.
_MAIN = """
#include "SOURCE"

CHECKS
int main(int, char** words) {
  const auto number = [&] { return std::atoi(*++words); };
LINES
}
"""


def computed_on_cpu(
    bound: Bound,
    variant: Variant,
    inputs: Sequence[np.ndarray],
    factory: pytest.TempPathFactory,
    checks: str = "",
    maps: bool = True,
) -> list[np.ndarray]:
    """Return what a variant computes from the kernel's inputs; ``checks`` is C++ to compile with it.

    Without ``maps`` it is launched as a route does that cannot pass tensor maps.
    """
    kernel = bound.kernel
    folder = factory.mktemp("on_cpu")
    (folder / "workspace").write_bytes(b"\xff" * bound.workspace_bytes(variant))
    for tensor, array in zip(kernel.inputs, inputs, strict=True):
        padding = np.nan if array.dtype.kind not in "iu" else 7  # behind the last channel: nothing may come of it
        LAYOUTS[tensor.layout].store(array, padding).tofile(folder / tensor.name)
    for part in variant.parts:
        _launch_on_cpu(bound, part, folder, factory, checks, maps)
    results = []
    for index, tensor in enumerate(kernel.outputs):
        stored = np.fromfile(folder / tensor.name, numpy_dtype(bound.output_dtypes[index]))
        array, padding = LAYOUTS[tensor.layout].load(
            stored.reshape(bound.stored_output_shapes[index]), bound.output_shapes[index]
        )
        assert not np.any(padding), "there are zeros behind the last channel"
        results.append(array)
    return results


def _launch_on_cpu(
    bound: Bound, variant: Variant, folder: Path, factory: pytest.TempPathFactory, checks: str, maps: bool
) -> None:
    """Run one launch, whose inputs, outputs and workspace are files in ``folder``."""
    launch = bound.specialized.launch(variant)
    sizes = dict(bound.axes)
    sizes |= dict.fromkeys(frozenset().union(*(dim.axes for dim in launch.dims)) - sizes.keys(), MULTIPROCESSORS)
    grid_x, grid_y, _, shared_bytes, *extras = (dim.evaluate(sizes) for dim in launch.dims)
    words = [
        grid_x,
        grid_y,
        launch.block[0],
        shared_bytes,
        _cluster_blocks(variant),
        *extras,
        *(int(np.prod(shape)) for shape in bound.stored_output_shapes),
    ]
    passed = bound.specialized.maps(variant) if maps else ()
    words += [size for each in passed for size in each.sizes(sizes)]
    words += [bound.workspace_bytes(variant)] if launch.workspace else []
    program = _program(bound, variant, factory, checks, passed)
    subprocess.run([program, *map(str, words)], cwd=folder, check=True)


def unchanged(plain: list[np.ndarray]) -> None:
    """Change no input."""


def disagreement_on_cpu(
    kernel: Kernel,
    variant: str,
    axes: Mapping[str, int],
    attributes: Mapping[str, AttributeValue],
    change: Callable[[list[np.ndarray]], None],
    factory: pytest.TempPathFactory,
    types: str = "fp32",
    maps: bool = True,
) -> str | None:
    """Say how a variant differs from the reference, after ``change`` of the inputs as ONNX has them."""
    bound = kernel.bind_axes(axes, kernel.types_named(types), attributes)
    return disagreement_of_call(bound, kernel.variant(variant), factory, change, maps)


def disagreement_of_call(
    bound: Bound,
    variant: Variant,
    factory: pytest.TempPathFactory,
    change: Callable[[list[np.ndarray]], None] = unchanged,
    maps: bool = True,
) -> str | None:
    """Say the same of a call that is bound."""
    assert bound.fits(variant)
    plain = plain_inputs(bound, np.random.default_rng(5))
    change(plain)
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = expected_outputs(bound, plain)
    found = computed_on_cpu(bound, variant, kernel_inputs(bound, plain), factory, maps=maps)
    pairs = zip(found, wanted, strict=True)
    return next(filter(None, (disagreement(*pair, bound.types.tolerance) for pair in pairs)), None)


def _cluster_blocks(variant: Variant) -> int:
    """Return the blocks of a cluster, which the names of such variants tell: by2, by8_rows4, cluster4."""
    found = re.match(r"(?:by|cluster)(\d+)", variant.name)
    return int(found[1]) if found else 1


def _precompile(path: Path) -> None:
    subprocess.run([*COMPILER, "-x", "c++-header", str(HEADERS / "common.cuh"), "-o", str(path)], check=True)


def _compile_fibers(path: Path) -> None:
    # Compiled once and run by all: only this is worth optimizing.
    command = [*COMPILER, "-O2", f"-I{HEADERS}", "-c", str(HEADERS / "fibers.cpp"), "-o", str(path)]
    subprocess.run(command, check=True)


def _program(
    bound: Bound, variant: Variant, factory: pytest.TempPathFactory, checks: str, maps: Sequence[SpecializedMap]
) -> Path:
    """Compile the program that runs a variant."""
    kernel, count = bound.kernel, len(bound.specialized.launch(variant).dims) - 4
    lines = ["const int grid_x = number(), grid_y = number(), threads = number();"]
    lines += ["const int shared_bytes = number(), cluster_size = number();"]
    lines += [f"const int extra{index} = number();" for index in range(count)]
    arrays = [
        *zip(kernel.inputs, bound.input_dtypes, strict=True),
        *zip(kernel.outputs, bound.output_dtypes, strict=True),
    ]
    types = {tensor.name: ELEMENT_TYPES[dtype].cuda_name for tensor, dtype in arrays}
    for tensor in kernel.inputs:
        lines.append(f'const auto {tensor.name} = static_cast<const {types[tensor.name]}*>(read("{tensor.name}"));')
    for tensor in kernel.outputs:
        kind = types[tensor.name]
        lines.append(f"const size_t {tensor.name}_bytes = number() * sizeof({kind});")
        # Elements that are not written show.
        lines.append(f"const auto {tensor.name} = static_cast<{kind}*>(unwritten({tensor.name}_bytes));")
    arguments = [tensor.name for tensor in kernel.inputs]
    arguments += [f"extra{index}" for index in range(count)]
    arguments += [tensor.name for tensor in kernel.outputs]
    for index, each in enumerate(maps):
        shape, box = ", ".join(["number()"] * len(each.box)), ", ".join(map(str, each.box))
        lines.append(f"const TensorMap map{index} = {{{each.tensor}, {each.element_bytes}, {{{shape}}}, {{{box}}}}};")
        arguments.append(f"map{index}")
    if variant.launch.workspace:
        lines.append('const auto workspace = read("workspace");')
        lines.append("const size_t workspace_bytes = number();")
        arguments.insert(len(arguments) - len(maps), "workspace")
    call = f"{kernel.entry(variant)}({', '.join(arguments)})"
    lines.append(f"launch(grid_x, grid_y, threads, shared_bytes, cluster_size, [&] {{ {call}; }});")
    lines += [f'write("{tensor.name}", {tensor.name}, {tensor.name}_bytes);' for tensor in kernel.outputs]
    if variant.launch.workspace:
        lines.append('write("workspace", workspace, workspace_bytes);')
    source = str(kernel.source_dir / variant.source)
    text = (
        _MAIN.replace("SOURCE", source).replace("CHECKS", checks).replace("LINES", "\n".join(f"  {x}" for x in lines))
    )
    precompiled = made_once(factory, "common.cuh.gch", _precompile).with_suffix("")
    fibers = made_once(factory, "fibers.o", _compile_fibers)
    folders = (f"-I{HEADERS}", f"-I{kernel.source_dir.parent}")
    command = [*COMPILER, *folders, "-include", str(precompiled), str(fibers), "-x", "c++", "-"]
    macros = [*bound.specialized.macros, f"LAUNCH_THREADS={bound.specialized.launch(variant).block[0]}"]
    macros += [f"LAUNCH_MAPS={len(maps)}"] if variant.launch.maps else []
    command += [f"-D{macro}" for macro in macros]
    name = f"{kernel.name}-{hashlib.sha256(repr((text, command)).encode()).hexdigest()[:16]}"
    return made_once(
        factory, name, lambda path: subprocess.run([*command, "-o", str(path)], input=text, text=True, check=True)
    )
