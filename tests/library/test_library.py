"""The plugin library compiled against TensorRT's headers, in real registries, and in TensorRT-RTX's builder."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from declared_kernels import DECLARED, FOLDER, declared, last_attributes
from lenet_trt.cuda.compile import cuda_include_dir
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import registry
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.dims import as_dim
from lenet_trt.tensorrt.library.compile import compile_library, find_headers
from lenet_trt.tensorrt.library.embed import embedded
from library_probes import (
    HEADERS_FOR,
    HERE,
    RUNTIMES_ENVIRONMENT,
    VERSIONS,
    compiled,
    data_of,
    headers_of,
    missing_compiler,
    one_node,
    runtimes,
)
from shared_session import made_once

pytestmark = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
# Other tests load those of 10.16 and 11.1.
QUICK = ("10.16", "11.1")
EXPORTED = {
    "8.5": {"getPluginCreators"},
    "8.6": {"getPluginCreators", "setLoggerFinder"},
    "10.0": {"getCreators", "setLoggerFinder"},
    "10.16": {"getCreators", "setLoggerFinder"},
    "11.1": {"getCreators", "setLoggerFinder"},
}


@pytest.mark.parametrize(
    "version", [v if v in QUICK else pytest.param(v, marks=pytest.mark.slow) for v in VERSIONS], ids=str
)
def test_it_compiles_without_a_warning_and_needs_neither_tensorrt_nor_cuda(library, version: str) -> None:
    compiled_library = library(version)
    listed = subprocess.run(["nm", "-D", compiled_library], capture_output=True, text=True, check=True).stdout
    symbols = [line.split() for line in listed.splitlines()]
    exported = {words[-1] for words in symbols if words[-2] == "T"}
    assert exported >= EXPORTED[version]
    undefined = [words[-1] for words in symbols if words[0] == "U"]
    assert not [name for name in undefined if re.match(r"cu[A-Z]|cuda|createInfer|getPlugin|getLogger", name)]
    needed = subprocess.run(["readelf", "-d", compiled_library], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"NEEDED.*(nvinfer|libcuda|cudart)", needed)


@pytest.mark.slow
def test_it_takes_what_a_compiler_without_a_shared_library_brings(tmp_path: Path) -> None:
    headers = headers_of("8.6")
    if headers is None:
        pytest.skip("TensorRT's headers of 8.6 are not here")
    path = tmp_path / "x.so"
    compile_library(path, headers, options=["-static-libstdc++"])
    needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    assert "libstdc++" not in needed
    ctypes.CDLL(str(path))


def registry_probe(factory: pytest.TempPathFactory, version: str) -> Path:
    """Compile the program for that version's headers."""
    headers = headers_of(version)
    if headers is None:
        pytest.skip(f"no headers of TensorRT {version} are here")
    includes = [f"-isystem{folder}" for folder in (headers.folder, cuda_include_dir())]
    options = ("-Wno-deprecated-declarations", *includes)
    return made_once(factory, f"registry_probe-{version}", lambda path: compiled("registry_probe", path, *options))


@pytest.mark.parametrize(
    "how",
    ["open close open", "local open close open", "load drop load drop", "open load drop", "load open close"],
    ids=lambda how: how,
)
@pytest.mark.parametrize("runtime", runtimes() or [None], ids=lambda runtime: runtime and runtime.name)
def test_creators_are_found_once_however_it_is_loaded(
    library, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, runtime: Path | None, how: str
) -> None:
    if runtime is None:
        pytest.skip(f"no runtime of TensorRT: install tensorrt-lean-cu13, or name folders in {RUNTIMES_ENVIRONMENT}")
    version = HEADERS_FOR[runtime.name.rsplit(".", 1)[1]]
    file = library(version)
    kernel = registry.kernel("lenet5")
    (tmp_path / "data").write_bytes(data_of(kernel.bind_axes({"n": 3}, kernel.types_named("fp32")), ["sm_90"]))
    program = registry_probe(tmp_path_factory, version)
    done = subprocess.run([program, runtime, file, tmp_path / "data", *how.split()], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}{done.stderr}"
    uses = re.split(r"^-- ", done.stdout, flags=re.MULTILINE)[1:]
    assert [use.split()[0] for use in uses] == how.removeprefix("local ").split()
    for use in uses:
        if use.startswith("drop"):
            assert "gone" in use
        else:
            assert "listed 1\n" in use
            assert "outputs 1 type 0 tactics 1" in use
            assert "supports 1000" in use
            assert "stored 1" in use
            assert "cut refused 1" in use
    assert "it was cut" in done.stderr


@pytest.mark.parametrize("how", ["open", "local open", "load"])
@pytest.mark.parametrize("runtime", runtimes() or [None], ids=lambda runtime: runtime and runtime.name)
def test_a_library_for_another_tensorrt_is_not_used_and_says_why(
    library, tmp_path_factory: pytest.TempPathFactory, runtime: Path | None, how: str
) -> None:
    if runtime is None:
        pytest.skip(f"no runtime of TensorRT: install tensorrt-lean-cu13, or name folders in {RUNTIMES_ENVIRONMENT}")
    major = runtime.name.rsplit(".", 1)[1]
    program = registry_probe(tmp_path_factory, HEADERS_FOR[major])
    for other in ("8.6", "10.16", "11.1"):
        made_for = other.partition(".")[0]
        if made_for == major:
            continue
        command = [program, runtime, library(other), "/dev/null", *how.split()]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stdout == ("not loaded\n" if how == "load" else "-- open\nno creator\n")
        assert f"was compiled for TensorRT {made_for}, and the process has TensorRT {major}: compile" in done.stderr


