"""TensorRT's runtime through the plugin library's C interface: in real runtimes, as far as that goes without a GPU."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lenet_trt.cuda.gpus import gpus
from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes import tensorrt as runtime_module
from lenet_trt.tensorrt import c_bindings, vouch
from library_probes import HEADERS_FOR, RUNTIMES_ENVIRONMENT, runtimes
from tensorrt_names import used_names
from trtexec_script import write_library

# Of TensorRT-RTX, or what tells of layers, which needs the Python package.
ELSEWHERE = {
    "EngineInspector.execution_context",
    "EngineInspector.get_engine_information",
    "ICudaEngine.create_engine_inspector",
    "ICudaEngine.create_runtime_config",
    "IExecutionContext.profiler",
    "IProfiler",
    "IProfiler.__init__",
    "LayerInformationFormat",
    "LayerInformationFormat.JSON",
}
_PROGRAM = """
import ctypes, json, sys
from pathlib import Path
from lenet_trt.tensorrt.c_bindings import flavor_by_library
from lenet_trt.tensorrt.engine import error_log
from lenet_trt.tensorrt.routes.library import load_library
runtime, library = sys.argv[1:3]
theirs = ctypes.CDLL(runtime, mode=ctypes.RTLD_GLOBAL)
flavor = flavor_by_library(Path(library))
load_library(flavor, Path(library))
log = error_log(flavor.trt)
engine = flavor.trt.Runtime(log).deserialize_cuda_engine(b"ftrt" + bytes(200))
known = [each.name for each in flavor.trt.get_plugin_registry().all_creators]
print(json.dumps([flavor.version, theirs.getInferLibVersion(), known, engine is None, log.errors]))
"""


@pytest.mark.parametrize("runtime", runtimes() or [None], ids=lambda path: path and f"{path.parent.parent.name}")
def test_any_python_loads_tensorrt_and_the_plugin_and_an_engine_is_refused_with_a_reason(library, runtime) -> None:
    if runtime is None:
        pytest.skip(f"no runtime of TensorRT: install tensorrt-lean-cu13, or name folders in {RUNTIMES_ENVIRONMENT}")
    major = runtime.name.rsplit(".", 1)[1]
    command = [sys.executable, "-c", _PROGRAM, str(runtime), str(library(HEADERS_FOR[major]))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    version, number, known, refused, said = json.loads(done.stdout)
    parts = [int(part) for part in version.split(".")]
    assert parts[0] == int(major)
    assert number == (1000 if parts[0] < 10 else 10_000) * parts[0] + 100 * parts[1] + parts[2]
    assert known == ["Kernel"]
    assert refused
    assert said
    if not gpus().devices:
        assert said == ["there is no NVIDIA driver on this machine (libcuda.so.1 is not found)"]


def test_without_tensorrts_own_library_the_error_says_where_to_put_it(tmp_path: Path, monkeypatch) -> None:
    write_library(tmp_path / "plugins.so", "8.6")

    def missing(name: str, *_: object, **__: object) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(LenetTrtError, match=r"is for TensorRT 8, whose library libnvinfer\.so\.8 is not found .*PATH"):
        c_bindings.flavor_by_library(tmp_path / "plugins.so")


def test_it_is_taken_where_a_library_is_given_and_the_package_is_not_here(tmp_path: Path, monkeypatch) -> None:
    write_library(tmp_path / "plugins.so", "8.6")
    sidecar = SimpleNamespace(inputs={"flavor": "tensorrt"})
    monkeypatch.setattr(vouch, "installed", lambda: {"tensorrt": False, "rtx": True})
    monkeypatch.setattr(vouch, "flavor_by_library", lambda path: path)
    assert vouch.flavor_of(sidecar, tmp_path / "plugins.so") == tmp_path / "plugins.so"
    with pytest.raises(LenetTrtError, match="not installed"):
        vouch.flavor_of(sidecar)
    with pytest.raises(LenetTrtError, match="is not there"):
        vouch.flavor_of(sidecar, tmp_path / "none.so")


@pytest.mark.parametrize(
    ("built", "here", "fits"),
    [
        ("8.5.3.1", "8.5.3", True),
        ("8.6.0", "8.6.0", True),
        ("8.6.1", "8.6.0", False),
        ("8.6.10", "8.6.1", False),
        ("1.7.1.116", "1.7.1.9", False),
    ],
)
def test_a_build_number_that_tensorrt_does_not_tell_is_no_other_version(monkeypatch, built, here, fits) -> None:
    monkeypatch.setattr(vouch, "first_gpu", lambda: None)
    sidecar = SimpleNamespace(inputs={"flavor": "tensorrt", "flavor_version": built})
    flavor = SimpleNamespace(name="tensorrt", version=here, product=f"TensorRT {here}")
    reason = vouch.engine_obstacle(Path("x.engine"), sidecar, flavor)
    assert str(reason).startswith("there is no GPU" if fits else f"the engine was built by version {built}")


def test_it_has_every_name_that_running_an_engine_needs() -> None:
    classes = {"ICudaEngine": c_bindings._Engine, "IExecutionContext": c_bindings._Context}
    names = set(used_names(Path(runtime_module.__file__)))
    assert {name.partition(".")[0] for name in names} > set(classes)
    for name in names - ELSEWHERE:
        first, _, rest = name.partition(".")
        if first in classes:
            assert hasattr(classes[first], rest), name
        elif not first.startswith("IRuntime"):  # TensorRT-RTX alone
            assert hasattr(c_bindings.CBindings, first), name
