"""Run a kernel's source on the CPU: ``cuda_on_cpu`` has what it includes, and every thread is a fiber."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.types import ELEMENT_TYPES, numpy_dtype
from lenet_trt.kernel.variants import Variant

HEADERS = Path(__file__).parent / "cuda_on_cpu"
MULTIPROCESSORS = 2
needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ compiles the kernel for the CPU")

_MAIN = """
#include "SOURCE"
#include <fstream>
#include <iterator>

template <typename T>
std::vector<T> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

template <typename T>
void write(const char* path, const std::vector<T>& values) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

CHECKS
int main() {
LINES
}
"""


def computed_on_cpu(
    bound: Bound, variant: Variant, inputs: Sequence[np.ndarray], folder: Path, checks: str = ""
) -> list[np.ndarray]:
    """Return what a variant computes from the kernel's inputs; ``checks`` is C++ to compile with it."""
    kernel = bound.kernel
    launch = bound.specialized.launch(variant)
    sizes = dict(bound.axes)
    sizes |= dict.fromkeys(frozenset().union(*(dim.axes for dim in launch.dims)) - sizes.keys(), MULTIPROCESSORS)
    grid_x, grid_y, _, _, *extras = (dim.evaluate(sizes) for dim in launch.dims)
    lines, arguments = [], []
    for tensor, array, dtype in zip(kernel.inputs, inputs, bound.input_dtypes, strict=True):
        array.tofile(folder / tensor.name)
        lines.append(f'const auto {tensor.name} = read<{ELEMENT_TYPES[dtype].cuda_name}>("{folder / tensor.name}");')
        arguments.append(f"{tensor.name}.data()")
    arguments += map(str, extras)
    for tensor, shape, dtype in zip(kernel.outputs, bound.output_shapes, bound.output_dtypes, strict=True):
        size, kind = int(np.prod(shape)), ELEMENT_TYPES[dtype].cuda_name
        lines += [f"std::vector<{kind}> {tensor.name}({size});"]
        lines += [f"std::memset({tensor.name}.data(), 0xff, {size} * sizeof({kind}));"]  # elements not written show
        arguments.append(f"{tensor.name}.data()")
    call = f"{kernel.entry(variant)}({', '.join(arguments)})"
    lines.append(f"launch({grid_x}, {grid_y}, {launch.block[0]}, [&] {{ {call}; }});")
    for tensor in kernel.outputs:
        lines.append(f'write("{folder / tensor.name}", {tensor.name});')
    source = str(kernel.source_dir / variant.source)
    main = folder / "main.cpp"
    main.write_text(
        _MAIN.replace("SOURCE", source).replace("CHECKS", checks).replace("LINES", "\n".join(f"  {x}" for x in lines))
    )
    options = ["-std=c++17", "-O1", "-w", f"-I{HEADERS}", f"-I{kernel.source_dir.parent}"]
    options += [f"-D{macro}" for macro in bound.specialized.macros]
    subprocess.run(["g++", *options, str(main), "-o", str(folder / "program")], check=True)
    subprocess.run([folder / "program"], check=True)
    return [
        np.fromfile(folder / tensor.name, numpy_dtype(dtype)).reshape(shape)
        for tensor, shape, dtype in zip(kernel.outputs, bound.output_shapes, bound.output_dtypes, strict=True)
    ]
