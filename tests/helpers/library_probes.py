"""The plugin library's C++ compiled for the tests, and what they need to drive it."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import pytest
from onnx import helper

from declared_kernels import last_attributes
from lenet_trt.cli import main
from lenet_trt.cuda.compile import Module
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.dims import as_dim
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.tensorrt.library.compile import SOURCES, Headers, find_headers
from lenet_trt.tensorrt.library.embed import usable
from lenet_trt.tensorrt.library.encode import EncodedVariant, TunedGpu, encode
from lenet_trt.tensorrt.library.sizes import sizes_of
from shared_session import made_once

HERE = Path(__file__).parents[1] / "library"
# Sources that know neither TensorRT nor, unless a kernel is launched, CUDA.
CORE = ("call", "driver", "expression", "kernel_data", "loaded_kernel", "sha256")
SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# Folders of TensorRT's headers by version; the tests that need them are skipped where they are not.
HEADERS_ENVIRONMENT = "LENET_TRT_TENSORRT_HEADERS"
# Folders, or files, of TensorRT's runtimes: libnvinfer.so.8, libnvinfer_lean.so.10, ...
RUNTIMES_ENVIRONMENT = "LENET_TRT_TENSORRT_RUNTIMES"
# The headers of which the library is made for a runtime of that major version.
HEADERS_FOR = {"8": "8.6", "10": "10.16", "11": "11.1"}
VERSIONS = ("8.5", "8.6", "10.0", "10.16", "11.1")


def missing_compiler() -> str | None:
    """Why C++ cannot be compiled here, or None."""
    return None if shutil.which("g++") else "there is no g++"


def headers_of(version: str) -> Headers | None:
    """TensorRT's headers of that version, if they are here."""
    parents = [Path(text) for text in filter(None, os.environ.get(HEADERS_ENVIRONMENT, "").split(os.pathsep))]
    repository = HERE.parents[1]
    for parent in [*parents, *(folder / "shared" / "tensorrt-headers" for folder in repository.parents)]:
        try:
            return find_headers(parent / version)
        except LenetTrtError:
            continue
    return None


def runtimes() -> list[Path]:
    """The runtimes of TensorRT that are here; a lean one is enough for its plugin registry."""
    folders = [Path(text) for text in filter(None, os.environ.get(RUNTIMES_ENVIRONMENT, "").split(os.pathsep))]
    for package in ("tensorrt_lean_libs", "tensorrt_libs"):
        spec = importlib.util.find_spec(package)
        folders += map(Path, spec.submodule_search_locations or ()) if spec else []
    found = [path for folder in folders for path in sorted(folder.rglob("libnvinfer*.so.*"))]
    return [path for path in found if re.fullmatch(r"libnvinfer(_lean)?\.so\.\d+", path.name)]


def compiled(program: str, output: Path, *options: str, sources: Sequence[str] = (), compiler: str = "g++") -> Path:
    """Compile one of the test programs here, with sources of the library."""
    files = [str(HERE / f"{program}.cpp"), *(str(SOURCES / f"{name}.cpp") for name in sources)]
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}", *options, *files]
    subprocess.run([*command, "-o", str(output), "-ldl", "-pthread"], check=True)
    return output


def library_for(factory: pytest.TempPathFactory, version: str) -> Path:
    """The library for a version of TensorRT, compiled by the verb without a warning; skips where that cannot be."""
    headers = headers_of(version)
    if missing_compiler() or headers is None:
        pytest.skip(missing_compiler() or f"TensorRT's headers of {version} are not here")
    words = ["library", "--headers", str(headers.folder.parent), "--json"]

    def make(output: Path) -> None:
        flags = {"CXXFLAGS": "-O0 -Wall -Wextra -Werror"}
        with mock.patch.dict(os.environ, flags), contextlib.redirect_stdout(io.StringIO()) as printed:
            assert main([*words, "-o", str(output)]) == 0
        assert json.loads(printed.getvalue()) == {"library": str(output), "tensorrt": headers.version_text}

    return made_once(factory, f"library/liblenet_trt_plugins-{version}.so", make)


