"""What gets installed where, and what happens where a package has none for the machine."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Where the folders of the repository lie in the package.
HOMES = {
    "lenet_trt": "lenet_trt",
    "export": "lenet_trt/export",
    "plugins": "lenet_trt/plugins",
    "docs/results": "lenet_trt/records",
}
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
# Packages of which PyPI has wheels for Linux on x86-64 alone, or for a CUDA that a Jetson may not have.
X86_64_ALONE = {
    "tensorrt-rtx",
    "tensorrt-cu13-bindings",
    "cuda-bindings",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime",
    "nvidia-cuda-crt",
}


def wanted(machine: str, python: str, extra: str = "") -> dict[str, Requirement]:
    """The requirements that hold on a Linux machine, by name."""
    environment = {
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": extra,
    }
    lines = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found = [Requirement(line) for line in lines]
    return {entry.name: entry for entry in found if entry.marker is None or entry.marker.evaluate(environment)}


@pytest.mark.parametrize("python", PYTHONS)
def test_on_a_jetson_nothing_is_asked_for_that_has_no_package_there(python: str) -> None:
    assert not X86_64_ALONE & wanted("aarch64", python).keys()
    assert not {"tensorrt-rtx", "tensorrt-cu13-bindings"} & wanted("aarch64", python, "dev").keys()
    assert {"onnx", "onnxruntime", "numpy"} <= wanted("aarch64", python).keys()


@pytest.mark.parametrize("python", PYTHONS)
def test_on_x86_64_engines_are_built_without_more(python: str) -> None:
    assert X86_64_ALONE - {"tensorrt-cu13-bindings"} <= wanted("x86_64", python).keys()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_extra_is_what_x86_64_has_anyway(machine: str) -> None:
    base, extra = wanted("x86_64", "3.12"), wanted(machine, "3.12", "cuda13")
    assert {name: str(entry.specifier) for name, entry in extra.items()} == {
        name: str(base[name].specifier) for name in extra
    }
    assert set(wanted("aarch64", "3.10", "jetpack6")) == {"cuda-bindings"}
    assert not wanted("x86_64", "3.10", "jetpack6"), "it would contradict CUDA 13"


@pytest.mark.parametrize("extra", [name for name in PROJECT["optional-dependencies"] if name != "dev"])
def test_no_extra_brings_a_second_onnx_runtime(extra: str) -> None:
    assert "onnxruntime-gpu" not in wanted("x86_64", "3.12", extra)


# Modules whose package has another name, and those that are there where they are of use: arrays of other libraries, and
# the module that Triton gives to the programs it runs.
PACKAGES = {"PIL": "pillow", "cuda": "cuda-bindings", "cupti": "cupti-python", "google": "protobuf"}
NEVER_INSTALLED = {"cupy", "numba", "triton_python_backend_utils"}


def test_what_the_code_imports_is_declared() -> None:
    lines = [*PROJECT["dependencies"], *(line for group in PROJECT["optional-dependencies"].values() for line in group)]
    declared = {Requirement(line).name for line in lines}
    imported = set()
    for path in (path for folder in ("lenet_trt", "export", "plugins") for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {entry.name.partition(".")[0] for entry in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add((node.module or "").partition(".")[0])
    others = imported - set(sys.stdlib_module_names) - {"lenet_trt"} - NEVER_INSTALLED
    assert {"onnx", "PIL", "torch"} <= others
    names = {PACKAGES.get(name, name) for name in others}
    assert {name for name in names if not {name, name.replace("_", "-")} & declared} == set()


def test_every_extra_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [extra for extra in PROJECT["optional-dependencies"] if f"`.[{extra}]`" not in readme]


# Refuses to import what a machine of another kind does not have.
WITHOUT = """
import sys
import zipfile

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {names!r} else found(name, package)
from lenet_trt.cli import main
raise SystemExit(main(sys.argv[1:]))
"""
CUDA_AND_RTX = ("tensorrt_rtx", "tensorrt", "tensorrt_rtx_libs", "cuda", "nvidia")


def without(names: tuple[str, ...], *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a verb where some packages are not installed."""
    words = [sys.executable, "-c", WITHOUT.format(names=names), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.parametrize("verb", ["build", "run", "fuse", "profile", "inspect", "optimize", "bench", "check", "export"])
def test_every_verb_says_its_options_without_cuda_and_tensorrt(verb: str, tmp_path: Path) -> None:
    answer = without(CUDA_AND_RTX, verb, "--help", folder=tmp_path)
    assert answer.returncode == 0, answer.stderr


def test_networks_run_and_are_described_without_cuda_and_tensorrt(lenet5: Path, tmp_path: Path) -> None:
    for arguments in (["doctor"], ["plugins"], ["inspect", str(lenet5)], ["run", str(lenet5), "--batch", "5000"]):
        answer = without(CUDA_AND_RTX, *arguments, folder=tmp_path)
        assert (answer.returncode, answer.stderr) == (0, "")


def test_what_is_missing_is_named_with_the_command_that_installs_it(lenet5: Path, tmp_path: Path) -> None:
    built = without(CUDA_AND_RTX, "build", "--fp32", folder=tmp_path)
    assert built.returncode == 1
    assert "error: no TensorRT is installed: " in built.stderr
    assert "pip install" in built.stderr
    checked = without(CUDA_AND_RTX, "check", "maxpool2", "--only", "compile", folder=tmp_path)
    assert "pip install 'lenet-trt[cuda13]'" in checked.stdout + checked.stderr
    ran = without(("onnxruntime",), "run", str(lenet5), folder=tmp_path)
    assert ran.returncode == 1
    assert "error: ONNX Runtime cannot be imported" in ran.stderr
    assert "pip install" in ran.stderr
    for answer in (built, checked, ran):
        assert "Traceback" not in answer.stderr


def test_doctor_sees_two_onnx_runtimes_that_overwrote_each_other(tmp_path: Path) -> None:
    second = tmp_path / "onnxruntime_gpu-1.22.0.dist-info"
    second.mkdir()
    (second / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 1.22.0\n")
    words = [sys.executable, "-m", "lenet_trt.doctor", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    answer = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    (found,) = (entry for entry in json.loads(answer.stdout) if entry["name"] == "onnxruntime")
    assert not found["ok"]
    assert "onnxruntime-gpu 1.22.0 have overwritten each other" in found["found"]
    assert "pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu" in found["fix"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, made without the network from a copy of what goes into it."""
    pytest.importorskip("setuptools", reason="building a wheel without the network takes setuptools")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in (*HOMES, "pyproject.toml", "setup.py", "README.md", "LICENSE"):
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source)
    program = f"import setuptools.build_meta; setuptools.build_meta.build_wheel({str(target)!r})"
    subprocess.run([sys.executable, "-c", program], cwd=source, check=True, capture_output=True)
    return zipfile.ZipFile(next(target.glob("*.whl")))


def test_every_file_of_the_package_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    inside = set(wheel.namelist())
    missing = [
        path.relative_to(ROOT)
        for folder, home in HOMES.items()
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file()
        and "__pycache__" not in path.parts
        and not (folder == "docs/results" and path.suffix != ".json")
        and f"{home}/{path.relative_to(ROOT / folder)}" not in inside
    ]
    assert not missing
