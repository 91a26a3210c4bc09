"""The convolutions of few channels or filters on the CPU: their source, a thread of the host for each of theirs."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.dims import as_dim
from lenet_trt.kernel.attributes import AttributeValue
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.examples import relative_error
from lenet_trt.kernel.registry import kernel, plugins_dir
from library_probes import missing_compiler

HERE = Path(__file__).parent / "emulated"
DTYPES = {"fp32": np.float32, "fp16": np.float16}
ENTRY = """
extern "C" bool run(const T* x, const T* w, const T* bias, int n, T* y, int across, int down, int threads, int shared) {
  return launch({across, down}, threads, shared, [=] { KERNEL_ENTRY(x, w, bias, n, y); });
}
"""
# Odd sizes, more filters or channels than one pass takes, both ways to lay pixels on lanes.
LAYERS = {
    "7x7/2": ("few_channel_conv", {"n": 2, "c": 3, "h": 21, "w": 45, "k": 20}, {"size": 7, "stride": 2, "pad": 3}),
    "3x3/2": ("few_channel_conv", {"n": 1, "c": 3, "h": 20, "w": 64, "k": 16}, {"size": 3, "stride": 2, "pad": 1}),
    "5x5": ("few_channel_conv", {"n": 1, "c": 1, "h": 11, "w": 40, "k": 40}, {"size": 5, "stride": 1, "pad": 2}),
    "5x5 to 7": ("few_filter_conv", {"n": 1, "c": 11, "h": 9, "w": 28, "k": 7}, {"size": 5, "stride": 1, "pad": 2}),
    "4x4/2 to 3": ("few_filter_conv", {"n": 1, "c": 9, "h": 21, "w": 43, "k": 3}, {"size": 4, "stride": 2, "pad": 0}),
}
# Compiling takes seconds: some cases always, the others with the slow tests.
ALWAYS = (
    ("fp16", "7x7/2", "small"),
    ("fp32", "3x3/2", "small"),
    ("fp16", "5x5", "large"),
)
CASES = [
    pytest.param(name, layer, types.name, variant.name, marks=[] if case in ALWAYS else pytest.mark.slow)
    for layer, (name, _, _) in LAYERS.items()
    for types in kernel(name).types
    if types.name in DTYPES
    for variant in kernel(name).variants
    if variant.name != "wgmma"  # test_few_channel_wgmma_emulated.py
    for case in [(types.name, layer, variant.name)]
]


def translated(declared: Kernel, source: str) -> str:
    """Return a source with what it includes, as C++ for the CPU."""
    header = "direct.cuh" if source == "kernel.cu" else "tensor_core.cuh"
    layer = ("windows/activation.cuh", "windows/windows.cuh", "few_channels/layer.cuh")
    shared = ("split_floats/cut_sums.cuh", *layer, f"few_channels/{header}")
    text = "".join((plugins_dir() / name).read_text() for name in (*shared, f"{declared.name}/{source}"))
    text = re.sub(r"^#(include|pragma once).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"extern __shared__ .* shared\[\];", "unsigned char* shared = dynamic_shared;", text)
    assert "asm" not in text, source
    return f'#include "block.h"\n{text}{ENTRY}'


@pytest.mark.parametrize(("name", "layer", "types", "variant"), CASES)
def test_a_variant_computes_the_reference(name: str, layer: str, types: str, variant: str, tmp_path: Path) -> None:
    if missing_compiler():
        pytest.skip(missing_compiler())
    _, axes, sizes = LAYERS[layer]
    attributes: dict[str, AttributeValue] = {**sizes, "activation": "none"}
    kernel_ = kernel(name)
    declared = kernel_.variant(variant)
    bound = kernel_.bind_axes(axes, kernel_.types_named(types), attributes)
    assert bound.fits(declared)
    (tmp_path / "kernel.cpp").write_text(translated(kernel_, declared.source))
    macros = [f"-D{macro.removeprefix('--define-macro=')}" for macro in bound.specialized.macros]
    macros = [
        *macros,
        f"-DKERNEL_ENTRY={kernel_.entry(declared)}",
        "-DTYPE_T=" + ("float" if types == "fp32" else "__half"),
    ]
    # Without -fno-gnu-unique, two libraries in this process would share their shared memory.
    macros.append("-fno-gnu-unique")
    command = ["g++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread", *dict.fromkeys(macros), f"-I{HERE}"]
    command += [str(tmp_path / "kernel.cpp"), "-o", str(tmp_path / "kernel.so")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    shape = {**bound.sizes, "multiprocessors": 1}
    across, down = (as_dim(size).evaluate(shape) for size in declared.launch.grid[:2])
    shared = as_dim(declared.launch.shared_bytes).evaluate(shape)
    run = ctypes.CDLL(str(tmp_path / "kernel.so")).run
    run.restype = ctypes.c_bool
    random = np.random.default_rng(1)
    for infinite in (False, True):
        x, w, bias = (random.standard_normal(shape).astype(DTYPES[types]) for shape in bound.input_shapes)
        if infinite:
            x.reshape(-1)[::97] = np.inf
        y = np.full(bound.output_shapes[0], 12345, DTYPES[types])
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, w, bias, y)]
        beyond = run(*pointers[:3], axes["n"], pointers[3], across, down, declared.launch.block[0], shared)
        assert not beyond, "more shared memory was written than the launch has"
        with np.errstate(invalid="ignore"):
            wanted = kernel_.reference(*(array.astype(np.float64) for array in (x, w, bias)), **attributes)
        finite = np.isfinite(wanted)
        assert finite.all() != infinite
        assert np.array_equal(y[~finite].astype(np.float64), wanted[~finite], equal_nan=True)
        assert relative_error(y[finite], wanted[finite]) < bound.types.tolerance