class Core:
    """The compiled ``core_probe``: each question is a line, and so is its answer."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words: object) -> str:
        """Ask a question; the program must not have ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()
        answer = stdout.readline()
        assert answer, f"the program ended with {self._process.wait()} at: {words[0]}"
        return answer.strip()

    def close(self) -> None:
        """End the program."""
        self._process.communicate()


def data_of(
    bound: Bound,
    targets: Sequence[str],
    known: Iterable[str] = (),
    cuda: int = 13000,
    tuned: Sequence[TunedGpu] = (),
    words: Set[str] = frozenset(),
    waits: bool = False,
) -> bytes:
    """Encode a call's kernel with other bytes in the place of images; static axes and those in ``known`` are known.

    ``waits``: its variants wait for the kernel before them.
    """
    fixed = {*bound.kernel.static_axes, *known}
    shapes = [
        tuple(
            size if as_dim(declared).axes <= fixed else UNKNOWN for declared, size in zip(t.shape, shape, strict=True)
        )
        for t, shape in zip(bound.kernel.inputs, bound.input_shapes, strict=True)
    ]
    sizes = sizes_of(bound.specialized, shapes)
    variants = [
        EncodedVariant(
            variant,
            tuple(
                tuple(Module(f"{part.name} {t}".encode().ljust(48, b"\0"), t, "", (), waits) for t in chosen)
                for part in variant.parts
            ),
        )
        for variant, chosen in usable(bound.specialized, sizes, targets)
    ]
    return encode("node", bound.specialized, sizes, variants, cuda, tuned, words)


def text_of(shapes: Iterable[Shape]) -> str:
    """Shapes as the probe reads them."""
    return " ".join(",".join(map(str, shape)) or "." for shape in shapes)


def hexadecimal(code: bytes) -> str:
    """An expression's code as the probe reads it."""
    return code.hex() or "."


def one_node(kernel: Kernel, types_name: str, open_axes: bool) -> onnx.ModelProto:
    """A fused model with the kernel's node alone; weights are constants, axes that may vary are open or fixed."""
    types = kernel.types_named(types_name)
    chosen = last_attributes(kernel, kernel.examples[1])
    bound = kernel.bind_axes(kernel.examples[1], types, chosen)
    static = set(kernel.static_axes)
    rng = np.random.default_rng(5)
    inputs, weights = [], []
    for tensor, shape in zip(kernel.inputs, bound.input_shapes, strict=True):
        dtype = numpy_dtype(types.resolve(tensor.dtype))
        if tensor.weight:
            weights.append(onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(dtype), tensor.name))
            continue
        declared = [
            str(d) if open_axes and not as_dim(d).axes <= static else s
            for d, s in zip(tensor.shape, shape, strict=True)
        ]
        inputs.append(helper.make_tensor_value_info(tensor.name, helper.np_dtype_to_tensor_dtype(dtype), declared))
    outputs = []
    for tensor, shape in zip(kernel.outputs, bound.output_shapes, strict=True):
        elem = helper.np_dtype_to_tensor_dtype(numpy_dtype(types.resolve(tensor.dtype)))
        outputs.append(helper.make_tensor_value_info(tensor.name, elem, [None] * len(shape)))
    attributes = {a.name: a.number(bound.attributes[a.name]) for a in kernel.attributes}
    node = helper.make_node(
        kernel.name,
        [tensor.name for tensor in kernel.inputs],
        [tensor.name for tensor in kernel.outputs],
        name="node",
        domain=DOMAIN,
        plugin_version="1",
        plugin_namespace=DOMAIN,
        **attributes,
    )
    graph = helper.make_graph([node], "one", inputs, outputs, weights)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)], ir_version=9
    )