# Kernels that use different parts of a declaration; the slow tests build all.
USUAL = {"lenet5", "maxpool2", "topk", "batched_matmul", "depthwise_conv", *DECLARED}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in USUAL else pytest.mark.slow) for n in (*registry.kernels(), *DECLARED)],
)
def test_tensorrt_rtx_builds_an_engine_of_every_kernel_through_it(
    library, tmp_path: Path, monkeypatch, name: str
) -> None:
    file = library("11.1")
    kernel = declared(name)
    monkeypatch.setenv(registry.ENVIRONMENT, str(FOLDER))
    models = []
    for types in kernel.types:
        for open_axes in (True, False):
            path = tmp_path / f"{types.name}-{open_axes}.onnx"
            onnx.save(embedded(one_node(kernel, types.name, open_axes), ["sm_75"]), path)
            models.append(path)
    script = HERE / "rtx_builds.py"
    done = subprocess.run([sys.executable, script, file, *models], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(models)
    for answer, path in zip(answers, models, strict=True):
        node = onnx.load(path).graph.node[0]
        data = next(attribute.t.raw_data for attribute in node.attribute if attribute.name == "data")
        assert answer["plugins"] == ["node"]
        assert answer["engine_bytes"] > len(data)
        assert answer["has_data"] is True
        assert answer["has_library"] is (path == models[0])
        assert answer["outputs"] == declared_outputs(kernel, "True" in path.name)


def test_a_second_copy_registers_nothing_and_the_plugin_still_works(library, tmp_path: Path) -> None:
    if not runtimes():
        pytest.skip(f"no runtime of TensorRT: install tensorrt-lean-cu13, or name folders in {RUNTIMES_ENVIRONMENT}")
    runtime = runtimes()[-1]
    file = library(HEADERS_FOR[runtime.name.rsplit(".", 1)[1]])
    copy = tmp_path / "copy.so"
    copy.write_bytes(file.read_bytes())
    script = f"""
import ctypes
runtime = ctypes.CDLL({str(runtime)!r}, mode=ctypes.RTLD_GLOBAL)
for file in ({str(file)!r}, {str(copy)!r}):
    ctypes.CDLL(file, mode=2)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout + done.stderr == ""


def test_a_library_for_another_tensorrt_says_so_when_it_is_opened(library, tmp_path: Path) -> None:
    file = library("10.16")
    other = tmp_path / "libnvinfer.so.11"
    command = ["g++", "-shared", "-x", "c++", "/dev/null", f"-Wl,-soname,{other.name}", "-o", other]
    subprocess.run(command, check=True)
    script = f"import ctypes; ctypes.CDLL({str(other)!r}); ctypes.CDLL({str(file)!r}, mode=2)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert "was compiled for TensorRT 10, and the process has TensorRT 11: compile it with the headers" in done.stderr


def declared_outputs(kernel: Kernel, open_axes: bool) -> list[list[int]]:
    """The output shapes of ``one_node``; -1 where they depend on an open axis."""
    chosen = last_attributes(kernel, kernel.examples[1])
    bound = kernel.bind_axes(kernel.examples[1], kernel.types[0], chosen)
    fixed = {*chosen, *(kernel.static_axes if open_axes else (axis.name for axis in kernel.axes))}
    return [
        [s if as_dim(d).axes <= fixed else -1 for d, s in zip(tensor.shape, shape, strict=True)]
        for tensor, shape in zip(kernel.outputs, bound.output_shapes, strict=True)
    ]


def test_headers_that_are_missing_or_too_old_say_where_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(LenetTrtError, match=r"has no NvInferRuntime\.h.*libnvinfer-headers-dev"):
        find_headers(tmp_path)
    (tmp_path / "NvInferRuntime.h").touch()
    version = tmp_path / "NvInferVersion.h"
    version.write_text("#define NV_TENSORRT_MAJOR 8\n#define NV_TENSORRT_MINOR 4\n#define NV_TENSORRT_PATCH 3\n")
    with pytest.raises(LenetTrtError, match=r"8\.4\.3; the plugin library needs 8\.5"):
        find_headers(tmp_path)
    version.write_text("")
    with pytest.raises(LenetTrtError, match="does not say"):
        find_headers(tmp_path)


def test_a_compiler_that_is_missing_or_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "NvInferRuntime.h").write_text("#error no such TensorRT\n")
    (tmp_path / "NvInferVersion.h").write_text(
        "#define NV_TENSORRT_MAJOR 10\n#define NV_TENSORRT_MINOR 4\n#define NV_TENSORRT_PATCH 3\n"
    )
    headers = find_headers(tmp_path)
    with pytest.raises(LenetTrtError, match="no-such-compiler is not here"):
        compile_library(tmp_path / "x.so", headers, compiler="no-such-compiler")
    with pytest.raises(LenetTrtError, match="no such TensorRT"):
        compile_library(tmp_path / "x.so", headers, options=["-fsyntax-only", "-Wfatal-errors"])
    assert not (tmp_path / "x.so").exists()
